"""The accuracy study: the four measures by hand, known arithmetics, and visible mistakes."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from gemmsmith.errors import UsageError
from gemmsmith.fills import Array, operands
from gemmsmith.problem import BF16, FP16, FP32, INT8, Problem
from gemmsmith.verify.oracles.accuracy_study import (
    DISTRIBUTIONS,
    Plan,
    Point,
    Subject,
    compensated_product,
    distributions_for,
    measured,
    ratios,
    study,
)
from gemmsmith.verify.oracles.fma import ordered_fma_reference

U = 2.0**-24


def fp32_product(a: Array, b: Array) -> Array:
    problem = Problem(a.shape[0], b.shape[1], a.shape[1])
    return ordered_fma_reference(problem, a.astype(np.float32), b.astype(np.float32), np.zeros(problem.c_shape))


def to_tf32(values: Array) -> Array:
    """Round to ten fraction bits, to nearest."""
    return ((values.view(np.uint32) + 0x1000) & np.uint32(0xFFFFE000)).view(np.float32)


def tf32_product(a: Array, b: Array) -> Array:
    return (to_tf32(a).astype(np.float64) @ to_tf32(b).astype(np.float64)).astype(np.float32)


def bf16_terms(values: Array) -> list[Array]:
    parts, rest = [], values.astype(np.float32)
    for _ in range(3):
        parts.append(rest.astype(ml_dtypes.bfloat16).astype(np.float32))
        rest = rest - parts[-1]
    return parts


def bf16x6(dropped: tuple[int, int] | None = None) -> Any:
    """Split each operand into three bf16 parts and add six products; one may be left out."""

    def product(a: Array, b: Array) -> Array:
        left, right = bf16_terms(a), bf16_terms(b)
        terms = [(i, j) for i in range(3) for j in range(3) if i + j <= 2 and (i, j) != dropped]
        return sum(left[i].astype(np.float64) @ right[j].astype(np.float64) for i, j in terms).astype(np.float32)

    return product


def only(subject: Subject, **plan: Any) -> list[Point]:
    made = Plan(**{"m": 48, "n": 40, "depths": (64,), "distributions": ("normal",)} | plan)
    return list(study([subject], made))


def test_the_four_measures_by_hand() -> None:
    exact = np.array([[1.0, 2.0], [4.0, -8.0]])
    got = np.array([[1.0, 2.5], [4.0, -7.0]], dtype=np.float32)
    magnitude = np.array([[1.0, 4.0], [5.0, 10.0]])
    errors = measured(got, exact, magnitude, 0.01)
    assert errors.frobenius == pytest.approx(math.sqrt(1.25 / 85))
    assert errors.largest == pytest.approx(0.5 / 4 / 0.01)
    assert errors.mean == pytest.approx((0.125 + 0.1) / 4 / 0.01)
    assert errors.relative == pytest.approx(0.25)


def test_relative_errors_skip_tiny_components_but_not_small_rows() -> None:
    exact = np.array([[1.0, 1.0, 1e-6], [1.0, 1.0, 1.0], [1e-9, 1e-9, 1e-9]])
    got = exact.copy()
    got[0, 2] = 2e-6  # wrong by 100 %, but there by chance
    assert measured(got, exact, np.abs(exact), U).relative == 0
    got[2, 0] = 1.5e-9  # as large as its row has them
    assert measured(got, exact, np.abs(exact), U).relative == pytest.approx(0.5)


def test_a_zero_reference() -> None:
    nothing = np.zeros((2, 2))
    right = measured(nothing, nothing, nothing, U)
    assert (right.frobenius, right.largest, right.mean) == (0, 0, 0)
    assert math.isnan(right.relative)
    wrong = measured(np.eye(2), nothing, nothing, U)
    assert (wrong.frobenius, wrong.largest) == (math.inf, math.inf)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_non_finite_result_has_infinite_errors(value: float) -> None:
    def product(a: Array, b: Array) -> Array:
        c = fp32_product(a, b)
        c[1, 2] = value
        return c

    (point,) = only(Subject("broken", "fp32", product))
    assert {point.errors.frobenius, point.errors.largest, point.errors.mean, point.errors.relative} == {math.inf}
    assert point.wrong


def test_exact_sums_have_no_error() -> None:
    for point in only(Subject("fp32", "fp32", fp32_product), distributions=("integers",), depths=(1, 100, 1000)):
        assert (point.errors.frobenius, point.errors.largest, point.errors.mean, point.errors.relative) == (0, 0, 0, 0)
        assert not point.wrong


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_fp32_stays_within_its_gate_on_every_distribution(distribution: str) -> None:
    points = only(Subject("fp32", "fp32", fp32_product), distributions=(distribution,), depths=(16, 256))
    for point in points:
        assert not point.wrong
        assert 0.5 < point.errors.largest < point.gate / 1.9
        assert 0 < point.errors.mean < point.errors.largest / 2
    # On positive data errors grow with the partial sums, on zero-mean data they do not.
    assert (points[1].errors.largest > 2 * points[0].errors.largest) == (
        distribution in ("uniform", "wide", "cancelling")
    )


def test_norms_show_errors_that_components_do_not() -> None:
    """Component-wise these data are as easy as normal data, but cancellation destroys the product."""
    normal, hard, cancelling = (
        only(Subject("fp32", "fp32", fp32_product), distributions=(name,), depths=(128,))[0].errors
        for name in ("normal", "ill-conditioned", "cancelling")
    )
    assert normal.frobenius < 1e-6
    assert hard.frobenius > 1000 * normal.frobenius
    assert hard.largest < 4 * normal.largest
    assert cancelling.frobenius > 3 * normal.frobenius


def test_the_error_of_tf32_is_about_its_roundoff() -> None:
    """The error of one product of two rounded factors is at most 2·2**−11, and some come close."""
    (point,) = only(Subject("tf32", "tf32", tf32_product), depths=(1,), m=128, n=128)
    assert point.unit == 2.0**-11
    assert 1.7 < point.errors.largest <= 2.001
    assert 2.0**-13 < point.errors.frobenius < 2.0**-11
    assert not point.wrong
    (as_fp32,) = only(Subject("tf32", "fp32", tf32_product), depths=(1,))
    assert as_fp32.unit == U
    assert as_fp32.errors.largest > 8192
    assert as_fp32.wrong


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_dropped_low_term_is_visible(distribution: str) -> None:
    """Six bf16 products are as accurate as fp32; without one of the smallest, 2**−16 of a factor is lost."""
    whole, less = (
        only(Subject("bf16x6", "fp32", product), distributions=(distribution,), depths=(32,))[0]
        for product in (bf16x6(), bf16x6(dropped=(2, 0)))
    )
    assert whole.errors.largest < 3
    assert not whole.wrong
    assert less.errors.largest > 10 * whole.errors.largest
    assert less.wrong
    assert less.errors.largest * U < 2.0**-15


def test_lost_bits_of_small_elements_are_visible_on_skewed_data() -> None:
    """fp16 parts with a scale per row or column are right on normal data, but not if small elements matter."""

    def scaled(values: Array, axis: int) -> Array:
        scale = np.exp2(np.floor(np.log2(np.abs(values).max(axis=axis, keepdims=True))))
        high = (values / scale).astype(np.float16).astype(np.float32)
        low = (values / scale - high).astype(np.float16).astype(np.float32)
        return ((high.astype(np.float64) + low) * scale).astype(np.float64)

    def product(a: Array, b: Array) -> Array:
        return (scaled(a, 1) @ scaled(b, 0)).astype(np.float32)

    plain, graded, skewed = only(Subject("fp16x3", "fp32", product), distributions=("normal", "graded", "skewed"))
    assert not plain.wrong
    assert not graded.wrong
    assert skewed.wrong


def test_compensated_products_are_exact_where_float64_is_not() -> None:
    rng = np.random.default_rng(0)
    a = (rng.standard_normal((3, 40)) * 2.0 ** rng.integers(-10, 10, (3, 40))).astype(np.float32)
    b = (rng.standard_normal((40, 4)) * 2.0 ** rng.integers(-10, 10, (40, 4))).astype(np.float32)
    a, b = np.hstack([a, -a, a[:, :1] * 0 + 1]), np.vstack([b, b, b[:1] * 0 + np.float32(2.0**-40)])
    got = compensated_product(a, b)
    for i in range(3):
        for j in range(4):
            exact = sum(
                (Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a[i], b[:, j], strict=True)), Fraction()
            )
            assert got[i, j] == float(exact) == 2.0**-40
    assert (a.astype(np.float64) @ b.astype(np.float64) != got).any()


def test_a_result_better_than_float64_is_compared_with_a_compensated_product() -> None:
    data = operands(Problem(48, 40, 64), "wide")
    plain = data.a.astype(np.float64) @ data.b.astype(np.float64)
    assert (plain != compensated_product(data.a, data.b)).any()
    (point,) = only(Subject("better", "fp32", compensated_product), distributions=("wide",))
    assert point.errors.largest == 0


def test_all_subjects_get_the_same_operands_and_cannot_change_them() -> None:
    seen: list[tuple[bytes, bytes]] = []

    def product(a: Array, b: Array) -> Array:
        seen.append((a.tobytes(), b.tobytes()))
        c = fp32_product(a, b)
        a[:], b[:] = 0, 0
        return c

    points = list(study([Subject("x", "fp32", product), Subject("y", "fp32", product)],
                        Plan(8, 8, (8,), ("normal",), seeds=2)))  # fmt: skip
    assert seen[0] == seen[1]
    assert seen[2] == seen[3]
    assert seen[0] != seen[2]
    assert points[0].errors == points[1].errors
    assert 0 < points[0].errors.largest < 16


def test_seeds_are_merged() -> None:
    subject = Subject("fp32", "fp32", fp32_product)
    (all_of_them,) = only(subject, seeds=4, depths=(32,))
    data = [operands(Problem(48, 40, 32), "normal", seed) for seed in range(4)]
    each = [
        measured(fp32_product(d.a, d.b), d.a.astype(np.float64) @ d.b, np.abs(d.a).astype(np.float64) @ np.abs(d.b), U)
        for d in data
    ]
    assert each[0].largest < max(e.largest for e in each)
    assert each[0].relative < max(e.relative for e in each)
    assert all_of_them.seeds == 4
    assert all_of_them.errors.largest == pytest.approx(max(e.largest for e in each))
    assert all_of_them.errors.relative == pytest.approx(max(e.relative for e in each))
    assert all_of_them.errors.mean == pytest.approx(np.mean([e.mean for e in each]))
    assert all_of_them.errors.frobenius == pytest.approx(np.mean([e.frobenius for e in each]))


def test_16_bit_operands_are_judged_as_stored() -> None:
    for dtype in (FP16, BF16):
        (point,) = only(Subject("fp32", "fp32", fp32_product), dtype=dtype)
        assert 0 < point.errors.largest < 4  # the rounding to 16 bits is no part of the error


def test_distributions_of_a_type() -> None:
    assert distributions_for(FP32) == DISTRIBUTIONS
    assert distributions_for(INT8) == ("normal", "uniform", "cancelling")


def test_incomplete_points_are_dropped_at_the_time_limit() -> None:
    now = [0.0]

    def product(a: Array, b: Array) -> Array:
        now[0] += 1.0
        return fp32_product(a, b)

    plan = Plan(8, 8, (4, 8, 16), ("normal",), seeds=2, seconds=5.0)
    told: list[str] = []
    points = list(study([Subject("x", "fp32", product)], plan, told.append, lambda: now[0]))
    assert [point.k for point in points] == [4, 8]
    assert len(told) == 5


def test_ratios_use_the_worst_point_in_one_unit() -> None:
    def fake(name: str, k: int, largest: float, unit: float, frobenius: float) -> Point:
        errors = measured(np.eye(2), np.eye(2), np.ones((2, 2)), U)
        errors = type(errors)(frobenius, largest, 0.0, 0.0)
        return Point("normal", k, name, "fp32", unit, errors, 16.0, False, 1)

    points = [fake("x", 1, 2.0, U, 1e-7), fake("y", 1, 1.0, U, 2e-7), fake("x", 2, 4.0, U, 0.0),
              fake("y", 2, 1.0, 8 * U, 0.0), fake("x", 3, 0.0, U, 3e-7), fake("y", 3, 0.0, U, 1e-7)]  # fmt: skip
    by_component, by_norm = ratios(points, "x", "y")
    assert (by_component.measure, by_component.value, by_component.k) == ("largest", 2.0, 1)
    assert by_norm.measure == "frobenius"
    assert by_norm.value == pytest.approx(3)
    assert by_norm.k == 3
    assert ratios([fake("x", 1, 1.0, U, 1.0), fake("y", 1, 0.0, U, 0.0)], "x", "y")[0].value == math.inf


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"m": 0}, "M must be 1 or more"),
        ({"depths": ()}, "K must be 1 or more"),
        ({"depths": (16, 0)}, "K must be 1 or more"),
        ({"seeds": 0}, "--seeds must be 1 or more"),
        ({"seconds": -1.0}, "time limit"),
        ({"seconds": math.nan}, "time limit"),
        ({"distributions": ("gaussian",)}, "unknown fill 'gaussian'"),
        ({"distributions": ("specials",)}, "cannot be measured"),
        ({"distributions": ()}, "no distribution"),
    ],
)
def test_invalid_plans_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        only(Subject("fp32", "fp32", fp32_product), **changes)


def test_a_product_of_another_shape_is_refused() -> None:
    with pytest.raises(UsageError, match="the product is"):
        only(Subject("turned", "fp32", lambda a, b: fp32_product(a, b).T))
