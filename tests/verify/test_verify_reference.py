"""The references: float64, exact, mod32 and projection, each against a plain loop or an error it must detect."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from gemmsmith.errors import UsageError
from gemmsmith.fills import operands
from gemmsmith.problem import BF16, FP16, FP32, DType, Problem
from gemmsmith.verify.oracles.projection import project, projection_gate, projection_reference
from gemmsmith.verify.oracles.reference import exact_reference, float64_reference, mod32_reference

U = 2.0**-24
LAYOUTS = ["NN", "NT", "TN", "TT"]


def make(m: int, n: int, k: int, layout: str = "NN", dtype: DType = FP32, **scalars: float) -> Problem:
    return Problem(m, n, k, dtype, trans_a=layout[0] == "T", trans_b=layout[1] == "T", **scalars)  # type: ignore[arg-type]


def plain(problem: Problem, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (a.T if problem.trans_a else a), (b.T if problem.trans_b else b)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [FP32, FP16, BF16], ids=str)
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (0.7, -1.3), (0.0, 1.0), (-2.0, 1.0)])
def test_float64_values_and_magnitudes(layout: str, dtype: DType, alpha: float, beta: float) -> None:
    problem = make(5, 7, 11, layout, dtype, alpha=alpha, beta=beta)
    data = operands(problem, "normal", 1)
    reference = float64_reference(problem, data.a, data.b, data.c)
    a, b = (x.astype(float) for x in plain(problem, data.a, data.b))
    for i, j in itertools.product(range(5), range(7)):
        terms = [a[i, k] * b[k, j] for k in range(11)]
        exact = problem.alpha * math.fsum(terms) + problem.beta * float(data.c[i, j])
        scale = abs(problem.alpha) * math.fsum(map(abs, terms)) + abs(problem.beta * float(data.c[i, j]))
        assert reference.value[i, j] == pytest.approx(exact, rel=1e-12, abs=1e-14)
        assert reference.magnitude[i, j] == pytest.approx(scale, rel=1e-12)
    assert not reference.may_overflow.any()
    assert not reference.undecided.any()


POOL = [0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(5))
def test_nan_and_infinity_propagate_as_in_ieee_arithmetic(layout: str, seed: int) -> None:
    """Compared with fp32 arithmetic term by term, on mostly special values."""
    rng = np.random.default_rng(seed)
    problem = make(9, 8, 3, layout, alpha=-1.0, beta=2.0)
    pool = np.array(POOL, dtype=np.float32)
    chance = [0.1, 0.1, 0.3, 0.3, 0.08, 0.08, 0.04]
    a, b, c = (rng.choice(pool, shape, p=chance) for shape in (problem.a_shape, problem.b_shape, problem.c_shape))
    reference = float64_reference(problem, a, b, c)
    left, right = plain(problem, a, b)
    with np.errstate(all="ignore"):
        total = np.zeros((9, 8), np.float32)
        for k in range(3):
            total = total + left[:, k, None] * right[None, k, :]
        expected = np.float32(-1.0) * total + np.float32(2.0) * c
    np.testing.assert_array_equal(reference.value, expected)
    assert np.isnan(expected).any()
    assert np.isinf(expected).any()


@pytest.mark.parametrize("row", [0, 3])
@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_exactly_one_row_is_affected(row: int, special: float) -> None:
    problem = make(4, 5, 6)
    data = operands(problem, "normal", 0)
    data.a[row, 2] = special
    finite = np.isfinite(float64_reference(problem, data.a, data.b, data.c).value)
    assert not finite[row].any()
    assert finite[[i for i in range(4) if i != row]].all()


@pytest.mark.parametrize(("k", "alpha"), [(3, 0.0), (3, -0.0), (0, 0.0), (0, 1.0), (0, math.inf), (0, math.nan)])
@pytest.mark.parametrize("beta", [0.0, -0.0, 1.0])
def test_forbidden_operands_are_not_read(k: int, alpha: float, beta: float) -> None:
    problem = make(2, 2, k, alpha=alpha, beta=beta)
    nan = [np.full(shape, np.nan, np.float32) for shape in (problem.a_shape, problem.b_shape, problem.c_shape)]
    c = nan[2] if beta == 0 else np.ones((2, 2), np.float32)
    reference = float64_reference(problem, nan[0], nan[1], c)
    assert (reference.value == beta).all()
    assert (reference.magnitude == abs(beta)).all()


def test_certain_overflow_is_expected_and_possible_overflow_is_allowed() -> None:
    problem = make(1, 4, 2, alpha=2.0**-20)
    a = np.float32([[2.0**100, 2.0**100]])
    #                   2**131 twice           cancels               2**127 and half      far from it
    b = np.float32([[2.0**31, 2.0**31, 2.0**27, 1.0], [2.0**31, -(2.0**31), -(2.0**26), 1.0]])
    reference = float64_reference(problem, a, b, np.zeros((1, 4), np.float32))
    assert reference.may_overflow.tolist() == [[True, True, True, False]]
    # alpha brings it back in exact arithmetic, but in fp32 the sum was already infinite.
    assert reference.value[0].tolist() == [np.inf, 0.0, 2.0**106, 2.0**81]
    assert reference.exact[0, 0] == 2.0**112


def test_overflow_with_an_infinite_c() -> None:
    problem = make(1, 1, 1, beta=1.0)
    big = np.full((1, 1), 2.0**100, np.float32)
    reference = float64_reference(problem, big, big, np.full((1, 1), -np.inf, np.float32))
    assert np.isnan(reference.value[0, 0])
    assert reference.exact[0, 0] == -np.inf


def test_beta_c_alone_does_not_overflow_inside_an_fma() -> None:
    problem = make(1, 1, 1, beta=2.0)
    a, b, c = (np.full((1, 1), x, np.float32) for x in (-(2.0**64), 2.0**63 * 1.5, 2.0**127))
    assert float64_reference(problem, a, b, c).value[0, 0] == 2.0**126


def test_an_infinite_alpha_leaves_cancelled_signs_undecided() -> None:
    problem = make(1, 2, 2, alpha=math.inf)
    a = np.float32([[1.0, -1.0]])
    b = np.float32([[1.0, 1.0], [1.0, 0.5]])
    assert float64_reference(problem, a, b, np.zeros((1, 2), np.float32)).undecided.tolist() == [[True, False]]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (-3.0, 2.0), (0.0, 1.0), (2.0, -1.0)])
def test_exact_integers(layout: str, alpha: float, beta: float) -> None:
    problem = make(6, 5, 40, layout, alpha=alpha, beta=beta)
    data = operands(problem, "integers", 3)
    left, right = plain(problem, data.a.astype(int), data.b.astype(int))
    expected = [
        [
            int(alpha) * sum(int(left[i, k]) * int(right[k, j]) for k in range(40)) + int(beta) * int(data.c[i, j])
            for j in range(5)
        ]
        for i in range(6)
    ]
    got = exact_reference(problem, data.a, data.b, data.c)
    assert got.dtype == np.int64
    assert got.tolist() == expected


def test_exact_beyond_float64() -> None:
    """33·(2**24 − 1)² is odd and above 2**53."""
    a, b = np.full((1, 33), 2.0**24 - 1, np.float32), np.full((33, 1), 2.0**24 - 1, np.float32)
    assert exact_reference(make(1, 1, 33), a, b, a[:, :1]).tolist() == [[33 * (2**24 - 1) ** 2]]


@pytest.mark.parametrize("scalars", [{"alpha": 0.5}, {"alpha": math.nan}, {"beta": math.inf}, {"beta": 0.1}])
def test_exact_refuses_scalars_that_are_not_integers(scalars: dict[str, float]) -> None:
    one = np.ones((1, 1), np.float32)
    with pytest.raises(UsageError, match="needs an integer"):
        exact_reference(make(1, 1, 1, **scalars), one, one, one)


@pytest.mark.parametrize("value", [0.5, np.nan, np.inf])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_exact_refuses_data_that_is_not_integers(value: float, which: int) -> None:
    data = [np.ones((1, 1), np.float32) for _ in range(3)]
    data[which][0, 0] = value
    with pytest.raises(UsageError, match=f"integers in {'ABC'[which]}"):
        exact_reference(make(1, 1, 1, beta=1.0), *data)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (0.7, -1.3), (0.0, 1.0)])
def test_mod32(layout: str, alpha: float, beta: float) -> None:
    problem = make(4, 3, 17, layout, alpha=alpha, beta=beta)
    data = operands(problem, "bits", 3)
    left, right = plain(problem, data.a.view(np.uint32), data.b.view(np.uint32))
    bits = {x: int(np.float32(x).view(np.uint32)) for x in (alpha, beta)}
    got = mod32_reference(problem, data.a, data.b, data.c)
    for i, j in itertools.product(range(4), range(3)):
        total = sum(int(left[i, k]) * int(right[k, j]) for k in range(17)) if alpha else 0
        total = bits[alpha] * total + (bits[beta] * int(data.c.view(np.uint32)[i, j]) if beta else 0)
        assert int(got[i, j]) == total % 2**32


def test_mod32_without_a_scalar_and_for_other_types() -> None:
    problem = make(2, 2, 3)
    data = operands(problem, "bits", 0)
    wanted = data.a.view(np.uint32) @ data.b.view(np.uint32)
    assert (mod32_reference(problem, data.a, data.b, data.c, alpha_bits=1) == wanted).all()
    with pytest.raises(UsageError, match="fp32 operands"):
        mod32_reference(problem, data.a.view(np.uint16)[:, ::2], data.b, data.c)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(2100, 3, 5), (3, 2100, 5), (3, 5, 2100), (1, 1, 1), (4, 4, 0)])
def test_projection_equals_the_projected_reference(layout: str, shape: tuple[int, int, int]) -> None:
    problem = make(*shape, layout, alpha=0.7, beta=-1.3)
    data = operands(problem, "normal", 2)
    full = float64_reference(problem, data.a, data.b, data.c)
    projection = projection_reference(problem, data.a, data.b, data.c, 9)
    np.testing.assert_allclose(projection.value, full.value @ projection.direction, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(projection.magnitude, full.magnitude @ np.abs(projection.direction), rtol=1e-9)
    assert (np.abs(projection.direction) >= 1).all()
    assert (projection_reference(problem, data.a, data.b, data.c, 9).direction == projection.direction).all()


def test_projection_catches_one_dropped_term_of_4096_in_its_row() -> None:
    problem = make(8, 4096, 4096)
    data = operands(problem, "normal", 0)
    got = (data.a @ data.b).astype(np.float32)
    expected = projection_reference(problem, data.a, data.b, data.c, 1)
    limit = projection_gate(16.0, problem.n)

    def ratios() -> np.ndarray:
        return np.abs(project(got, expected.direction) - expected.value) / (U * expected.magnitude)

    assert (ratios() < limit / 10).all()
    column = int(np.argmax(np.abs(data.b[7])))
    row = int(np.argmax(np.abs(data.a[:, 7])))
    got[row, column] -= data.a[row, 7] * data.b[7, column]
    assert np.flatnonzero(~(ratios() <= limit)).tolist() == [row]
    got[(row + 1) % 8, 0] = np.nan
    assert sorted(np.flatnonzero(~(ratios() <= limit)).tolist()) == sorted([row, (row + 1) % 8])
