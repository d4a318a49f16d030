"""gemmsmith check of products with scales: short names, and N as the extent of the sum."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

QUANTIZED = """
#include <cstdint>
__global__ void quantized(const int8_t* a, const int8_t* b, int8_t* c, int M, int N, int K, int zA, int zB, int zC,
                          float sA, float sB, float sC) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= K) return;
    int sum = 0;
    for (int i = 0; i < N; ++i) sum += (a[row * N + i] - zA) * (b[i * K + col] - zB);
    int rounded = (int)roundf(sum * sA * sB / sC) + zC;
    c[row * K + col] = (int8_t)max(-128, min(127, rounded));
}
void run(const int8_t* a, const int8_t* b, int8_t* c, int M, int N, int K) {
    dim3 block(16, 16), grid((K + 15) / 16, (M + 15) / 16);
    quantized<<<grid, block>>>(a, b, c, M, N, K, 1, -2, 3, 0.1f, 0.2f, 0.5f);
}
"""


@pytest.mark.parametrize(("written", "instead"), [("", ""), ("- zB)", ")")])
def test_columns_that_are_called_k(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], written: str, instead: str
) -> None:
    code, found = check(tmp_path, QUANTIZED.replace(written, instead) if written else QUANTIZED, capsys)
    assert code == (0 if not written else 2), found  # no meaning of zB explains a kernel that does not use it
    assert (not written) == (isinstance(found, dict) and found["status"] == "right"), found


DESCRIBED = """
#include <cstdint>
#define TN 32
#define TM 8
// launch: block (TN, TM), grid (ceil(N/TN), ceil(M/TM))
__global__ void __launch_bounds__(TM * TN) w8(const float* act, const int8_t* wq, const float* scale, float* out,
                                              int M, int N, int K) {
    __shared__ float sc[TN];
    int m = blockIdx.y * TM + threadIdx.y, n = blockIdx.x * TN + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += (m < M ? act[m * K + k] : 0.0f) * (n < N ? (float)wq[k * N + n] : 0.0f);
    if (threadIdx.y == TM - 1) sc[threadIdx.x] = n < N ? scale[n] : 0.0f;
    __syncthreads();
    if (m < M && n < N) out[m * N + n] = sum * sc[threadIdx.x];
}
"""


@pytest.mark.parametrize(("written", "instead", "expected"), [("", "", 0), ("    __syncthreads();", "", 1)])
def test_a_launch_that_a_comment_describes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], written: str, instead: str, expected: int
) -> None:
    """A block of 32 rows was guessed, and is more than the kernel allows."""
    code, found = check(tmp_path, DESCRIBED.replace(written, instead) if written else DESCRIBED, capsys)
    assert code == expected, found
