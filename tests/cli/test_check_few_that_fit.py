"""gemmsmith check of kernels of which usual shapes tell too little: an instance for ragged rows, blocks with several
tiles, a launch with K and N exchanged, formulas that look like a product that is added to C."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

INSTANCES = """
template <bool VEC>
__global__ void tn(const float* A, const float* B, float* C, int M, int N, int K) {
    int m = blockIdx.y * 16 + threadIdx.y, n = blockIdx.x * 16 + threadIdx.x;
    if (m >= M || n >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[k * M + m] * B[k * N + n];
    if (VEC || MORE) C[m * N + n] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 grid((N + 15) / 16, (M + 15) / 16);
    if (M % 4 == 0 && N % 4 == 0) tn<true><<<grid, dim3(16, 16)>>>(A, B, C, M, N, K);
    else tn<false><<<grid, dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize(("more", "status"), [("true", "right"), ("n < N - N % 16", "wrong")])
def test_an_instance_for_ragged_rows(
    more: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One row and one column alone would be taken for A by rows."""
    found = check(tmp_path, INSTANCES.replace("MORE", more), capsys)[1]
    assert {each["status"] for each in found.get("kernels", [found])} <= {status, "right"}
    assert status in str(found)


PERSISTENT = """
__global__ void persistent(const float* A, const float* B, float* C, int M, int N, int K, int tiles_n, int tiles) {
    float sum = 0.0f;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        RESET
        int row = tile / tiles_n * 16 + threadIdx.y, col = tile % tiles_n * 16 + threadIdx.x;
        if (row >= M || col >= N) continue;
        for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
        C[row * N + col] = sum;
    }
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    int sms = 0;
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
    int tiles_n = (N + 15) / 16, tiles = tiles_n * ((M + 15) / 16), blocks = tiles < 4 * sms ? tiles : 4 * sms;
    persistent<<<blocks, dim3(16, 16)>>>(A, B, C, M, N, K, tiles_n, tiles);
}
"""


@pytest.mark.parametrize(("reset", "status"), [("sum = 0.0f;", "right"), ("", "wrong")])
def test_what_a_block_leaves_for_its_next_tile(
    reset: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tmp_path, PERSISTENT.replace("RESET", reset), capsys)[1]["status"] == status


EXCHANGED = """
__global__ void tiled(const float* A, const float* B, float* C, int M, int K, int N) {
    int row = blockIdx.x * 32 + threadIdx.y, col = blockIdx.y * 128 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
int main() {
    int M = 1024, K = 512, N = 2048;
    float *A, *B, *C;
    tiled<<<dim3(M / 32, N / 128), dim3(128, 8)>>>(A, B, C, M, N, K);
}
"""


def test_a_launch_with_k_and_n_exchanged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its grid has no blocks for a K below 128, since host code takes that for N."""
    assert check(tmp_path, EXCHANGED, capsys)[1]["status"] == "wrong"


RESIDUAL = """
// H <- H + relu(X W)
__global__ void update(const float* X, const float* W, float* H, int rows, int inner, int width) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= rows || col >= width) return;
    float sum = 0.0f;
    for (int k = 0; k < inner; ++k) sum += X[row * inner + k] * W[k * width + col];
    H[row * width + col] += RESULT;
}
void run(const float* X, const float* W, float* H, int rows, int inner, int width) {
    update<<<dim3((width + 31) / 32, (rows + 7) / 8), dim3(32, 8)>>>(X, W, H, rows, inner, width);
}
"""


@pytest.mark.parametrize(("result", "status"), [("fmaxf(sum, 0.0f)", "right"), ("sum", "right"),
                                                ("row < 40 ? sum : 0.0f", "wrong")])  # fmt: skip
def test_what_is_added_to_c(result: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, RESIDUAL.replace("RESULT", result), capsys)[1]["status"] == status


CLAMPED = """
__global__ void parts(const float* A, const float* B, float* C, int M, int N, int K, int slices) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = blockIdx.z; k < K; k += slices) sum += A[row * K + k] * B[k * N + col];
    atomicAdd(C + row * N + col, sum);
}
void run(const float* A, const float* B, float* C, int M, int N, int K, int slices) {
    if (slices < 1) slices = 1;
    if (slices > 64) slices = 64;
    cudaMemset(C, 0, sizeof(float) * M * N);
    parts<<<dim3((N + 15) / 16, (M + 15) / 16, slices), dim3(16, 16)>>>(A, B, C, M, N, K, slices);
}
"""


def test_a_number_of_parts_that_host_code_clamps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = check(tmp_path, CLAMPED, capsys)[1]
    assert (found["status"], found["launch"]["grid"][2]) == ("right", 4)


CONSTANTS = """
#define NI 64
#define NJ 96
#define NK 128
__global__ void gemm(const float* A, const float* B, float* C) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (j >= NJ) return;
    float sum = 0.0f;
    for (int k = 0; k < NK; ++k) sum += A[i * NK + k] * B[k * NJ + j];
    C[i * NJ + j] = sum;
}
void run(const float* A, const float* B, float* C) {
    dim3 threads = 32;
    gemm<<<dim3((NJ + threads.x - 1) / threads.x, NI), threads>>>(A, B, C);
}
"""


def test_constants_called_ni_nj_nk_and_a_dim3_made_of_a_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = check(tmp_path, CONSTANTS, capsys)[1]
    assert (found["status"], found["launch"]["block"]) == ("right", [32, 1, 1])
