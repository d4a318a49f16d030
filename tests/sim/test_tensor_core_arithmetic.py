"""The tensor core's sum against exact arithmetic in Python's integers, and what follows from it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tensor_core_cases import FORMATS, float_operands

from gemmsmith.sim.arithmetic.doubles import fma64
from gemmsmith.sim.arithmetic.tensor_core import HOPPER, Accumulation, integer_multiply_add, multiply_add

Array = NDArray[Any]


def parts(bits: int, kind: str) -> tuple[Fraction, int]:
    """(value, exponent as the hardware sees it) of a finite number."""
    form = FORMATS[kind]
    bits >>= form.spare
    fraction = bits & ((1 << form.fraction_bits) - 1)
    field = bits >> form.fraction_bits & ((1 << form.exponent_bits) - 1)
    exponent = max(field, 1) - form.bias
    significand = fraction | (bool(field) << form.fraction_bits)
    sign = -1 if bits >> (form.exponent_bits + form.fraction_bits) else 1
    return sign * significand * Fraction(2) ** (exponent - form.fraction_bits), exponent


def cut(x: Fraction, unit: Fraction) -> Fraction:
    """x towards zero to a multiple of ``unit``."""
    return (abs(x) // unit) * unit * (1 if x >= 0 else -1)


def nearest_half(x: Fraction) -> int:
    """Bits of the fp16 number nearest to x, ties to even; zero is never negative."""
    exponent = -14
    while abs(x) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    units = abs(x) / Fraction(2) ** (exponent - 10)
    whole = units.numerator // units.denominator
    rest = units - whole
    whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    bits = min((exponent + 14) * 1024 + whole, 0x7C00)
    return bits | (x < 0) << 15 if bits else 0


def exactly(kind: str, a: list[int], b: list[int], c: int, how: Accumulation, accumulators: str = "f32") -> int:
    """One dot product by the rule, in exact arithmetic; bits of a number of the accumulators' type."""
    total, top = parts(c, accumulators)
    if accumulators == "f16" and total:  # as fp32 sees it, where it is normal
        top = next(e for e in range(-40, 40) if abs(total) < Fraction(2) ** (e + 1))
    zero = 0
    for start in range(0, len(a), how.block):
        terms = [(total, top)] if total else []
        for x, y in zip(a[start : start + how.block], b[start : start + how.block], strict=True):
            (p, one), (q, two) = parts(x, kind), parts(y, kind)
            if p * q:
                terms.append((p * q, one + two))
        zero = 0
        if not terms:
            continue
        unit = Fraction(2) ** (max(e for _, e in terms) - 23 - how.extra)
        exact = sum((cut(t, unit) for t, _ in terms), Fraction(0))
        if accumulators == "f16":
            assert len(a) <= how.block
            return nearest_half(exact)
        if abs(exact) >= 2**128:
            return 0x7F800000 | (exact < 0) << 31
        top = -126
        while abs(exact) >= Fraction(2) ** (top + 1):
            top += 1
        total = cut(exact, Fraction(2) ** (top - 23))
        zero = (exact < 0) << 31  # a sum too small for fp32 keeps its sign
    return int(np.float32(float(total)).view(np.uint32)) if total else zero


@pytest.mark.parametrize(("kind", "k"), [("f16", 16), ("f16", 8), ("bf16", 16), ("tf32", 8), ("tf32", 4)])
@pytest.mark.parametrize("how", [None, Accumulation(4, 0), Accumulation(8, 1)], ids=["hopper", "4+0", "8+1"])
def test_the_fast_sum_is_the_exact_rule(kind: str, k: int, how: Accumulation | None) -> None:
    how = how or HOPPER[kind]
    o = float_operands(kind, k, part=16)
    a, b = (np.ascontiguousarray(x) for x in (o.a.transpose(2, 1, 0), o.b.transpose(1, 2, 0)))
    c = np.ascontiguousarray(o.c.transpose(1, 2, 0)).view(np.float32)
    fast = multiply_add(kind, a, b, c, how).view(np.uint32)
    checked = 0
    for n, name in enumerate(o.classes):
        if name == "special":
            continue
        for i, j in ((0, 0), (3, 5), (10, 2), (15, 7)):
            expected = exactly(kind, o.a[n, i].tolist(), o.b[n, :, j].tolist(), int(o.c[n, i, j]), how)
            assert int(fast[i, j, n]) == expected, (name, n, i, j)
            checked += 1
    assert checked > 100


@pytest.mark.parametrize("k", [16, 8])
def test_fp16_accumulators_are_rounded_once(k: int) -> None:
    o = float_operands("f16", k, part=8, accumulators="f16")
    a, b = (np.ascontiguousarray(x) for x in (o.a.transpose(2, 1, 0), o.b.transpose(1, 2, 0)))
    c = np.ascontiguousarray(o.c.transpose(1, 2, 0)).view(np.float16)
    fast = multiply_add("f16", a, b, c, HOPPER["f16"]).view(np.uint16)
    for n, name in enumerate(o.classes):
        if name == "special":
            continue
        for i, j in ((0, 0), (3, 5), (10, 2), (15, 7)):
            expected = exactly(
                "f16", o.a[n, i].tolist(), o.b[n, :, j].tolist(), int(o.c[n, i, j]), HOPPER["f16"], "f16"
            )
            assert int(fast[i, j, n]) == expected, (name, n, i, j)


def test_a_fused_multiply_add_of_float64_rounds_once() -> None:
    rng = np.random.default_rng(2)
    a, b, c = rng.standard_normal((3, 3000)) * 2.0 ** rng.integers(-60, 60, (3, 3000))
    c[:1000] = -(a * b)[:1000]
    c[1000:1500] = -(a * b)[1000:1500] * (1 + 2.0**-52)
    a[2000:2300] *= 2.0**-900
    b[2200:2500] *= 2.0**900
    c[2100:2400] *= 2.0**-1000
    exact = [Fraction(x) * Fraction(y) + Fraction(z) for x, y, z in zip(*(v.tolist() for v in (a, b, c)), strict=True)]
    assert fma64(a, b, c).tolist() == [float(x) for x in exact]
    specials = [(np.inf, 0.0, 1.0, np.nan), (1e200, 1e200, -np.inf, -np.inf), (1e200, 1e200, 1.0, np.inf),
                (0.0, 5.0, -0.0, 0.0), (-0.0, 5.0, -0.0, -0.0), (1e-200, 1e-200, 0.0, 0.0)]  # fmt: skip
    for x, y, z, expected in specials:
        found = fma64(*(np.array([v]) for v in (x, y, z)))
        assert np.array_equal(found, [expected], equal_nan=True)
        assert np.isnan(expected) or np.signbit(found[0]) == np.signbit(expected)


def one(kind: str, a: list[float], b: list[float], c: float) -> float:
    """One dot product of up to 16 terms, the rest zeros."""
    store = {"f16": np.float16, "tf32": np.float32}[kind]
    bits = {"f16": np.uint16, "tf32": np.uint32}[kind]
    x, y = (np.array([*v, *[0.0] * (16 - len(v))]).astype(store).view(bits)[:, None, None] for v in (a, b))
    return float(multiply_add(kind, x, y, np.full((1, 1, 1), c, np.float32), HOPPER[kind])[0, 0, 0])


def test_small_terms_are_cut_off_before_they_are_added() -> None:
    tiny = [2.0**-13] * 15
    assert one("f16", [1.0, *tiny], [1.0, *tiny], 0.0) == 1.0  # each 2^-26 is lost, though together they are 15 · 2^-26
    assert one("f16", tiny, tiny, 0.0) == 15 * 2.0**-26
    assert one("f16", [1.0, 2.0**-12, 2.0**-12], [1.0, 2.0**-13, 2.0**-13], 0.0) == 1.0  # kept, and cut from the sum
    assert one("f16", [1.0, -1.0, 2.0**-12], [1.0, 1.0, 2.0**-13], 0.0) == 2.0**-25


def test_sums_are_cut_and_not_rounded() -> None:
    assert one("f16", [1.0, 2.0**-12], [1.0, 1.5 * 2.0**-12], 0.0) == 1.0  # 1 + 0.75 units
    assert one("f16", [-1.0, -(2.0**-11)], [1.0, 1.75 * 2.0**-12], 0.0) == -1.0 - 2.0**-23  # -(1 + 1.75 units)


def test_the_order_of_terms_does_not_matter() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 16)) * 2.0 ** rng.integers(-6, 6, (2, 16))
    orders = [rng.permutation(16) for _ in range(20)]
    assert len({one("f16", list(a[o]), list(b[o]), 0.3) for o in orders}) == 1


@pytest.mark.parametrize(("a", "b", "c", "expected"), [
    ([np.inf], [1.0], 0.0, np.inf), ([np.inf], [-1.0], 5.0, -np.inf), ([np.inf], [0.0], 1.0, np.nan),
    ([np.inf, np.inf], [1.0, -1.0], 0.0, np.nan), ([np.inf], [1.0], -np.inf, np.nan), ([np.nan], [0.0], 0.0, np.nan),
    ([1.0], [1.0], np.nan, np.nan), ([1.0], [1.0], -np.inf, -np.inf), ([0.0], [1.0], 2.0**-149, 2.0**-149),
])  # fmt: skip
def test_special_values(a: list[float], b: list[float], c: float, expected: float) -> None:
    for kind in ("f16", "tf32"):
        assert np.array_equal(one(kind, a, b, c), expected, equal_nan=True)


def test_zero_is_positive_and_overflow_infinite() -> None:
    assert np.signbit(one("f16", [-0.0] * 16, [1.0] * 16, -0.0)) == np.False_
    assert np.signbit(one("f16", [1.0, -1.0], [1.0, 1.0], -0.0)) == np.False_
    assert one("tf32", [2.0**127, 2.0**127], [1.0, 1.0], 0.0) == np.inf
    assert one("tf32", [-(2.0**100)], [2.0**100], 0.0) == -np.inf
    assert one("tf32", [2.0**100, -(2.0**100)], [2.0**100, 2.0**100], 0.0) == 0.0  # a product alone does not overflow


def test_bits_that_tf32_does_not_have_are_ignored() -> None:
    assert one("tf32", [1.0 + 2.0**-11], [1.0 + 2.0**-23], 0.0) == 1.0


def test_bytes_wrap_or_saturate() -> None:
    a, b = np.full((32, 1, 1), 127, np.int8), np.full((32, 1, 1), 255, np.uint8)
    near = np.full((1, 1, 1), 2**31 - 1, np.int32)
    assert int(integer_multiply_add(a, b, near, saturate=True)[0, 0, 0]) == 2**31 - 1
    assert int(integer_multiply_add(a, b, near, saturate=False)[0, 0, 0]) == 2**31 - 1 + 32 * 127 * 255 - 2**32
    assert int(integer_multiply_add(-a, b, -near, saturate=True)[0, 0, 0]) == -(2**31)
