"""Patterns of wrong outputs: where they are, and what they equal instead."""

from __future__ import annotations

import numpy as np
import pytest

from gemmsmith.fills import operands
from gemmsmith.problem import FP64, Problem
from gemmsmith.verify.faults.diagnosis import reasons
from gemmsmith.verify.faults.wrong_places import places
from gemmsmith.verify.faults.wrong_sums import sums
from gemmsmith.verify.oracles.compare import Comparison

SHAPE = (64, 96)
PLACES = [
    (np.s_[32:, :], "rows >= 32"), (np.s_[:8, :], "rows < 8"), (np.s_[16:32, :], "rows 16 to 31"),
    (np.s_[5, :], "row 5"),
    (np.s_[:, 64:], "columns >= 64"), (np.s_[:, 1::2], "every 2nd column (1, 3, 5, ...)"),
    (np.s_[3::4, :], "every 4th row (3, 7, 11, ...)"), (np.s_[:, :], ""), (np.s_[16:32, 8:16], ""),
    (np.s_[32:, 1::3], "rows >= 32, but only every 3rd column (1, 4, 7, ...)"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "wanted"), PLACES)
def test_rows_and_columns_in_words(where: tuple[slice, slice], wanted: str) -> None:
    wrong = np.zeros(SHAPE, bool)
    wrong[where] = True
    assert places(wrong) == wanted


def test_part_of_each_tile() -> None:
    wrong = np.zeros(SHAPE, bool)
    wrong.reshape(4, 16, 96)[:, 8:, :] = True
    assert places(wrong) == "rows 8 to 15 of each 16"


def test_scattered_outputs_have_no_pattern() -> None:
    wrong = np.random.default_rng(1).random(SHAPE) < 0.05
    assert places(wrong) == ""


@pytest.mark.parametrize("fill", ["integers", "normal"])
@pytest.mark.parametrize("layout", [(False, False), (True, True)])
def test_what_wrong_outputs_equal(fill: str, layout: tuple[bool, bool]) -> None:
    problem = Problem(48, 40, 64, alpha=0.75, beta=-1.5, trans_a=layout[0], trans_b=layout[1])
    data = operands(problem, fill, 3)
    a = (data.a.T if layout[0] else data.a).astype(np.float64)
    b = (data.b.T if layout[1] else data.b).astype(np.float64)
    right = np.asarray(0.75 * (a @ b) - 1.5 * data.c, np.float64)

    def said(got: np.ndarray) -> list[str]:
        got = got.astype(np.float32)
        return sums(problem, data, got, right, np.abs(got - right) > 1e-3)

    def without(terms: slice) -> np.ndarray:
        return right - 0.75 * (a[:, terms] @ b[terms])

    assert said(without(np.s_[48:])) == [
        "the wrong outputs equal the sum without the terms of k >= 48 (k goes from 0 to 63)"
    ]
    assert "k < 16 (" in said(without(np.s_[:16]))[0]
    assert "k = 16 to 23 (" in said(without(np.s_[16:24]))[0]
    assert "k = 63, the last (" in said(without(np.s_[63:]))[0]
    twice = right + 0.75 * (a[:, 32:48] @ b[32:48])
    assert said(twice) == ["the wrong outputs equal the sum with the terms of k = 32 to 47 added twice"]
    assert "beta * C is not in them" in said(0.75 * (a @ b))[0]
    assert "alpha is not in them" in said(a @ b - 1.5 * data.c)[0]
    assert said(2 * right) == ["each wrong output is 2 times what it should be"]
    assert said(_shifted(right)) == [
        "each wrong row holds the values of the row 1 after it (rows < 47)"]  # fmt: skip
    assert said(right + np.random.default_rng(0).standard_normal(right.shape) * 50) == []


def _shifted(right: np.ndarray) -> np.ndarray:
    """Each row but the last holds the row after it."""
    return np.vstack([right[1:], right[-1:]])


def test_outputs_that_are_off_by_one_number() -> None:
    problem = Problem(64, 64, 64)
    data = operands(problem, "integers", 0)
    right = data.a.astype(np.float64) @ data.b.astype(np.float64)
    wrong = np.zeros(right.shape, bool)
    wrong[:, 1::2] = True
    assert sums(problem, data, right + wrong, right, wrong) == ["each wrong output is 1 more than it should be"]
    assert sums(problem, data, right - 3 * wrong, right, wrong) == ["each wrong output is 3 less than it should be"]
    assert sums(problem, data, right + 0.5 * wrong, right, wrong) == [], "half of C is right: the layout is known"


def test_outputs_that_are_rounded_too_often() -> None:
    problem = Problem(32, 32, 64, dtype=FP64, out_dtype=FP64)
    data = operands(problem, "normal", 0)
    right = data.a @ data.b
    wrong = np.ones(right.shape, bool)
    in_fp32 = (data.a.astype(np.float32) @ data.b.astype(np.float32)).astype(float)
    (found,) = sums(problem, data, in_fp32, right, wrong)
    assert found.startswith("the wrong outputs are nearly right")
    assert found.endswith("fp32 numbers had been in between")
    assert "without the terms" in sums(problem, data, right - np.outer(data.a[:, -1], data.b[-1]), right, wrong)[0]


@pytest.mark.parametrize(
    ("rows", "columns", "wanted"),
    [
        (slice(8, 24), slice(None), "wrong: products 1 and 2 of the batch of 3, counted from 0; the others are right"),
        (slice(16, 20), slice(None), "wrong: product 2 of the batch of 3, counted from 0, in rows < 4; the others are"),
        (slice(None), slice(3, 4), "wrong: column 3; the rest of C is right"),
    ],
)
def test_outputs_of_a_batch_are_named_by_its_products(rows: slice, columns: slice, wanted: str) -> None:
    problem = Problem(8, 5, 4, batch=3)
    expected = np.ones((24, 5))
    got = expected.astype(np.float32)
    got[rows, columns] = 7
    wrong = got != expected
    comparison = Comparison(wrong.astype(float), wrong, got, expected, 0.0)
    said = reasons(problem, got, comparison, np.zeros(got.shape, bool), "exact")
    assert any(wanted in each for each in said), said
    first = np.argwhere(got == 7)[0]
    assert f"the first at ({first[0] % 8}, {first[1]}) of product {first[0] // 8} of the batch" in said[0]
