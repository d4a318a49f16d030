"""Operands for single matrix instructions, made the same way on every machine.

A recording keeps only what the GPU computed, and a digest of the operands: those are made again by these functions,
whose random numbers are a hash of a counter and need no library to stay the same. A case is one instruction: A of
M×K, B of K×N and C of M×N; most have 16 rows and 8 columns and give 128 dot products.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

ROWS, COLUMNS = 16, 8


@dataclass(frozen=True)
class Format:
    """A binary floating-point format; ``spare`` low bits of its storage are not part of the value."""

    name: str
    exponent_bits: int
    fraction_bits: int
    spare: int = 0

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def storage(self) -> np.dtype[Any]:
        return np.dtype(np.uint16 if 1 + self.exponent_bits + self.fraction_bits + self.spare == 16 else np.uint32)

    def encode(self, sign: Array, exponent: Array, fraction: Array) -> Array:
        """±(1 + fraction/2²³)·2^exponent with the fraction cut to the format; subnormal or largest where it must be."""
        significand = (fraction.astype(np.int64) | 1 << 23) >> (23 - self.fraction_bits)
        low = np.clip(1 - self.bias - exponent, 0, 40)
        subnormal = significand >> low
        top = np.minimum(exponent, self.bias) + self.bias
        normal = (top << self.fraction_bits) | (significand & ((1 << self.fraction_bits) - 1))
        bits = np.where(exponent < 1 - self.bias, subnormal, normal)
        bits = bits | sign.astype(np.int64) << (self.exponent_bits + self.fraction_bits)
        return (bits << self.spare).astype(self.storage)

    def special(self, which: Array) -> Array:
        """0, −0, ∞, −∞, quiet NaNs of two signs, a signalling NaN, the largest, the smallest, by number mod 9."""
        top, f = (1 << self.exponent_bits) - 1, self.fraction_bits
        sign = 1 << (self.exponent_bits + f)
        inf = top << f
        quiet = inf | 1 << (f - 1)
        table = [0, sign, inf, sign | inf, quiet | 5, sign | quiet | 9, inf | 1, inf - 1, 1]
        return (np.array(table, np.int64)[which % 9] << self.spare).astype(self.storage)


FORMATS = {
    "f16": Format("f16", 5, 10),
    "bf16": Format("bf16", 8, 7),
    "tf32": Format("tf32", 8, 10, spare=13),
    "f32": Format("f32", 8, 23),
}


class Random:
    """Numbers from a counter, hashed (the finaliser of splitmix64)."""

    def __init__(self, name: str) -> None:
        self.counter = int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "little") << 16

    def words(self, *shape: int) -> Array:
        count = int(np.prod(shape))
        z = np.arange(self.counter, self.counter + count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        self.counter += count
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (z ^ (z >> np.uint64(31))).reshape(shape)

    def integers(self, low: int, high: int, *shape: int) -> Array:
        """Whole numbers from ``low`` to ``high`` inclusive."""
        span = np.uint64(high - low + 1)
        return ((self.words(*shape) >> np.uint64(20)) % span).astype(np.int64) + low

    def chosen(self, one_in: int, *shape: int) -> Array:
        return self.integers(0, one_in - 1, *shape) == 0


@dataclass(frozen=True)
class Operands:
    """A (n, M, K), B (n, K, N) and C (n, M, N) as raw bits, and the class of each of the n cases."""

    a: Array
    b: Array
    c: Array
    classes: tuple[str, ...]

    @property
    def digest(self) -> str:
        text = b"".join(np.ascontiguousarray(x).tobytes() for x in (self.a, self.b, self.c))
        return hashlib.sha256(text).hexdigest()[:16]

    def part(self, count: int) -> Operands:
        """The first ``count`` cases."""
        return Operands(self.a[:count], self.b[:count], self.c[:count], self.classes[:count])


class Maker:
    """Makes the operands of one class of cases for one element type, depth, size and type of accumulator."""

    def __init__(self, kind: str, k: int, count: int, name: str, columns: int = COLUMNS, rows: int = ROWS,
                 accumulators: str = "f32") -> None:  # fmt: skip
        self.format, self.k, self.count, self.rows, self.columns = FORMATS[kind], k, count, rows, columns
        self.accumulators = FORMATS[accumulators]
        usual = (rows, accumulators) == (ROWS, "f32")
        self.random = Random(f"{kind}/{k}/{name}/{columns}" + ("" if usual else f"/{rows}/{accumulators}"))

    def value(self, form: Format, low: int, high: int, *shape: int) -> Array:
        r = self.random
        return form.encode(
            r.integers(0, 1, *shape), r.integers(low, high, *shape), r.integers(0, (1 << 23) - 1, *shape)
        )

    def a(self, low: int, high: int) -> Array:
        return self.value(self.format, low, high, self.count, self.rows, self.k)

    def b(self, low: int, high: int) -> Array:
        return self.value(self.format, low, high, self.count, self.k, self.columns)

    def c(self, low: int, high: int) -> Array:
        return self.value(self.accumulators, low, high, self.count, self.rows, self.columns)

    @property
    def _lowest(self) -> int:
        return 1 - self.format.bias - self.format.fraction_bits

    def integers(self) -> tuple[Array, Array, Array]:
        """Small whole numbers: every sum is exact, so that only the layout decides."""

        def whole(form: Format, most: int, *shape: int) -> Array:
            n = self.random.integers(-most, most, *shape)
            size = np.abs(n)
            exponent = np.frexp(np.maximum(size, 1))[1].astype(np.int64) - 1
            bits = form.encode(n < 0, exponent, (size << 23 >> exponent) & ((1 << 23) - 1))
            return np.where(size == 0, form.storage.type(0), bits)

        a = whole(self.format, 15, self.count, self.rows, self.k)
        b = whole(self.format, 15, self.count, self.k, self.columns)
        return a, b, whole(self.accumulators, 1000, self.count, self.rows, self.columns)

    def normal(self) -> tuple[Array, Array, Array]:
        return self.a(-3, 2), self.b(-3, 2), self.c(-6, 6)

    def spread(self) -> tuple[Array, Array, Array]:
        return self.a(-7, 7), self.b(-7, 7), self.c(-16, 20)

    def wide(self) -> tuple[Array, Array, Array]:
        half = self.format.bias // 2 + 4
        return self.a(-half, half), self.b(-half, half), self.c(-140, 126)

    def accumulator(self) -> tuple[Array, Array, Array]:
        """C from far below to far above products of about one."""
        return self.a(-1, 0), self.b(-1, 0), self.c(-34, 34)

    def cancelling(self) -> tuple[Array, Array, Array]:
        """Terms that cancel in pairs at random places, exactly or but for the last bit, and a C much smaller."""
        a, b = self.a(-4, 6), self.b(-2, 2)
        bits = self.format
        sign = bits.storage.type(1 << (bits.exponent_bits + bits.fraction_bits + bits.spare))
        for case in range(self.count):
            order = np.argsort(self.random.words(self.k), kind="stable")
            for p, q in order[: self.k // 2 * 2].reshape(-1, 2):
                nudge = self.random.chosen(3, self.rows).astype(bits.storage) << bits.storage.type(bits.spare)
                a[case, :, q] = (a[case, :, p] ^ sign) ^ nudge
                b[case, q] = b[case, p]
        return a, b, self.c(-30, 2)

    def _few(self, large: int) -> tuple[Array, Array, Array]:
        """``large`` large terms of alternating sign at random places, every other far below by a varying distance."""
        a, b = self.a(-9, -2), self.b(-9, -2)
        one, across = np.zeros(self.rows, np.int64), np.zeros(self.columns, np.int64)
        for case in range(self.count):
            places = np.argsort(self.random.words(self.k), kind="stable")[:large]
            flip = int(self.random.integers(0, 1, 1)[0])
            for n, p in enumerate(places):
                fraction = self.random.integers(0, (1 << 23) - 1, self.rows) * (case % 3 == 0)
                a[case, :, p] = self.format.encode(one + (n + flip) % 2, one + 6, fraction if n == 0 else fraction * 0)
                b[case, p] = self.format.encode(across, across + 4, across)
        return (
            a,
            b,
            np.where(self.random.chosen(2, self.count, 1, 1), self.c(-24, 12), self.accumulators.storage.type(0)),
        )

    def one_large(self) -> tuple[Array, Array, Array]:
        return self._few(1)

    def two_large(self) -> tuple[Array, Array, Array]:
        return self._few(2)

    def subnormal(self) -> tuple[Array, Array, Array]:
        """Operands below the normal range, products and C about the smallest fp32 numbers."""
        low = self._lowest
        a = self.a(low, low + self.format.fraction_bits + 2)
        top = -150 - low
        near = max(low, min(self.format.bias - 1, top))
        b = self.b(near, min(self.format.bias, near + 30))
        return a, b, self.c(-149, -120)

    def tiny(self) -> tuple[Array, Array, Array]:
        """Normal operands whose products and sums lie about the border of subnormal fp32."""
        at = max(-self.format.bias + 1, -65)
        return self.a(at, at + 6), self.b(at, at + 6), self.c(-149, -116)

    def huge(self) -> tuple[Array, Array, Array]:
        """Sums about and beyond the largest fp32 number."""
        at = min(self.format.bias, 66)
        a, b = self.a(at - 6, at), self.b(at - 6, at)
        few = np.arange(self.count) % 4 == 0  # products beyond fp32 by far, one in eight
        large = self.value(self.format, self.format.bias - 2, self.format.bias, *a.shape)
        a = np.where(few[:, None, None] & self.random.chosen(8, *a.shape), large, a)
        return a, b, self.c(110, 127)

    def underflow(self) -> tuple[Array, Array, Array]:
        """Sums about and below the smallest subnormal fp32 number; C is zero, or as small."""
        a, b = self.a(-80, -68), self.b(-80, -70)
        zero = self.accumulators.storage.type(0)
        return a, b, np.where(self.random.chosen(2, self.count, self.rows, self.columns), self.c(-149, -147), zero)

    def special(self) -> tuple[Array, Array, Array]:
        """NaN, infinities and zeros among ordinary numbers."""
        a, b, c = self.a(-2, 2), self.b(-2, 2), self.c(-2, 4)
        a, b = (np.where(self.random.chosen(40, *x.shape), self.format.special(self.random.integers(0, 8, *x.shape)), x)
                for x in (a, b))  # fmt: skip
        specials = self.accumulators.special(self.random.integers(0, 8, *c.shape))
        return a, b, np.where(self.random.chosen(12, *c.shape), specials, c)

    def zeros(self) -> tuple[Array, Array, Array]:
        """Signed zeros, and few terms that cancel to zero."""
        a, b = (self.format.special(self.random.integers(0, 1, *x.shape)) for x in (self.a(0, 0), self.b(0, 0)))
        a[1::2, ::2], b[1::2] = self.a(0, 0)[1::2, ::2], self.b(0, 0)[1::2]
        a[1::2, ::2, 2:] = self.format.special(self.random.integers(0, 1, *a[1::2, ::2, 2:].shape))
        c = self.accumulators.special(self.random.integers(0, 1, self.count, self.rows, self.columns))
        return a, b, c

    def untruncated(self) -> tuple[Array, Array, Array]:
        """Low bits that the format does not have."""
        a, b, c = self.spread()
        noise = (1 << self.format.spare) - 1
        a, b = (x | self.random.integers(0, noise, *x.shape).astype(x.dtype) for x in (a, b))
        return a, b, c

    # -- fp16 accumulators --------------------------------------------------------------------------

    def ties(self) -> tuple[Array, Array, Array]:
        """A large term, half a unit of its last place in fp16, and terms of all sizes below that."""
        shape_a, shape_b = (self.count, self.rows, self.k), (self.count, self.k, self.columns)
        r, form = self.random, self.format
        depth = np.arange(self.k)
        exponent = np.where(depth == 0, 6, np.where(depth == 1, -9, r.integers(-15, -9, *shape_a)))
        fraction = r.integers(0, (1 << 23) - 1, *shape_a) * (depth != 1)
        a = form.encode(r.integers(0, 1, *shape_a), exponent, fraction)
        b = form.encode(r.integers(0, 1, *shape_b), np.where(depth[:, None] < 2, 4, r.integers(-15, 4, *shape_b)),
                        np.zeros(shape_b, np.int64))  # fmt: skip
        kept = (depth < 2) | r.chosen(3, *shape_a)
        zero = self.accumulators.storage.type(0)
        c = np.where(r.chosen(2, self.count, self.rows, self.columns), self.c(-24, 12), zero)
        return np.where(kept, a, form.storage.type(0)), b, c

    def near_limit(self) -> tuple[Array, Array, Array]:
        """Sums about the largest fp16 number."""
        return self.a(4, 7), self.b(4, 7), self.c(12, 15)

    def near_zero(self) -> tuple[Array, Array, Array]:
        """Sums among the subnormal fp16 numbers and below them."""
        return self.a(-14, -6), self.b(-14, -9), self.c(-26, -13)


# How many cases of each class.
CLASSES = {
    "integers": 8, "normal": 60, "spread": 60, "wide": 32, "accumulator": 60, "cancelling": 48, "one_large": 72,
    "two_large": 72, "subnormal": 24, "tiny": 24, "huge": 24, "special": 40, "zeros": 8, "untruncated": 16,
}  # fmt: skip


# And of those for fp16 accumulators.
HALF_CLASSES = {"ties": 72, "near_limit": 24, "near_zero": 32}


def float_operands(kind: str, k: int, part: int = 1, columns: int = COLUMNS, rows: int = ROWS,
                   accumulators: str = "f32") -> Operands:  # fmt: skip
    """Every class of cases for an element type and depth; ``part`` divides their number."""
    made: list[tuple[Array, Array, Array]] = []
    classes: list[str] = []
    for name, most in (CLASSES | (HALF_CLASSES if accumulators == "f16" else {})).items():
        count = max(2, most // part)
        if name == "untruncated" and not FORMATS[kind].spare:
            continue
        maker = Maker(kind, k, count, name, columns, rows, accumulators)
        make: Callable[[], tuple[Array, Array, Array]] = getattr(maker, name)
        made.append(make())
        classes += [name] * count
    a, b, c = (np.ascontiguousarray(np.concatenate([m[i] for m in made])) for i in range(3))
    return Operands(a, b, c, tuple(classes))


def underflow_operands(kind: str, k: int) -> Operands:
    """Cases whose results are zero or next to it; fp16, whose products do not get there, has zeros in A and B."""
    return Operands(*Maker(kind, k, 8, "underflow").underflow(), ("underflow",) * 8)


def integer_operands(a_type: str, b_type: str, k: int, count: int = 12, rows: int = ROWS,
                     columns: int = COLUMNS) -> Operands:  # fmt: skip
    """Bytes of all values, and accumulators near the ends of 32 bits. A K of ``k`` bytes may hold more elements."""
    usual = (rows, columns) == (ROWS, COLUMNS)
    random = Random(f"{a_type}/{b_type}/{k}" + ("" if usual else f"/{rows}/{columns}"))
    a = random.words(count, rows, k).astype(np.uint8)
    b = random.words(count, k, columns).astype(np.uint8)
    extreme = np.array([0, 0x7FFFFFFF, 0x80000000, 0x7FFF0000, 0x80010000], np.uint32)
    c = random.words(count, rows, columns).astype(np.uint32)
    pick = random.integers(0, 9, count, rows, columns)
    c = np.where(pick < 5, extreme[pick % 5], np.where(pick < 7, c >> np.uint32(8), c))
    a[: count // 4] |= np.uint8(0x70)  # large ones of one sign overflow the sum
    b[: count // 4] = b[: count // 4] & np.uint8(0x7F) | np.uint8(0x40)
    return Operands(a, b, c, ("integers",) * count)


def small_accumulators(operands: Operands) -> Operands:
    """The same with fp32 accumulators of all sizes: for bytes that are floating-point numbers."""
    random = Random("fp32 accumulators")
    shape = operands.c.shape
    c = FORMATS["f32"].encode(
        random.integers(0, 1, *shape), random.integers(-12, 14, *shape), random.integers(0, (1 << 23) - 1, *shape)
    )
    return Operands(operands.a, operands.b, c, operands.classes)


# How many cases of each class of float64 operands, and the exponents of A, B and C.
DOUBLE_CLASSES = {
    "normal": (24, (-3, 2), (-3, 2), (-6, 6)), "spread": (24, (-20, 20), (-20, 20), (-40, 40)),
    "accumulator": (16, (-1, 0), (-1, 0), (-70, 70)), "wide": (8, (-1022, 1023), (-1022, 1023), (-1074, 1023)),
    "tiny": (12, (-530, -510), (-530, -510), (-1074, -1010)), "huge": (12, (506, 514), (506, 512), (1015, 1023)),
    "subnormal": (8, (-1074, -1015), (-4, 60), (-1074, -1000)), "special": (16, (-2, 2), (-2, 2), (-2, 4)),
}  # fmt: skip


def double_operands(m: int, n: int, k: int) -> Operands:
    """float64 cases: rounding, cancellation, the ends of the range, NaN payloads, infinities and zeros."""
    made: list[list[Array]] = []
    classes: list[str] = []
    for name, (count, *ranges) in DOUBLE_CLASSES.items():
        random = Random(f"f64/{m}/{n}/{k}/{name}")
        arrays = []
        for (low, high), shape in zip(ranges, ((m, k), (k, n), (m, n)), strict=True):
            size = (count, *shape)
            fraction = random.words(*size).astype(np.float64) / 2.0**64 * random.chosen(2, *size) + 1.0
            value = np.ldexp(fraction, random.integers(low, high, *size).astype(np.int32))
            bits = np.where(random.chosen(2, *size), -value, value).view(np.uint64)
            if name == "special":
                chosen = random.chosen(10, *size)
                bits = np.where(chosen, _DOUBLE_SPECIALS[random.integers(0, len(_DOUBLE_SPECIALS) - 1, *size)], bits)
            arrays.append(bits)
        if name == "spread":  # cancelling pairs
            half = k // 2
            arrays[0][::2, :, half : 2 * half] = arrays[0][::2, :, :half] ^ np.uint64(1 << 63)
            arrays[1][::2, half : 2 * half] = arrays[1][::2, :half]
        made.append(arrays)
        classes += [name] * count
    a, b, c = (np.ascontiguousarray(np.concatenate([arrays[i] for arrays in made])) for i in range(3))
    return Operands(a, b, c, tuple(classes))


_DOUBLE_SPECIALS = np.array([
    0, 1 << 63, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000005, 0xFFF8000000000009, 0x7FF0000000000003,
    0xFFF0000000000007, 0x7FEFFFFFFFFFFFFF, 1, 0x7FFFFFFFFFFFFFFF,
], np.uint64)  # fmt: skip
