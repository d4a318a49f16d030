"""gemmsmith check on kernels that take 16-bit numbers as integers: judged as products of those numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

QUIET_NAN = "if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;"
PRODUCT = """
#include <stdint.h>
#include <cuda_fp16.h>
HELPERS
__global__ void mm(const uint16_t* A, const unsigned short* B, uint16_t* C, int M, int N, int K) {
    int n = blockIdx.x * 16 + threadIdx.x, m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += up(A[m * K + k]) * up(B[k * N + n]);
    C[m * N + n] = down(sum);
}
void run(const uint16_t* a, const unsigned short* b, uint16_t* c, int M, int N, int K) {
    mm<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(a, b, c, M, N, K);
}
"""
AS_BF16 = """
__device__ float up(uint16_t h) { return __uint_as_float((unsigned)h << 16); }
__device__ uint16_t down(float x) {
    unsigned bits = __float_as_uint(x);
    IF_NAN
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
"""
AS_FP16 = """
__device__ float up(uint16_t h) { return __half2float(__ushort_as_half(h)); }
__device__ uint16_t down(float x) { return __half_as_ushort(__float2half_rn(x)); }
"""


@pytest.mark.parametrize(("helpers", "dtype"), [(AS_BF16.replace("IF_NAN", QUIET_NAN), "bf16"), (AS_FP16, "fp16")])
def test_right(helpers: str, dtype: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, PRODUCT.replace("HELPERS", helpers), capsys)
    assert (code, found["status"]) == (0, "right"), found
    assert found["trials"][0]["problem"]["dtype"] == dtype


def test_rounding_by_hand_must_pass_on_nan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A carry out of a NaN's bits makes it −0."""
    code, found = check(tmp_path, PRODUCT.replace("HELPERS", AS_BF16.replace("IF_NAN", "")), capsys, "--cures", "0")
    assert (code, found["status"]) == (1, "wrong"), found
    assert "NaN and Inf in A and B" in found["verdict"]
