"""What a wrong kernel multiplied in place of A's or B's elements, from its result alone."""

from __future__ import annotations

import numpy as np
import pytest

from gemmsmith.verify.faults.seen_operands import seen_operands
from gemmsmith.verify.faults.wrong_places import boxes

M, N, K = 64, 96, 48


def operands(kind: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    if kind == "integers":
        return rng.integers(-60, 61, (M, K)).astype(float), rng.integers(-60, 61, (K, N)).astype(float)
    return rng.standard_normal((M, K)), rng.standard_normal((K, N))


@pytest.mark.parametrize("kind", ["integers", "normal"])
def test_a_right_product_says_nothing(kind: str) -> None:
    a, b = operands(kind)
    assert seen_operands(a, b, a @ b) == ""


@pytest.mark.parametrize("kind", ["integers", "normal"])
@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (np.arange(K) % 4 == 0, "only the terms of every 4th k (0, 4, 8, ...) are in the sums (k goes from 0 to 47)"),
        (np.arange(K) % 16 < 12, "the terms of k = 12 to 15 of each 16 are left out of the sums (k goes from 0 to 47)"),
        (1 + (np.arange(K) == 7), "the terms of k = 7 are added twice (k goes from 0 to 47)"),
    ],
    ids=["one-of-four", "last-of-sixteen", "twice"],
)
def test_terms_that_are_left_out_or_added_twice(kind: str, weights: np.ndarray, said: str) -> None:
    a, b = operands(kind)
    assert seen_operands(a, b, (a * weights) @ b) == said


@pytest.mark.parametrize("kind", ["integers", "normal"])
def test_registers_of_a_fragment_that_are_interchanged(kind: str) -> None:
    a, b = operands(kind)
    tiles = a.reshape(M // 16, 2, 8, K // 8, 2, 4)
    swapped = tiles.transpose(0, 4, 2, 3, 1, 5).reshape(M, K)
    assert seen_operands(a, b, swapped @ b) == (
        "in place of A[r][k] the kernel multiplies A[r + 8][k - 4] for rows 0 to 7 of each 16, k = 4 to 7 of each 8, "
        "and A[r - 8][k + 4] for rows 8 to 15 of each 16, k = 0 to 3 of each 8"
    )


@pytest.mark.parametrize("kind", ["integers", "normal"])
def test_tiles_with_rows_and_columns_swapped(kind: str) -> None:
    a, b = operands(kind)
    swapped = b.reshape(K // 16, 16, N // 16, 16).transpose(0, 3, 2, 1).reshape(K, N)
    assert "B with rows and columns swapped inside each tile of 16x16" in seen_operands(a, b, a @ swapped)


def test_an_offset_of_one_operand() -> None:
    a, b = operands("normal")
    moved = np.where(np.arange(K)[:, None] % 8 == 7, b, np.roll(b, -1, axis=0))
    assert (
        seen_operands(a, b, a @ moved)
        == "in place of B[k][c] the kernel multiplies B[k + 1][c] for k = 0 to 6 of each 8"
    )


@pytest.mark.parametrize("noise", [1.0, np.nan])
def test_what_follows_from_nothing_is_not_said(noise: float) -> None:
    a, b = operands("normal")
    wrong = a @ b + noise * np.random.default_rng(1).standard_normal((M, N))
    assert seen_operands(a, b, wrong) == ""


def test_rectangles_of_outputs() -> None:
    mask = np.zeros((64, 128), bool)
    mask[:32, :32] = mask[32:, 32:64] = True
    assert boxes(mask) == "rows < 32 with columns < 32; rows >= 32 with columns 32 to 63"
    assert boxes(np.random.default_rng(0).random((64, 64)) < 0.5) == ""
