"""Which kernels promise indices beyond 2³¹ elements: those that multiply in 64 bits."""

from __future__ import annotations

import pytest

from gemmsmith.verify.long_indices import computes_long_indices

PLACES = "size_t row = blockIdx.y * 16; size_t ty = threadIdx.y; int m = row + ty; "


@pytest.mark.parametrize(("code", "long"), [
    (PLACES + "C[m * K + k] = sum;", False),
    (PLACES + "C[row * K + k] = sum;", True),
    (PLACES + "C[K * (row) + k] = sum;", True),
    (PLACES + "C[(size_t)m * K + k] = sum;", True),
    ("for (size_t k = 0; k < K; ++k) sum += A[row * K + k];", False),
    ("size_t at = (size_t)row * K; C[at] = sum;", True),
    ("int row = blockIdx.y; C[row * K] = sum;", False),
    ("C += (size_t)blockIdx.z * M * N; C[row * N + col] = sum;", False),
    ("int b = blockIdx.z; float *Cb = C + static_cast<size_t>(b) * M * N; Cb[row * N + col] = sum;", False),
    ("size_t b = blockIdx.z; float *Cb = C + b * M * N; Cb[row * N + col] = sum;", False),
    ("const size_t at = (size_t)blockIdx.z * M * N; C[at + row * N + col] = sum;", False),
    ("void f(float *C, long long strideC) { C += blockIdx.z * strideC; C[row * N + col] = sum; }", False),
    ("void f(float *C, int64_t ldc) { C += (int64_t)blockIdx.z * M * ldc; C[row * ldc + col] = sum; }", True),
    ("C += (size_t)blockIdx.z * M * N; C[(size_t)row * N + col] = sum;", True),
    ("C += (size_t)blockIdx.y * M * N; C[row * N + col] = sum;", True),
])  # fmt: skip
def test_what_is_multiplied_in_64_bits(code: str, long: bool) -> None:
    assert computes_long_indices(code) is long
