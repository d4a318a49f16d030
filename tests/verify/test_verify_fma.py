"""fma32 against exact rational arithmetic, and the ordered reference built on it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from gemmsmith.fills import operands
from gemmsmith.problem import BF16, FP16, FP32, DType, Problem
from gemmsmith.verify.oracles.fma import fma32, mul32, ordered_fma_reference

F32 = np.ndarray
COUNT = 1500


def rational_fma(a: float, b: float, c: float) -> np.float32:
    """a·b + c, rounded once, in integer arithmetic; for finite arguments."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        negative = bool(np.signbit(a) ^ np.signbit(b)) and bool(np.signbit(c)) and Fraction(c) == 0
        return np.float32(-0.0 if negative else 0.0)
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    quantum = Fraction(2) ** (max(exponent, -126) - 23)
    rounded = round(size / quantum) * quantum  # Fraction rounds half to even
    magnitude = np.inf if rounded >= 2**128 else float(rounded)
    return np.float32(magnitude if exact > 0 else -magnitude)


def patterns(rng: np.random.Generator, count: int = COUNT) -> F32:
    """Finite fp32 numbers of all exponents."""
    bits = rng.integers(0, 2**32, 2 * count, dtype=np.uint32).view(np.float32)
    return bits[np.isfinite(bits)][:count]


def random_patterns(rng: np.random.Generator) -> tuple[F32, F32, F32]:
    return patterns(rng), patterns(rng), patterns(rng)


def similar_exponents(rng: np.random.Generator) -> tuple[F32, F32, F32]:
    a, b, c = (rng.standard_normal(COUNT).astype(np.float32) for _ in range(3))
    return a, b, c * np.exp2(rng.integers(-30, 30, COUNT)).astype(np.float32)


def ties(rng: np.random.Generator) -> tuple[F32, F32, F32]:
    """Products half-way between two fp32 numbers (25 bits, odd), with an addend far below float64's last bit."""
    a = rng.integers(2**11, 2**12, COUNT) * 2 + 1
    b = rng.integers(2**11, 2**12, COUNT) * 2 + 1
    product = a * b
    keep = (product >= 2**24) & (product < 2**25)
    scale = np.exp2(rng.integers(-20, 20, COUNT))
    tiny = rng.choice([1.0, -1.0, 0.0], COUNT) * np.exp2(rng.integers(-149, -70, COUNT).astype(np.float64))
    return ((a * scale)[keep].astype(np.float32), b[keep].astype(np.float32), tiny[keep].astype(np.float32))


def ties_with_large_addend(rng: np.random.Generator) -> tuple[F32, F32, F32]:
    """c plus a product of exactly half of c's last bit, or off by one part in 2**40."""
    c = np.ldexp(rng.integers(2**23, 2**24, COUNT).astype(np.float64), rng.integers(-60, 60, COUNT))
    half = np.exp2(np.floor(np.log2(c)) - 24)
    nudge = rng.choice([1.0, 1 + 2.0**-23, 1 - 2.0**-24], COUNT)
    other = rng.choice([1.0, 1 + 2.0**-23, 1 - 2.0**-24], COUNT) * rng.choice([-1.0, 1.0], COUNT)
    return nudge.astype(np.float32), (half * other).astype(np.float32), c.astype(np.float32)


def subnormals(rng: np.random.Generator) -> tuple[F32, F32, F32]:
    a = rng.standard_normal(COUNT) * np.exp2(rng.integers(-80, -60, COUNT))
    b = rng.standard_normal(COUNT) * np.exp2(rng.integers(-80, -60, COUNT))
    c = rng.integers(-(2**22), 2**22, COUNT) * 2.0**-149
    return a.astype(np.float32), b.astype(np.float32), c.astype(np.float32)


def subnormal_ties(rng: np.random.Generator) -> tuple[F32, F32, F32]:
    """Products of an odd number of 2**−150: half of the smallest spacing."""
    odd = rng.integers(0, 2**10, COUNT) * 2 + 1
    sign = rng.choice([-1.0, 1.0], COUNT)
    c = rng.integers(-(2**10), 2**10, COUNT) * 2.0**-149
    return (odd * 2.0**-75).astype(np.float32), (sign * 2.0**-75).astype(np.float32), c.astype(np.float32)


def near_overflow(rng: np.random.Generator) -> tuple[F32, F32, F32]:
    largest = float(np.finfo(np.float32).max)
    ulps = rng.choice([0.0, 0.25, 0.5, 0.5 + 2.0**-20, 0.5 - 2.0**-20, 1.0], COUNT) * 2.0**104
    sign = rng.choice([-1.0, 1.0], COUNT)
    return (
        (sign * ulps * 2.0**-52).astype(np.float32),
        np.full(COUNT, 2.0**52, np.float32),
        (sign * rng.choice([largest, largest - 2.0**104], COUNT)).astype(np.float32),
    )


def cancellation(rng: np.random.Generator) -> tuple[F32, F32, F32]:
    a, b = patterns(rng), patterns(rng)
    with np.errstate(over="ignore", under="ignore"):
        c = -(a * b)
    keep = np.isfinite(c)
    return a[keep], b[keep], c[keep]


def zeros(rng: np.random.Generator) -> tuple[F32, F32, F32]:
    pool = np.array([0.0, -0.0, 1.0, -1.0, 2.0**-149, -(2.0**-149)], dtype=np.float32)
    return rng.choice(pool, 400), rng.choice(pool, 400), rng.choice(pool, 400)


FAMILIES = [
    random_patterns, similar_exponents, ties, ties_with_large_addend, subnormals, subnormal_ties, near_overflow,
    cancellation, zeros,
]  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("seed", [1, 2])
def test_fma32_rounds_once(family: Callable[[np.random.Generator], tuple[F32, F32, F32]], seed: int) -> None:
    a, b, c = family(np.random.default_rng(seed))
    assert len(a) > 200
    got = fma32(a, b, c)
    expected = np.array([rational_fma(*map(float, t)) for t in zip(a, b, c, strict=True)], dtype=np.float32)
    wrong = np.flatnonzero(got.view(np.uint32) != expected.view(np.uint32))
    assert not wrong.size, [(a[i], b[i], c[i], got[i], expected[i]) for i in wrong[:3]]


@pytest.mark.parametrize("family", [ties, subnormal_ties, ties_with_large_addend], ids=lambda f: f.__name__)
def test_separate_rounding_of_the_product_fails(family: Callable) -> None:
    """The families are hard: an fp32 product followed by an fp32 sum gets them wrong."""
    a, b, c = family(np.random.default_rng(1))
    with np.errstate(all="ignore"):
        assert ((a * b + c).view(np.uint32) != fma32(a, b, c).view(np.uint32)).any()


def test_rounding_twice_fails_on_ties() -> None:
    """float64 arithmetic followed by a cast is not a correct fma32."""
    a, b, c = ties(np.random.default_rng(1))
    twice = (a.astype(np.float64) * b + c).astype(np.float32)
    assert (twice != fma32(a, b, c)).sum() > 100


INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(
    ("a", "b", "c", "bits"),
    [
        (INF, 1, 1, 0x7F800000), (INF, -1, 1, 0xFF800000), (INF, 0, 1, 0x7FFFFFFF), (0, -INF, 1, 0x7FFFFFFF),
        (INF, 1, -INF, 0x7FFFFFFF), (INF, 1, INF, 0x7F800000), (NAN, 1, 1, 0x7FFFFFFF), (1, NAN, 1, 0x7FFFFFFF),
        (1, 1, NAN, 0x7FFFFFFF), (1, 1, -INF, 0xFF800000), (3e38, 3e38, -INF, 0xFF800000), (3e38, 3e38, 0, 0x7F800000),
        (3e38, -3e38, 3e38, 0xFF800000), (-0.0, 1, -0.0, 0x80000000), (-0.0, 1, 0.0, 0), (1, 1, -1, 0),
        (2.0**-100, -(2.0**-100), 0.0, 0x80000000), (0, NAN, 0, 0x7FFFFFFF),
    ],
)  # fmt: skip
def test_special_values(a: float, b: float, c: float, bits: int) -> None:
    got = fma32(np.float32([a]), np.float32([b]), np.float32([c]))
    assert int(got.view(np.uint32)[0]) == bits


def test_a_signalling_nan_becomes_canonical() -> None:
    signalling = np.array([0x7F800001, 0xFFC00001], dtype=np.uint32).view(np.float32)
    one = np.ones(2, np.float32)
    assert (fma32(signalling, one, one).view(np.uint32) == 0x7FFFFFFF).all()
    assert (mul32(signalling, one).view(np.uint32) == 0x7FFFFFFF).all()


@pytest.mark.parametrize("dtype", [FP32, FP16, BF16], ids=str)
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (0.7, -1.3), (0.0, 2.0), (-0.0, 0.0), (1.0, 1.0)])
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_the_ordered_reference_equals_the_loop(dtype: DType, alpha: float, beta: float, layout: str) -> None:
    problem = Problem(
        3, 4, 9, dtype, alpha=alpha, beta=beta, trans_a=layout[0] == "T", trans_b=layout[1] == "T"
    )  # fmt: skip
    data = operands(problem, "normal", 4)
    got = ordered_fma_reference(problem, data.a, data.b, data.c)
    a = (data.a.T if problem.trans_a else data.a).astype(float)
    b = (data.b.T if problem.trans_b else data.b).astype(float)
    for i in range(3):
        for j in range(4):
            value = np.float32(0)
            if alpha != 0:
                for k in range(9):
                    value = rational_fma(a[i, k], b[k, j], float(value))
                value = rational_fma(problem.alpha, float(value), -0.0)
            if beta != 0:
                value = rational_fma(problem.beta, float(data.c[i, j]), float(value))
            assert got[i, j].tobytes() == value.tobytes()


def test_the_reference_depends_on_the_order() -> None:
    problem = Problem(4, 4, 200)
    data = operands(problem, "normal", 1)
    forward = ordered_fma_reference(problem, data.a, data.b, data.c)
    backward = ordered_fma_reference(problem, data.a[:, ::-1], data.b[::-1], data.c)
    assert (forward != backward).any()
    np.testing.assert_allclose(forward, backward, rtol=0, atol=1e-4)


@pytest.mark.parametrize("alpha", [np.inf, np.nan, -0.0, 0.0])
def test_no_product_gives_plus_zero(alpha: float) -> None:
    problem = Problem(2, 2, 0 if alpha != 0 else 3, alpha=alpha)
    a = np.full(problem.a_shape, np.nan, np.float32)
    b = np.full(problem.b_shape, np.nan, np.float32)
    c = np.full((2, 2), np.nan, np.float32)
    assert (ordered_fma_reference(problem, a, b, c).view(np.uint32) == 0).all()
