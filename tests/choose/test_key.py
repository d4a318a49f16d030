"""How operands are aligned: what a tensor map can describe, and what TMA loads slowly."""

from __future__ import annotations

import pytest

from gemmsmith.choose.key import alignment, unaligned
from gemmsmith.problem import BF16, Problem


@pytest.mark.parametrize(
    ("problem", "addresses", "bits"),
    [
        (Problem(64, 64, 64, BF16), None, 0), (Problem(64, 64, 63, BF16), None, 1),
        (Problem(64, 63, 64, BF16), None, 2), (Problem(63, 63, 63, BF16, BF16, trans_a=True), None, 7),
        (Problem(1, 64, 63, BF16), None, 0), (Problem(64, 64, 64, BF16, BF16), (8, 16, 2), 5),
        (Problem(64, 68, 64, BF16, BF16, ldb=72), None, 4), (Problem(64, 68, 64, BF16, ldb=72), None, 0),
        (Problem(64, 64, 64, BF16, BF16, ldc=68), None, 4), (Problem(1, 64, 64, BF16, BF16, ldc=68), None, 0),
        (Problem(64, 64, 64, BF16, BF16, batch=2, stride_c=4100), None, 4),
        (Problem(64, 1, 64, BF16), None, 0), (Problem(64, 1, 64, BF16, ldb=3), None, 2), (Problem(64, 1, 64), None, 2),
        (Problem(1, 64, 63, BF16, trans_a=True), None, 0), (Problem(64, 8, 1, BF16), None, 1),
        (Problem(64, 64, 64, BF16, batch=2, stride_a=4100), None, 1),
        (Problem(64, 64, 64, BF16, batch=2, stride_b=0), None, 0),
    ],
)  # fmt: skip
def test_which_matrices_a_tensor_map_cannot_describe(
    problem: Problem, addresses: tuple[int, int, int] | None, bits: int
) -> None:
    assert unaligned(problem, addresses) == bits


@pytest.mark.parametrize(
    ("problem", "addresses", "bits"),
    [
        (Problem(64, 64, 64, BF16), None, 0), (Problem(64, 64, 72, BF16), None, 8),
        (Problem(64, 72, 64, BF16), None, 16), (Problem(64, 72, 72, BF16), None, 24),
        (Problem(72, 64, 64, BF16, trans_a=True), None, 8), (Problem(64, 64, 72, BF16, trans_b=True), None, 24),
        (Problem(64, 64, 80, BF16), None, 0), (Problem(64, 64, 64, BF16, lda=72, ldb=80), None, 8),
        (Problem(64, 64, 64, BF16), (16, 32, 16), 8), (Problem(64, 64, 64, BF16), (8, 48, 0), 1 | 16),
        (Problem(64, 64, 72, BF16, BF16), (2, 0, 2), 1 | 4), (Problem(1, 64, 72, BF16), None, 0),
        (Problem(64, 1, 72, BF16), None, 8), (Problem(64, 64, 64, BF16, batch=2, stride_a=4104), None, 8),
        (Problem(64, 64, 64, BF16, batch=2, stride_b=4112), None, 0),
    ],
)  # fmt: skip
def test_which_operands_are_half_aligned(problem: Problem, addresses: tuple[int, int, int] | None, bits: int) -> None:
    """Bits 3 and 4. Operands that must be copied, or have a single row, are not half aligned."""
    assert alignment(problem, addresses) == bits
    assert alignment(problem, addresses) & 7 == unaligned(problem, addresses)
