"""Operand values for the instruction tests: pools of bit patterns by kind of operand and class of input.

A pool holds rows of four values, one for each operand position, so that a class can relate operands to one another
(nearly equal integers, sums that cancel, products that end halfway between two floats). Everything is drawn from
``random.Random`` with a name as seed: the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

CLASSES = ("special", "random", "boundary", "near", "mixed", "small")
ROWS = {"special": 640, "random": 640, "boundary": 160, "near": 160, "mixed": 160, "small": 160}
Row = tuple[int, int, int, int]

# Significand bits (stored) and exponent bits of each floating-point format.
FORMATS = {"f16": (10, 5), "bf16": (7, 8), "f32": (23, 8), "f64": (52, 11)}
PAIRS = ("f16x2", "bf16x2")


def pool_of(argument: str) -> str:
    """The pool an argument's values come from: named after a colon, or by its type."""
    kind, _, named = argument.partition(":")
    if named:
        return named
    if kind in FORMATS or kind in ("pred", *PAIRS):
        return kind
    width = int("".join(c for c in kind if c.isdigit()))
    return f"i{max(16, width)}"  # bytes live in 16-bit registers, with arbitrary bits above


@cache
def pool(name: str, input_class: str) -> tuple[Row, ...]:
    """The rows of a pool for one class of input."""
    random = Random(f"{name}/{input_class}")
    draw = _drawer(name, input_class)
    return tuple(draw(random) for _ in range(ROWS[input_class]))


def _drawer(name: str, input_class: str) -> Callable[[Random], Row]:
    if name in FORMATS:
        return lambda random: _float_row(random, name, input_class)
    if name in PAIRS:
        return lambda random: _pair_row(random, name.removesuffix("x2"), input_class)
    if name.startswith("i"):
        return lambda random: _integer_row(random, int(name[1:]), input_class)
    single: dict[str, Callable[[Random, str], int]] = {
        "pred": lambda random, _: random.randrange(2),
        "shift": _shift,
        "field": _field,
        "toint32": lambda random, kind: _to_integer(random, "f32", kind),
        "toint64": lambda random, kind: _to_integer(random, "f64", kind),
        "narrow": _narrow,
        "single": _single,
        "offset": lambda random, _: random.randrange(-33, 34) % (1 << 32),
    }
    return lambda random: _row(lambda: single[name](random, input_class))


def _row(draw: Callable[[], int]) -> Row:
    return draw(), draw(), draw(), draw()


# -- integers -------------------------------------------------------------------------------------


def _special_integer(random: Random, width: int) -> int:
    top = 1 << (width - 1)
    values = (0, 1, 2, 3, -1, -2, top, top - 1, top + 1, 7, 31, 32, 0x80, 0x7F, 0xFF, 0x100, 0x5555555555555555,
              0xAAAAAAAAAAAAAAAA, 0x8000, 0x7FFF, 0xFFFF, 0x80000000, 0x7FFFFFFF, 0xFFFFFFFF)  # fmt: skip
    return random.choice(values) % (1 << width)


def _boundary_integer(random: Random, width: int) -> int:
    """Sums of two powers of two and a little: halfway cases when rounded to a float, carries when added."""
    value = (1 << random.randrange(width)) + random.choice((-1, 1)) * (1 << random.randrange(width))
    return (random.choice((-1, 1)) * value + random.randrange(-1, 2)) % (1 << width)


def _integer_row(random: Random, width: int, input_class: str) -> Row:
    mask = (1 << width) - 1
    if input_class == "special":
        return _row(lambda: _special_integer(random, width))
    if input_class == "random":
        return _row(lambda: random.getrandbits(width))
    if input_class == "boundary":
        return _row(lambda: _boundary_integer(random, width))
    if input_class == "near":
        base = random.choice((random.getrandbits(width), _special_integer(random, width)))
        return _row(lambda: (base + random.randrange(-1, 2)) & mask)
    if input_class == "mixed":
        return _row(lambda: random.choice((_special_integer(random, width), random.getrandbits(width))))
    return _row(lambda: random.randrange(-20, 21) & mask)


def _shift(random: Random, input_class: str) -> int:
    if input_class == "random":
        return random.getrandbits(32)
    if input_class in ("special", "mixed"):
        return random.choice((0, 1, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 127, 128, 255, 256, 1 << 31, 2**32 - 1))
    return random.randrange(70)


def _field(random: Random, input_class: str) -> int:
    if input_class == "random":
        return random.getrandbits(32)
    if input_class in ("special", "mixed"):
        return random.choice((0, 1, 7, 8, 16, 31, 32, 33, 63, 64, 65, 128, 255, 256, 257, 2**32 - 1))
    return random.randrange(36 if input_class == "small" else 70)


# -- floating point -------------------------------------------------------------------------------


@cache
def special_floats(kind: str) -> tuple[int, ...]:
    """Zeros, subnormals, one and its neighbours, the largest, infinities, NaN of every sort; both signs."""
    fraction, exponent = FORMATS[kind]
    one = ((1 << (exponent - 1)) - 1) << fraction
    infinity = ((1 << exponent) - 1) << fraction
    positive = (0, 1, 2, (1 << fraction) - 1, 1 << fraction, (1 << fraction) + 1, one - (1 << fraction), one - 1, one,
                one + 1, one + (1 << fraction), one + (3 << (fraction - 1)), infinity - 1, infinity - (1 << fraction),
                infinity, infinity + 1, infinity | (1 << (fraction - 1)), infinity | ((1 << fraction) - 1))  # fmt: skip
    sign = 1 << (fraction + exponent)
    return (*positive, *(sign | bits for bits in positive))


def _float_row(random: Random, kind: str, input_class: str) -> Row:
    fraction, exponent = FORMATS[kind]
    if input_class == "special":
        return _row(lambda: random.choice(special_floats(kind)))
    if input_class == "random":
        return _row(lambda: random.getrandbits(1 + fraction + exponent))
    if input_class == "boundary":
        return _row(lambda: _extreme(random, kind))
    if input_class == "near":
        return random.choice((_cancelling, _halfway, _almost_subnormal))(random, kind)
    if input_class == "mixed":
        return _row(lambda: random.choice((random.choice(special_floats(kind)), _moderate(random, kind, fraction))))
    return _row(lambda: _moderate(random, kind, 4))


def _pair_row(random: Random, kind: str, input_class: str) -> Row:
    """Two numbers in a word, each drawn as a single one is."""
    low, high = _float_row(random, kind, input_class), _float_row(random, kind, input_class)
    first, second, third, fourth = (a | b << 16 for a, b in zip(low, high, strict=True))
    return first, second, third, fourth


def _moderate(random: Random, kind: str, significant: int) -> int:
    """A number of moderate size with only ``significant`` fraction bits in use."""
    fraction, exponent = FORMATS[kind]
    bias = (1 << (exponent - 1)) - 1
    return _compose(kind, random.randrange(2), bias + random.randrange(-6, 7),
                    random.getrandbits(significant) << (fraction - significant))  # fmt: skip


def _compose(kind: str, sign: int, exponent: int, fraction: int) -> int:
    stored, bits = FORMATS[kind]
    exponent = min(max(exponent, 0), (1 << bits) - 2)
    return (sign << (stored + bits)) | (exponent << stored) | (fraction % (1 << stored))


def _extreme(random: Random, kind: str) -> int:
    """Near zero, near the largest, or where products of two become subnormal."""
    fraction, exponent = FORMATS[kind]
    top = (1 << exponent) - 2
    bias = top // 2
    wanted = random.choice((0, 0, 1, 2, top, top - 1, bias // 2, bias // 2 + 1, bias + bias // 2, bias, bias + 1))
    return _compose(kind, random.randrange(2), wanted, random.getrandbits(fraction))


def _cancelling(random: Random, kind: str) -> Row:
    """a·b is close to −c, and a close to b."""
    fraction, exponent = FORMATS[kind]
    bias = (1 << (exponent - 1)) - 1
    a = _compose(kind, 0, bias + random.randrange(-3, 4), random.getrandbits(fraction))
    b = a + random.randrange(-2, 3)
    c = _compose(kind, 1, 2 * (a >> fraction) - bias, 2 * (a % (1 << fraction)) + random.randrange(-2, 3))
    return a, b, c, b


def _halfway(random: Random, kind: str) -> Row:
    """c plus half of its last place, give or take something far below: where rounding twice goes wrong."""
    fraction, exponent = FORMATS[kind]
    bias = (1 << (exponent - 1)) - 1
    scale = random.randrange(bias // 4)
    sign = random.randrange(2)
    c = _compose(kind, random.randrange(2), bias + scale, random.getrandbits(fraction))
    low = random.choice((0, 1, (1 << fraction) - 1, 1 << (fraction - 1)))
    a = _compose(kind, sign, bias + scale - fraction - 1, low)
    b = _compose(kind, 0, bias, random.choice((0, 0, 1, (1 << fraction) - 1)))
    return a, b, c, a


def _almost_subnormal(random: Random, kind: str) -> Row:
    """Sums that end within a hair of the smallest normal number."""
    fraction, exponent = FORMATS[kind]
    bias = (1 << (exponent - 1)) - 1
    c = (1 << fraction) - random.randrange(0, 3)
    # (1 − 2^−f)·(1 + 2^−f)·2^e is just below 2^e: half of the last place of a subnormal.
    half = 1 - fraction - 1 - bias
    below, above = random.choice(((2, 1), (2, 1), (1, 0), (2, 0), (1, 1), (2, 2)))
    a = _compose(kind, random.choice((0, 0, 1)), half // 2 - 1 + bias, (1 << fraction) - below)
    b = _compose(kind, 0, half - half // 2 + bias, above)
    return a, b, c | (random.choice((0, 0, 1)) << (fraction + exponent)), c


def _to_integer(random: Random, kind: str, input_class: str) -> int:
    """Numbers near an integer type's limits, and halves."""
    fraction, exponent = FORMATS[kind]
    bias = (1 << (exponent - 1)) - 1
    if input_class in ("special", "random", "mixed"):
        return _float_row(random, kind, input_class)[0]
    if input_class == "boundary":
        around = random.choice((31, 32, 63, 64))
        return _compose(kind, random.randrange(2), bias + around, 0) + random.randrange(-2, 3)
    if input_class == "near":
        return _compose(kind, random.randrange(2), bias + random.randrange(-2, 66), random.getrandbits(fraction))
    halves = random.randrange(64)
    return _moderate(random, kind, 3) if halves < 8 else _half_integer(kind, halves, random.randrange(2))


def _half_integer(kind: str, halves: int, sign: int) -> int:
    """±halves/2, for halves of at least 1."""
    fraction, exponent = FORMATS[kind]
    bias = (1 << (exponent - 1)) - 1
    length = halves.bit_length()
    return _compose(kind, sign, bias + length - 2, halves << (fraction + 1 - length))


def _narrow(random: Random, input_class: str) -> int:
    """fp32 numbers around the ranges and the halfway points of fp16 and bf16."""
    if input_class in ("special", "random", "mixed"):
        return _float_row(random, "f32", input_class)[0]
    if input_class == "boundary":
        return _compose("f32", random.randrange(2), 127 + random.choice((-26, -25, -24, -15, -14, 15, 16, 127, -126)),
                        random.choice((0, 1, 0x7FFFFF, 0x7FE000, 0x7FF000, random.getrandbits(23))))  # fmt: skip
    dropped = random.choice((13, 16))
    tie = (random.getrandbits(23 - dropped) << dropped) + (1 << (dropped - 1)) + random.randrange(-1, 2)
    spread = range(-26, 17) if input_class == "near" else range(-4, 5)
    return _compose("f32", random.randrange(2), 127 + random.choice(spread), tie)


def _single(random: Random, input_class: str) -> int:
    """fp64 numbers around the range and the halfway points of fp32."""
    if input_class in ("special", "random"):
        return _float_row(random, "f64", input_class)[0]
    if input_class in ("boundary", "mixed"):
        edge = 1023 + random.choice((-150, -149, -127, -126, 127, 128))
        fraction = random.choice((0, 1, (1 << 52) - 1, (1 << 52) - (1 << 28), random.getrandbits(52)))
        return _compose("f64", random.randrange(2), edge, fraction)
    tie = (random.getrandbits(23) << 29) + (1 << 28) + random.randrange(-1, 2)
    spread = range(-150, 128) if input_class == "near" else range(-4, 5)
    return _compose("f64", random.randrange(2), 1023 + random.choice(spread), tie)
