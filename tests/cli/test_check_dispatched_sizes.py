"""gemmsmith check on host code that sends some sizes to another kernel, and on indices beyond 2³² elements."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

DISPATCHED = """
__global__ void whole(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[16][16], b[16][16];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += 16) {
        a[y][x] = A[row * K + k + x];
        b[y][x] = B[(k + y) * N + col];
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += a[y][i] * b[i][x];
        __syncthreads();
    }
    C[row * N + col] = sum;
}
__global__ void any(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 block(16, 16), grid((N + 15) / 16, (M + 15) / 16);
    HOST
}
"""
LAUNCH = "<<<grid, block>>>(A, B, C, M, N, K);"


@pytest.mark.parametrize(("host", "status"), [
    (f"if (M % 16 == 0 && N % 16 == 0) whole{LAUNCH} else any{LAUNCH}", "wrong"),
    (f"if (M % 16 == 0 && N % 16 == 0 && K % 16 == 0) whole{LAUNCH} else any{LAUNCH}", "whole_tiles"),
    (f"if (M % 16 == 0 && N % 16 == 0) whole{LAUNCH}", "whole_tiles"),  # no other kernel for other sizes
    (f"// K is a multiple of 16\\n if (M % 16 == 0 && N % 16 == 0) whole{LAUNCH} else any{LAUNCH}", "whole_tiles"),
])  # fmt: skip
def test_an_extent_that_the_dispatch_forgets(
    host: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = DISPATCHED.replace("HOST", host.replace("\\n", "\n"))
    code, found = check(tmp_path, text, capsys, "--entry", "whole")
    assert isinstance(found, dict), found
    assert (code, found["status"]) == (status == "wrong", status), found["verdict"]


UNSIGNED = """
__global__ void gemm(size_t M, size_t N, size_t K, const float* A, size_t lda, const float* B, size_t ldb, float* C,
                     size_t ldc) {
    unsigned row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (size_t k = 0; k < K; ++k) sum += A[ROW * lda + k] * B[k * ldb + col];
    C[(size_t)row * ldc + col] = sum;
}
void run(size_t M, size_t N, size_t K, const float* A, size_t lda, const float* B, size_t ldb, float* C, size_t ldc) {
    gemm<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(M, N, K, A, lda, B, ldb, C, ldc);
}
"""


@pytest.mark.parametrize(("index", "status"), [("row * lda", "right"), ("row * (unsigned)lda", "wrong")])
def test_unsigned_offsets_beyond_32_bits(
    index: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A product in unsigned 32 bits counts more than 2³¹ elements, and not 2³² of them."""
    text = UNSIGNED.replace("ROW * lda", index)
    code, found = check(tmp_path, text, capsys)
    assert isinstance(found, dict), found
    assert (code, found["status"]) == (status == "wrong", status), found["verdict"]
    assert any("2³²" in trial["label"] for trial in found["trials"]), found["trials"]
