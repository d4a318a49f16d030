"""Fills that relate A and B: each has its stated property, in every type, layout and batch."""

from __future__ import annotations

import numpy as np
import pytest

from gemmsmith.fills import Array, operands
from gemmsmith.problem import BF16, FP16, FP32, INT8, TF32, DType, Problem

LAYOUTS = ["NN", "NT", "TN", "TT"]


def product_operands(problem: Problem, fill: str, seed: int = 0) -> tuple[Array, Array]:
    """op(A) and op(B) in float64, from the stored values."""
    data = operands(problem, fill, seed)
    assert data.a.dtype == data.b.dtype == problem.dtype.numpy
    a, b = data.a.astype(np.float64), data.b.astype(np.float64)
    return (a.T if problem.trans_a else a), (b.T if problem.trans_b else b)


def laid_out(m: int, n: int, k: int, layout: str, dtype: DType = FP32) -> Problem:
    return Problem(m, n, k, dtype, trans_a=layout[0] == "T", trans_b=layout[1] == "T")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [FP32, FP16, BF16, TF32, INT8], ids=str)
def test_cancelling_has_positive_terms_and_then_negative_ones(dtype: DType, layout: str) -> None:
    a, b = product_operands(laid_out(12, 14, 40, layout, dtype), "cancelling")
    assert (a >= 0).all()
    assert (b[:20] >= 0).all()
    assert (b[20:] <= 0).all()
    assert np.abs(a @ b).mean() < 0.5 * (np.abs(a) @ np.abs(b)).mean()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_graded_and_skewed_are_normal_times_powers_of_two(layout: str) -> None:
    problem = laid_out(40, 50, 70, layout)
    plain_a, plain_b = product_operands(problem, "normal", 3)
    falling = 2.0 ** -(np.arange(100) % 32)
    a, b = product_operands(problem, "graded", 3)
    assert np.array_equal(a, plain_a * falling[:40, None])
    assert np.array_equal(b, plain_b * falling[:50])
    a, b = product_operands(problem, "skewed", 3)
    assert np.array_equal(a, plain_a * falling[:70])
    assert np.array_equal(b, plain_b / falling[:70, None])
    assert np.array_equal(np.abs(a) @ np.abs(b), np.abs(plain_a) @ np.abs(plain_b))


@pytest.mark.parametrize("fill", ["graded", "skewed"])
def test_graded_fills_fit_fp16(fill: str) -> None:
    a, b = product_operands(Problem(64, 64, 64, FP16), fill)
    for values in (a, b):
        assert np.isfinite(values).all()
        assert (values == 0).mean() < 0.02
        assert (np.abs(values) < 2.0**-14).mean() < 0.05  # hardly any is subnormal


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("dtype", "decades"), [(FP32, 6), (TF32, 6), (FP16, 3), (BF16, 2)], ids=str)
def test_ill_conditioned_operands_cancel(dtype: DType, decades: int, layout: str) -> None:
    a, b = product_operands(laid_out(24, 24, 24, layout, dtype), "ill-conditioned")
    for values in (a, b):
        singular = np.linalg.svd(values, compute_uv=False)
        assert 0.3 < np.log10(singular[0] / singular[-1]) / decades < 1.7
        assert 0.5 < np.sqrt(np.mean(values**2)) < 2
    # Almost everything cancels, and what is left is nearly orthogonal where the type can show it.
    assert np.linalg.norm(a @ b) < 0.5 * 10 ** (-decades / 2) * np.linalg.norm(np.abs(a) @ np.abs(b))
    if dtype == FP32:
        left = np.linalg.svd(a @ b, compute_uv=False)
        assert left[0] / left[-1] < 1.5


@pytest.mark.parametrize("fill", ["cancelling", "graded", "skewed", "ill-conditioned"])
def test_every_product_of_a_batch_has_the_property(fill: str) -> None:
    """One A is shared by all products, and each B fits it."""
    data = operands(Problem(8, 8, 16, batch=3, stride_a=0), fill)
    assert data.a.shape == (8, 16)
    assert data.b.shape == (48, 8)
    a = data.a.astype(np.float64)
    for b in np.split(data.b.astype(np.float64), 3):
        if fill == "cancelling":
            assert (b[8:] <= 0).all()
        elif fill == "graded":
            assert np.abs(b[:, 7]).mean() < np.abs(b[:, 0]).mean() / 20
        elif fill == "skewed":
            assert np.abs(b[15]).mean() > 1000 * np.abs(b[0]).mean()
        else:
            assert np.linalg.norm(a @ b) < 1e-3 * np.linalg.norm(np.abs(a) @ np.abs(b))
