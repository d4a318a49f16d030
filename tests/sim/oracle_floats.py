"""What floating-point instructions and conversions must give: exact rational numbers, rounded once to nearest even.

Written from IEEE 754 and the PTX manual with ``fractions.Fraction``; nothing here is shared with the simulator.
Values are raw bit patterns.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import ceil, floor, isqrt, trunc

from instruction_inputs import FORMATS
from oracle_integers import COMBINE, limits, read, write

# The NaN that an instruction makes itself, as an H200 does; fp64 also passes on the NaN of an operand.
CANONICAL = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0xFFF8 << 48}
Oracle = Callable[..., int]
Infinite = float  # ±inf and nan stand for themselves; every other number is a Fraction
Number = Fraction | Infinite
INF, NAN = float("inf"), float("nan")


def sign_bit(kind: str) -> int:
    fraction, exponent = FORMATS[kind]
    return 1 << (fraction + exponent)


def infinity(kind: str) -> int:
    fraction, exponent = FORMATS[kind]
    return ((1 << exponent) - 1) << fraction


@cache
def power(exponent: int) -> Fraction:
    """2 to an integer power, exactly."""
    return Fraction(2) ** exponent


def is_nan(kind: str, bits: int) -> bool:
    return bits & (sign_bit(kind) - 1) > infinity(kind)


@cache
def decode(kind: str, bits: int) -> Number:
    """The number a pattern stands for (both zeros are 0)."""
    fraction, exponent = FORMATS[kind]
    sign = -1 if bits & sign_bit(kind) else 1
    magnitude = bits & (sign_bit(kind) - 1)
    if magnitude > infinity(kind):
        return NAN
    if magnitude == infinity(kind):
        return sign * INF
    stored, significand = magnitude >> fraction, magnitude & ((1 << fraction) - 1)
    if stored:
        significand |= 1 << fraction
    return sign * Fraction(significand) * power(max(stored, 1) - (1 << (exponent - 1)) + 1 - fraction)


def encode(kind: str, value: Number, negative_zero: bool = False) -> int:
    """A number rounded once to nearest even; ``negative_zero`` is the sign of a zero or of an underflow to it."""
    sign = sign_bit(kind)
    if isinstance(value, float):
        return CANONICAL[kind] if value != value else infinity(kind) | (sign if value < 0 else 0)
    if value == 0:
        return sign if negative_zero else 0
    fraction, exponent = FORMATS[kind]
    least = 2 - (1 << (exponent - 1)) - fraction  # exponent of the smallest subnormal
    size = abs(value)
    scale = size.numerator.bit_length() - size.denominator.bit_length()
    scale -= size < power(scale)
    quantum = max(scale - fraction, least)
    count = round(size * power(-quantum))  # Python rounds halves to even
    magnitude = count + ((quantum - least) << fraction)  # the carry of a round-up lands in the exponent by itself
    return min(magnitude, infinity(kind)) | (sign if value < 0 else 0)


def _negative(kind: str, bits: int) -> bool:
    return bool(bits & sign_bit(kind))


def _add(kind: str, a: int, b: int) -> int:
    x, y = decode(kind, a), decode(kind, b)
    return encode(kind, x + y, _negative(kind, a) and _negative(kind, b) and x == y == 0)


def _subtract(kind: str, a: int, b: int) -> int:
    return _add(kind, a, b ^ sign_bit(kind))


def _times(x: Number, y: Number) -> Number:
    """A product; zero times infinity is NaN, as floats have it."""
    if isinstance(x, float) or isinstance(y, float):
        return float((x > 0) - (x < 0) if x == x else x) * float((y > 0) - (y < 0) if y == y else y) * INF
    return x * y


def _multiply(kind: str, a: int, b: int) -> int:
    return encode(kind, _times(decode(kind, a), decode(kind, b)), _negative(kind, a) != _negative(kind, b))


def _fused(kind: str, a: int, b: int, c: int) -> int:
    product, addend = _times(decode(kind, a), decode(kind, b)), decode(kind, c)
    product_negative = _negative(kind, a) != _negative(kind, b)
    zero = product == addend == 0 and product_negative and _negative(kind, c)
    return encode(kind, product + addend, zero)


def _divide(kind: str, a: int, b: int) -> int:
    x, y = decode(kind, a), decode(kind, b)
    negative = _negative(kind, a) != _negative(kind, b)
    if isinstance(x, float) or isinstance(y, float):
        if x != x or y != y or (isinstance(x, float) and isinstance(y, float)):
            return encode(kind, NAN)
        return encode(kind, -INF if negative else INF) if isinstance(x, float) else encode(kind, Fraction(0), negative)
    if y == 0:
        return encode(kind, NAN if x == 0 else -INF if negative else INF)
    return encode(kind, x / y, negative)


def _root(kind: str, a: int) -> int:
    x = decode(kind, a)
    if isinstance(x, float) or x <= 0:
        return a if x == 0 else encode(kind, x if x > 0 else NAN)
    # 64 more bits than any format has, and a last bit that says whether something is left over: safe to round.
    scaled = x * power(512)
    root = isqrt(floor(scaled))
    exact = root * root == scaled
    return encode(kind, Fraction(2 * root + (not exact)) * power(-257))


def _least(kind: str, a: int, b: int, greatest: bool) -> int:
    """min and max: a number wins over NaN, and −0 is below +0."""
    if is_nan(kind, a) or is_nan(kind, b):
        only = b if is_nan(kind, a) else a
        return encode(kind, NAN) if is_nan(kind, only) else only
    ordered = sorted((a, b), key=lambda bits: (decode(kind, bits), not _negative(kind, bits)))
    return ordered[1 if greatest else 0]


_ARITHMETIC: dict[str, Callable[..., int]] = {
    "add": _add, "sub": _subtract, "mul": _multiply, "fma": _fused, "mad": _fused, "div": _divide, "sqrt": _root,
    "rcp": lambda kind, a: _divide(kind, encode(kind, Fraction(1)), a),
    "min": lambda kind, a, b: _least(kind, a, b, False), "max": lambda kind, a, b: _least(kind, a, b, True),
    "neg": lambda kind, a: CANONICAL[kind] if is_nan(kind, a) else a ^ sign_bit(kind),
    "abs": lambda kind, a: CANONICAL[kind] if is_nan(kind, a) else a & ~sign_bit(kind),
    "mov": lambda _, a: a,
}  # fmt: skip
_ORDERED: dict[str, Callable[[Number, Number], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def meaning(name: str) -> Oracle:
    """The oracle of a floating-point instruction other than cvt."""
    opcode, *modes, kind = name.split(".")
    if opcode == "setp":
        return _setp(modes, kind)
    assert modes in ([], ["rn"])
    if kind == "f64" and opcode != "mov":
        return lambda *values: _passed_nan(opcode, values) or _ARITHMETIC[opcode](kind, *values)
    return lambda *values: _ARITHMETIC[opcode](kind, *values)


def _passed_nan(opcode: str, values: tuple[int, ...]) -> int:
    """The operand's NaN that fp64 passes on, made quiet: the last one's, but the first one's of a division; else 0."""
    nans = [quiet("f64", value) for value in values if is_nan("f64", value)]
    return nans[0 if opcode == "div" else -1] if nans else 0


def quiet(kind: str, bits: int) -> int:
    return bits | 1 << (FORMATS[kind][0] - 1)


def _setp(modes: list[str], kind: str) -> Oracle:
    def compare(a: int, b: int) -> bool:
        unordered = is_nan(kind, a) or is_nan(kind, b)
        if modes[0] in ("num", "nan"):
            return unordered == (modes[0] == "nan")
        if unordered:
            return modes[0].endswith("u")
        return _ORDERED[modes[0].removesuffix("u")](decode(kind, a), decode(kind, b))

    if len(modes) == 1:
        return lambda a, b: int(compare(a, b))
    return lambda a, b, p: int(COMBINE[modes[1]](compare(a, b), bool(p)))


_TO_INTEGER: dict[str, Callable[[Fraction], int]] = {"rzi": trunc, "rni": round, "rmi": floor, "rpi": ceil}


def to_integer(mode: str, to: str, source: str) -> Oracle:
    """cvt from a float: rounds as named and saturates. NaN is 0, but the top bit for fp64 sources or 64-bit results."""
    low, high = limits(to)

    def oracle(a: int) -> int:
        value = decode(source, a)
        if value != value:
            return 1 << (int(to[1:]) - 1) if "64" in source + to else 0
        if isinstance(value, float):
            return write(to, high if value > 0 else low)
        return write(to, min(max(_TO_INTEGER[mode](value), low), high))

    return oracle


def from_integer(to: str, source: str) -> Oracle:
    return lambda a: encode(to, Fraction(read(source, a)))


def between(to: str, source: str) -> Oracle:
    def oracle(a: int) -> int:
        if is_nan(source, a) and ("f64" in (to, source) or source == "bf16"):
            return _carried_nan(to, source, a)
        return encode(to, decode(source, a), _negative(source, a))

    return oracle


def _carried_nan(to: str, source: str, a: int) -> int:
    """A NaN whose sign and payload survive: to and from fp64 (which make it quiet), and from bf16 (a shift)."""
    payload = a & ((1 << FORMATS[source][0]) - 1)
    spare = FORMATS[to][0] - FORMATS[source][0]
    moved = payload << spare if spare >= 0 else payload >> -spare
    bits = infinity(to) | moved | (sign_bit(to) if _negative(source, a) else 0)
    return bits if source == "bf16" else quiet(to, bits)
