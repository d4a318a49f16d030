"""Sizes whose names mislead, and launches that only the kernel's own indices tell."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

COMMON = """
__global__ void mix(const float* A, const float* B, float* C, int Ay, int cWidth, int Bx) {
    int col = blockIdx.x * 8 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    if (row >= Ay || col >= Bx) return;
    float s = 0;
    for (int i = 0; i < cWidth; ++i) s += A[row * cWidth + i] * B[SECOND];
    C[row * Bx + col] = s;
}
void run(const float* A, const float* B, float* C, int Ay, int cWidth, int Bx) {
    mix<<<dim3((Bx + 7) / 8, (Ay + 7) / 8), dim3(8, 8)>>>(A, B, C, Ay, cWidth, Bx);
}
"""
ONE_THREAD = """
__global__ void one(const float* A, const float* B, float* C, int M, int N, int K) {
    int i = blockIdx.ROW, j = blockIdx.COL;
    float s = 0;
    for (int k = 0; k < K; ++k) s += A[i * K + k] * B[k * N + j];
    C[i * N + j] = s;
}
"""
DISTINCT = ("--trial", "M, N and K all different")


@pytest.mark.parametrize(("second", "layout"), [("i * Bx + col", "NN"), ("col * cWidth + i", "NT")])
def test_a_misleading_name_is_tried_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], second: str, layout: str
) -> None:
    code, found = check(tmp_path, COMMON.replace("SECOND", second), capsys, *DISTINCT)
    assert code == 0, found
    assert "Ay is M, cWidth is K, Bx is N" in str(found)
    assert ("B transposed" in str(found)) == (layout == "NT")


def test_no_product_under_any_name_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, COMMON.replace("SECOND", "i * Bx + col / 2"), capsys, *DISTINCT)
    assert code != 0, found
    assert "Ay is M, cWidth is K" not in str(found)


@pytest.mark.parametrize(("row", "col"), [("y", "x"), ("x", "y")])
def test_blocks_of_one_thread(tmp_path: Path, capsys: pytest.CaptureFixture[str], row: str, col: str) -> None:
    code, found = check(tmp_path, ONE_THREAD.replace("ROW", row).replace("COL", col), capsys, *DISTINCT)
    assert code == 0, found
    assert found["launch"]["block"] == [1, 1, 1]


def test_a_wrong_kernel_under_a_guessed_launch_is_not_called_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = ONE_THREAD.replace("ROW", "y").replace("COL", "x").replace("k < K", "k < K - 1")
    code, found = check(tmp_path, source, capsys, *DISTINCT)
    assert code != 0, found


LOOP = """
__global__ void stack(const float* X, const float* Y, float* Z, int B, int M, int N, int K) {
    int col = blockIdx.x * 8 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    if (row >= M || col >= N) return;
    for (int b = 0; b < B; ++b) {
        const float *x = X + b * M * K, *y = Y + b * STEP;
        float s = 0;
        for (int k = 0; k < K; ++k) s += x[row * K + k] * y[k * N + col];
        Z[b * M * N + row * N + col] = s;
    }
}
void run(const float* X, const float* Y, float* Z, int B, int M, int N, int K) {
    stack<<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8)>>>(X, Y, Z, B, M, N, K);
}
"""


@pytest.mark.parametrize(("step", "right"), [("K * N", True), ("K * K", False)])
def test_each_block_makes_a_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str], step: str, right: bool) -> None:
    code, found = check(tmp_path, LOOP.replace("STEP", step), capsys)
    assert (code == 0) == right, found
    assert not right or any("batch" in trial["label"] for trial in found["trials"])


SIDE = """
__global__ void tiled(const float* A, const float* B, float* C, int M, int N, int K, int b) {
    extern __shared__ float tiles[];
    float *As = tiles, *Bs = tiles + b * b;
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * blockDim.y + ty, col = blockIdx.x * blockDim.x + tx;
    float s = 0;
    for (int k = 0; k < K; k += b) {
        As[ty * b + tx] = row < M && k + tx < K ? A[row * K + k + tx] : 0;
        Bs[ty * b + tx] = col < N && k + ty < K ? B[(k + ty) * N + col] : 0;
        __syncthreads();
        for (int i = 0; i < b; i++) s += As[ty * b + i] * Bs[i * b + tx];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = s;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    int b = 8;
    tiled<<<dim3((N + b - 1) / b, (M + b - 1) / b), dim3(b, b), 2 * b * b * sizeof(float)>>>(A, B, C, M, N, K, b);
}
"""


def test_the_side_of_a_tile_ends_loops_and_counts_no_products(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, SIDE, capsys)
    assert code == 0, found
    assert not any("batch" in trial["label"] for trial in found["trials"])
