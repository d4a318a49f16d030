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
])  # fmt: skip
def test_what_is_multiplied_in_64_bits(code: str, long: bool) -> None:
    assert computes_long_indices(code) is long
