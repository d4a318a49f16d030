"""gemmsmith check on kernels that take all of their arguments in one struct: its members mean what they would alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import QUICK, check

LAST_BLOCK = """
struct Args { const float *X, *W; float* Y; float* partial; int* counter; int M, N, K, kper; };
__global__ void reduce_last(Args p) {
    __shared__ int last;
    int m = blockIdx.y * 16 + threadIdx.y, n = blockIdx.x * 16 + threadIdx.x;
    int tile = blockIdx.y * gridDim.x + blockIdx.x, tiles = gridDim.x * gridDim.y;
    int begin = blockIdx.z * p.kper, end = min(p.K, begin + p.kper);
    float sum = 0.0f;
    if (m < p.M && n < p.N)
        for (int k = begin; k < end; ++k) sum += p.X[m * p.K + k] * p.W[n * p.K + k];
    p.partial[(blockIdx.z * tiles + tile) * 256 + threadIdx.y * 16 + threadIdx.x] = sum;
    FENCE
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) last = atomicAdd(&p.counter[tile], 1) == gridDim.z - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    sum = 0.0f;
    for (int z = 0; z < gridDim.z; ++z) sum += p.partial[(z * tiles + tile) * 256 + threadIdx.y * 16 + threadIdx.x];
    if (m < p.M && n < p.N) p.Y[m * p.N + n] = sum;
}
void run(Args p, int splits) {
    p.kper = (p.K + splits - 1) / splits;
    reduce_last<<<dim3((p.N + 15) / 16, (p.M + 15) / 16, (p.K + p.kper - 1) / p.kper), dim3(16, 16)>>>(p);
}
"""


@pytest.mark.parametrize(("fence", "expected"), [("__threadfence();", (0, "right")), ("", (1, "racy"))])
def test_workspace_and_counter_in_the_struct(
    fence: str, expected: tuple[int, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    label = "random data"
    code, found = check(tmp_path, LAST_BLOCK.replace("FENCE", fence), capsys, "--trial", label)
    assert (code, found["status"]) == expected, found


BATCHED = """
struct Batch { const float *A, *B; float* C; long long sA, sB, sC; int M, N, K; };
// Launch: grid (ceil(N / 16), ceil(M / 16), batch), block (16, 16)
__global__ void bmm(Batch d) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= d.M || col >= d.N) return;
    const float *a = d.A + blockIdx.z * d.sA, *b = d.B + blockIdx.z * STRIDE;
    float sum = 0.0f;
    for (int k = 0; k < d.K; ++k) sum += a[row * d.K + k] * b[k * d.N + col];
    d.C[blockIdx.z * d.sC + row * d.N + col] = sum;
}
"""


@pytest.mark.parametrize(("stride", "expected"), [("d.sB", 0), ("d.sA", 1)])
def test_strides_of_a_batch_in_the_struct(
    stride: str, expected: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, BATCHED.replace("STRIDE", stride), capsys)
    assert code == expected, found
    assert any(trial["problem"].get("batch", 1) > 1 for trial in found["trials"]), found["trials"]


LEADING = """
struct Call { const float* A; long long strideA; int lda; const float* B; long long strideB; int ldb;
              float* C; long long strideC; int ldc; int M, N, K, batch; };
__global__ void strided(Call p) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= p.M || col >= p.N) return;
    float sum = 0.0f;
    for (int k = 0; k < p.K; ++k)
        sum += p.A[blockIdx.z * p.strideA + row * p.lda + k] * p.B[blockIdx.z * p.strideB + k * p.ldb + col];
    p.C[blockIdx.z * p.strideC + row * p.ldc + col] = sum;
}
void run(const Call& p) { strided<<<dim3((p.N + 15) / 16, (p.M + 15) / 16, p.batch), dim3(16, 16)>>>(p); }
"""


def test_leading_dimensions_beside_strides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, LEADING, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found


CHUNKS = """
__global__ void tiny(int m, int n, int k, const float* A, int lda, long long strideA, const float* B, int ldb,
                     long long strideB, float* C, int ldc, long long strideC, int batch, int chunk) {
    int first = blockIdx.x * chunk, i = threadIdx.x % m, j = threadIdx.x / m;
    const float *a = A + first * strideA, *b = B + first * strideB;
    for (int z = first; z < min(first + chunk, batch); ++z) {
        float sum = 0.0f;
        for (int p = 0; p < k; ++p) sum += a[i + p * lda] * b[p + j * ldb];
        C[z * strideC + i + j * ldc] = sum;
        a += STEP;
        b += strideB;
    }
}
void run(int m, int n, int k, const float* A, int lda, long long sA, const float* B, int ldb, long long sB, float* C,
         int ldc, long long sC, int batch) {
    tiny<<<(batch + 3) / 4, m * n>>>(m, n, k, A, lda, sA, B, ldb, sB, C, ldc, sC, batch, 4);
}
"""


@pytest.mark.parametrize(("step", "expected"), [("strideA", 0), ("(long long)lda * k", 1)])
def test_strides_of_a_batch_in_chunks(
    step: str, expected: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The block has a thread for each element of C, so that only small products have a launch."""
    code, found = check(tmp_path, CHUNKS.replace("STEP", step), capsys)
    assert code == expected, found
