"""Fills for the operands: seeded, by name, in the problem's own types.

No fill is constant or symmetric: with constant operands a transposed tile, a swapped index or a row read twice gives
the right answer, and with symmetric ones a transpose does. A, B and C come from three independent streams, so that a
kernel that confuses two of them is incorrect. No fill but ``zero sums`` has many zeros: a dropped term of zero would
not be noticed.

    normal     zero mean, unit variance: what the error gate is calibrated on
    uniform    [0, 1): growing sums and their rounding errors, no cancellation
    integers   small non-zero integers whose sums stay below 2**24: every order of summation is exact
    wide       log-normal magnitudes, both signs: small terms among large ones
    subnormal  products at and below the smallest normal fp32: shows flushing to zero
    specials   normal, with NaN, infinities, zeros and subnormals in a few places
    bits       random 32-bit patterns, for arithmetic modulo 2**32
    nonfinite  normal, with one NaN or infinity in most rows of A and in some columns of B
    largest    the ends of an 8-bit integer's range: the largest sums, of both signs
    zero sums  sums that are exactly +0, as they must be in any order of summation
    near X     normal times X, for a kernel that compares its inputs with X; 'sums near X': for one that compares sums
    opposites  positive integers, then the same terms with the other sign: small exact sums of large partial sums, which
               no 16-bit accumulator holds
    integers to X  'integers', with zeros from k = X on: what a kernel computes that drops the rest

Four relate A and B to each other, and are as hard as real data gets (docs/accuracy.md):

    cancelling       positive terms, then as many negative ones: small sums of large partial sums
    graded           normal; rows of A and columns of B times 2**−i: outputs of many magnitudes
    skewed           normal; A falls along k as B rises: small elements matter as much as large ones
    ill-conditioned  orthogonal × singular values × orthogonal, and B inverts A: almost everything cancels
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.errors import DTypeError, ProblemError, UsageError
from gemmsmith.problem import BF16, FP16, FP32, FP64, INT8, INT32, INTEGER_TYPES, TF32, UINT8, DType, Problem

Array = NDArray[Any]
Rng = np.random.Generator

# Integers up to 2**24 are exact in fp32, the accumulate type of every rung.
EXACT_LIMIT = 2**24 - 1
# bf16 holds integers exactly up to 2**8 only.
LARGEST_INTEGER = 127


@dataclass(frozen=True)
class Operands:
    """A and B as stored (transposed where the problem says so), C before the launch, and a bias.

    The matrices of a batch are stacked; a matrix shared by the whole batch is stored once.
    """

    a: Array
    b: Array
    c: Array
    bias: Array | None = None


Arrange = Callable[[int, Sequence[Array], Sequence[Array], DType], None]
"""Changes every op(A) (M×K) and op(B) (K×N) of a batch in place, given the seed and the type."""


@dataclass(frozen=True)
class Fill:
    """A way to fill a matrix.

    errors_grow  partial sums are as large as the sum of the terms' magnitudes (all of one sign, or one dominant term),
                 so rounding errors relative to it grow like √K; on zero-mean data they do not
    arrange      changes A and B afterwards, where one depends on the other or on which index is k
    """

    name: str
    meaning: str
    errors_grow: bool
    make: Callable[[Rng, tuple[int, int], DType, int], Array]
    arrange: Arrange | None = None


def operands(problem: Problem, fill: str = "normal", seed: int = 0, exact_limit: int = EXACT_LIMIT) -> Operands:
    """A, B and C for ``problem``; the same fill, seed and shapes give the same bits.

    ``exact_limit``: the largest sum that the fill 'integers' may have, which the accumulators must hold exactly.
    """
    chosen = fill_named(fill)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise UsageError(f"a seed must be an integer of 0 or more, not {seed!r}")
    if fill == "bits" and (problem.dtype, problem.out_dtype) != (FP32, FP32):
        raise DTypeError(f"the fill 'bits' is for fp32, not {problem.dtype}", "arithmetic modulo 2**32 needs 32 bits")
    whole = next((d for d in (problem.dtype, problem.out_dtype) if d in INTEGER_TYPES and d != INT32), None)
    whole = INT32 if problem.dtype == INT32 else whole
    if whole is not None and fill not in FOR_INTEGERS and _TO.fullmatch(fill) is None:
        raise DTypeError(f"the fill {fill!r} is not for {whole}", f"use one of {', '.join(FOR_INTEGERS)}")
    # What a fill may need: the largest integer, or the exponent of subnormal products.
    scale, c_scale = 0, 0
    if is_exact(fill):
        limit = EXACT_LIMIT if fill == "opposites" else exact_limit  # its sums are small
        scale, c_scale = integer_bound(problem, limit), _addend_bound(problem, exact_limit)
    elif fill == "subnormal":
        scale = -14 if problem.dtype == FP16 else -64
        c_scale = 2 * scale
    a, b, c = (
        (copies * rows, columns)
        for copies, (rows, columns) in zip(problem.copies, (problem.a_shape, problem.b_shape, problem.c_shape),
                                           strict=True)
    )  # fmt: skip
    bias = None
    if problem.bias:
        bias = chosen.make(_stream(seed, 3), (1, problem.bias_length), problem.out_dtype, c_scale).reshape(-1)
    made = Operands(
        chosen.make(_stream(seed, 0), a, problem.dtype, scale),
        chosen.make(_stream(seed, 1), b, problem.dtype, scale),
        chosen.make(_stream(seed, 2), c, problem.out_dtype, c_scale),
        bias,
    )
    if chosen.arrange is not None:
        lefts = _each(made.a, problem.a_shape[0], problem.trans_a)
        rights = _each(made.b, problem.b_shape[0], problem.trans_b)
        chosen.arrange(int(seed), lefts, rights, problem.dtype)
    return made


def is_exact(fill: str) -> bool:
    """Whether the sums of a fill are exact in fp32, in every order of summation."""
    return fill in ("integers", "opposites") or _TO.fullmatch(fill) is not None


def _each(stored: Array, rows: int, transposed: bool) -> list[Array]:
    """Views of the stacked matrices, each as op(A) or op(B)."""
    parts = [stored[start : start + rows] for start in range(0, stored.shape[0], rows)] if stored.size else []
    return [part.T if transposed else part for part in parts]


def fill_named(name: str) -> Fill:
    """The fill called ``name``; raises with a list of all fills."""
    if isinstance(name, str) and (found := _NEAR.fullmatch(name)) is not None:
        return _near(name, float(found[2]), bool(found[1]))
    if isinstance(name, str) and (found := _TO.fullmatch(name)) is not None:
        return _cut(name, int(found[1]))
    try:
        return FILLS[name]
    except (KeyError, TypeError):
        raise UsageError(f"unknown fill {name!r}", f"use one of {', '.join(FILLS)}") from None


def integer_bound(problem: Problem, exact_limit: int = EXACT_LIMIT) -> int:
    """The largest |a|, |b| for which alpha·A·B + beta·C + bias is exact in fp32 in any order of summation.

    Neither |alpha|·K·bound² plus |beta|·127 (and 127 for a bias) nor K·bound² alone may exceed 2**24 − 1, or
    ``exact_limit`` for accumulators of a narrower type.
    """
    if problem.out_dtype == INT8:
        # ±1: sums of K terms reach about ±3·√K, so that some saturate, but not all.
        return 1
    alpha = abs(problem.alpha) if math.isfinite(problem.alpha) else 1.0
    beta = abs(problem.beta) if math.isfinite(problem.beta) else 1.0
    from_c = (beta + bool(problem.bias)) * _addend_bound(problem, exact_limit)
    room = (exact_limit - from_c) / (max(1.0, alpha) * max(1, problem.k))
    if room < 1:
        raise ProblemError(
            f"the fill 'integers' cannot be exact for K={problem.k}, alpha={problem.alpha:g}, beta={problem.beta:g}: "
            f"|alpha|·K + |beta|·{_addend_bound(problem, exact_limit)} must stay below {exact_limit + 1}",
            "use the fill 'normal'",
        )
    return min(LARGEST_INTEGER, math.isqrt(int(room)))


def _addend_bound(problem: Problem, exact_limit: int = EXACT_LIMIT) -> int:
    """The largest |c| and |bias| in the fill 'integers'."""
    return 7 if problem.out_dtype == INT8 or exact_limit < EXACT_LIMIT else LARGEST_INTEGER


# Fills for integer types.
FOR_INTEGERS = ("normal", "uniform", "integers", "cancelling", "largest")


def _stream(seed: int, index: int) -> Rng:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([int(seed), index])))


def _as(values: Array, dtype: DType) -> Array:
    return np.asarray(values, dtype=dtype.numpy)


def _normal(rng: Rng, shape: tuple[int, int], dtype: DType, _scale: int) -> Array:
    if dtype == FP64:
        return rng.standard_normal(shape)
    values = rng.standard_normal(shape, dtype=np.float32)
    if dtype in INTEGER_TYPES:
        # Around 128 if unsigned: bytes on both sides of the sign bit.
        middle = 128 if dtype == UINT8 else 0
        return (np.rint(values * 32).clip(-127, 127) + middle).astype(dtype.numpy)
    return values.astype(dtype.numpy)


def _uniform(rng: Rng, shape: tuple[int, int], dtype: DType, _scale: int) -> Array:
    if dtype == FP64:
        return rng.random(shape)
    if dtype in INTEGER_TYPES:
        return rng.integers(1, 256 if dtype == UINT8 else 128, shape).astype(dtype.numpy)
    # Truncated to the stored precision, so that rounding cannot give 1; TF32 is stored as fp32.
    steps = 1.0 / (FP32 if dtype == TF32 else dtype).unit_roundoff
    values = np.floor(rng.random(shape, dtype=np.float32) * np.float32(steps)) / np.float32(steps)
    return _as(values, dtype)


def _integers(rng: Rng, shape: tuple[int, int], dtype: DType, bound: int) -> Array:
    # Never zero: every term matters.
    magnitude = rng.integers(1, bound + 1, shape, dtype=np.int32)
    sign = rng.integers(0, 2, shape, dtype=np.int32) * 2 - 1
    if dtype == UINT8:
        return magnitude.astype(dtype.numpy)
    return (magnitude * sign).astype(np.float32).astype(dtype.numpy)


def _wide(rng: Rng, shape: tuple[int, int], dtype: DType, _scale: int) -> Array:
    # Powers of two with a standard deviation of 8 binades (fp16: 3), clipped at four deviations: products within
    # 2**±64, far from fp32's overflow; fp16 values within 2**−14 … 2**15.
    deviation = 3.0 if dtype == FP16 else 8.0
    exponent = (rng.standard_normal(shape, dtype=np.float32) * deviation).clip(-4 * deviation, 4 * deviation)
    sign = rng.integers(0, 2, shape, dtype=np.int8) * 2.0 - 1.0
    return _as(np.exp2(exponent) * sign, dtype)


def _subnormal(rng: Rng, shape: tuple[int, int], dtype: DType, scale: int) -> Array:
    # fp32, bf16: from 2**−68 to 2**−63, so that products lie from 2**−136 to fp32's smallest normal 2**−126. Products
    # of fp16 cannot reach fp32's subnormals; fp16's own start below 2**−14.
    exponent = rng.uniform(-4.0, 1.0, shape) + scale
    sign = rng.integers(0, 2, shape, dtype=np.int8) * 2.0 - 1.0
    return _as(np.exp2(exponent) * sign, dtype)


SPECIAL_VALUES = (math.nan, math.inf, -math.inf, 0.0, -0.0, 2.0**-140)
_SUBNORMAL_TF32 = 2.0**-130
_PLANTED = 3


def _specials(rng: Rng, shape: tuple[int, int], dtype: DType, _scale: int) -> Array:
    # A NaN in A affects one row of C, one in B one column: with three, most outputs stay finite.
    values = _normal(rng, shape, dtype, 0)
    if values.size:
        where = rng.choice(values.size, size=min(_PLANTED, values.size), replace=False)
        chosen = rng.choice(np.array(SPECIAL_VALUES), size=where.size)
        if dtype == TF32:  # smaller ones round to 0, which times infinity is NaN
            chosen = np.where(chosen == SPECIAL_VALUES[-1], _SUBNORMAL_TF32, chosen)
        values.reshape(-1)[where] = chosen.astype(dtype.numpy)
    return values


def _bits(rng: Rng, shape: tuple[int, int], _dtype: DType, _scale: int) -> Array:
    # A view, not a conversion, which would change signalling NaNs.
    return rng.integers(0, 2**32, shape, dtype=np.uint32).view(np.float32)


# Rows, columns or k after which a grading starts again: 2**−31, and 2**−62 in products, are far from fp32's limits.
# fp16 has normal numbers from 2**−14 to 2**15.
_GRADES = {FP16.name: 8}
_MOST_GRADES = 32
# Decades that singular values span; rounding to the type would hide more.
_DECADES = {FP16.name: 3.0, BF16.name: 2.0}
_MOST_DECADES = 6.0


def _cancelling(_seed: int, _lefts: Sequence[Array], rights: Sequence[Array], _dtype: DType) -> None:
    for right in rights:
        right[right.shape[0] // 2 :] *= -1


def _graded(_seed: int, lefts: Sequence[Array], rights: Sequence[Array], dtype: DType) -> None:
    for left in lefts:
        left[:] = _as(left * _falling(left.shape[0], dtype)[:, None], dtype)
    for right in rights:
        right[:] = _as(right * _falling(right.shape[1], dtype), dtype)


def _skewed(_seed: int, lefts: Sequence[Array], rights: Sequence[Array], dtype: DType) -> None:
    for left in lefts:
        left[:] = _as(left * _falling(left.shape[1], dtype), dtype)
    for right in rights:
        right[:] = _as(right / _falling(right.shape[0], dtype)[:, None], dtype)


def _falling(count: int, dtype: DType) -> NDArray[np.float64]:
    """1, 1/2, 1/4, …, repeating."""
    return np.exp2(-np.arange(count, dtype=np.float64) % -_GRADES.get(dtype.name, _MOST_GRADES))


def _ill_conditioned(seed: int, lefts: Sequence[Array], rights: Sequence[Array], dtype: DType) -> None:
    # A = U·Σ·Vᵀ and B = V·Σ'·Wᵀ, where Σ' is Σ reversed: A·B is a small multiple of U·Wᵀ.
    if not lefts or not rights:
        return
    (m, k), n = lefts[0].shape, rights[0].shape[1]
    rng, rank = _stream(seed, 4), min(m, n, k)
    values = np.logspace(0.0, -_DECADES.get(dtype.name, _MOST_DECADES), rank)
    inner = _orthonormal(rng, k, rank)
    for left in lefts:
        left[:] = _as(_unit((_orthonormal(rng, m, rank) * values) @ inner.T), dtype)
    for right in rights:
        right[:] = _as(_unit((inner * values[::-1]) @ _orthonormal(rng, n, rank).T), dtype)


def _nonfinite(_seed: int, lefts: Sequence[Array], rights: Sequence[Array], _dtype: DType) -> None:
    # Each k is hit by some row, and a third of the rows stay finite: a value must not reach its neighbours either.
    # An infinity at the last k, and one at the first: what repeats them, times a zero, makes them NaN.
    ends, ends_of_b = {4: -1, 5: 0}, {3: -1, 1: 0}
    for left in lefts:
        for row in range(left.shape[0] if left.shape[1] else 0):
            if row % 3:
                at = ends.get(row, (5 * row + 1) % left.shape[1])
                left[row, at] = (math.nan, math.inf, -math.inf)[row // 3 % 3]
    for right in rights:
        for column in range(5, right.shape[1] if right.shape[0] else 0, 8):
            right[(3 * column + 2) % right.shape[0], column] = (math.nan, math.inf)[column // 8 % 2]
        for column, at in ends_of_b.items():
            if right.shape[0] and column < right.shape[1]:
                right[at, column] = math.inf
    for left, right in zip(lefts, rights, strict=False):
        _meet_zeros(left, right)


def _meet_zeros(left: Array, right: Array) -> None:
    """Let some NaN and infinities meet a zero: their product is NaN, which a kernel that skips zeros loses."""
    if not left.size or not right.size:
        return
    depth = left.shape[1]
    for column in range(5, right.shape[1], 8):
        left[column % left.shape[0] // 3 * 3, (3 * column + 2) % depth] = 0.0  # a row that is finite
    for row in range(1, left.shape[0], 6):
        right[(5 * row + 1) % depth, row % right.shape[1] // 8 * 8] = 0.0  # a column that is


def _largest(_seed: int, lefts: Sequence[Array], rights: Sequence[Array], dtype: DType) -> None:
    if dtype not in INTEGER_TYPES:
        return
    ends = np.iinfo(dtype.numpy)
    low = ends.min or ends.max - 1
    for left in lefts:
        _most(left, np.full(left.shape, low))
    for right in rights:  # every second column of the other sign, if there is one
        _most(right, np.where(np.arange(right.shape[1]) % 2, ends.max, low) + np.zeros(right.shape, np.int64))


def _most(values: Array, new: Array) -> None:
    """Replace seven elements of eight: rows and columns must differ."""
    change = (3 * np.arange(values.shape[0])[:, None] + np.arange(values.shape[1])) % 8 != 5
    values[change] = new[change]


_CANCELLING_AT = (1, 2, 4, 4, 8, 8, 16, 16, 32, 32, 3)


def _zero_sums(_seed: int, lefts: Sequence[Array], rights: Sequence[Array], _dtype: DType) -> None:
    # B is positive, so a row of zeros has products of +0 only; x and -x cancel to +0.
    for right in rights:
        right[:1] = right[-1:] = 1
    for left in lefts:
        left[1::2] = 0
        if left.shape[1] > 1:
            kept = left[2::4, :1].copy()
            left[2::4] = 0
            left[2::4, :1], left[2::4, -1:] = kept, -kept
    # Pairs at other distances, so that both terms are in one of the accumulators that a kernel has; and as many as the
    # distance, so that each accumulator has one.
    for left, right in zip(lefts, rights, strict=False):
        distances = [d for d in _CANCELLING_AT if d < left.shape[1]]
        if not distances:
            continue
        rows = left[6::8] if left.shape[0] > 6 else left[2::4]
        rows[:] = 1 + np.arange(rows.shape[0])[:, None] % 7
        for column in range(0, right.shape[1], 2):
            distance = distances[column // 2 % len(distances)]
            many = distance if column % 4 and 2 * distance <= right.shape[0] else 1
            right[:, column] = 0
            right[:many, column], right[distance : distance + many, column] = 1, -1


def _subnormal_inputs(seed: int, lefts: Sequence[Array], rights: Sequence[Array], dtype: DType) -> None:
    # Sums are normal numbers: what is tested is whether subnormal elements of A count.
    rng, top, binades = _stream(seed, 4), (-15 if dtype == FP16 else -127), (3 if dtype == BF16 else 6)
    for left in lefts:
        sizes = np.exp2(top - rng.uniform(0.0, binades, left.shape))
        left[:] = _as(np.copysign(sizes, left), dtype)
    for right in rights if dtype != FP16 else ():
        right[:] = _as(right * 2.0**40, dtype)


_NEAR = re.compile(r"(sums )?near (-?[\d.]+(?:e[+-]?\d+)?)")


def _near(name: str, about: float, sums: bool) -> Fill:
    """Inputs, or sums, on both sides of ``about`` and of its negative."""

    def scale(_seed: int, lefts: Sequence[Array], _rights: Sequence[Array], dtype: DType) -> None:
        for left in lefts:
            times = abs(about) / math.sqrt(max(1, left.shape[1])) if sums else 1.5 * abs(about)
            left[:] = _as(left * times, dtype)

    return Fill(name, f"{'sums' if sums else 'inputs'} on both sides of {about:g}", False, _normal, scale)


_TO = re.compile(r"integers to (\d+)")


def _cut(name: str, depth: int) -> Fill:
    """Integers, and zeros from k = ``depth`` on."""

    def cut(_seed: int, lefts: Sequence[Array], rights: Sequence[Array], _dtype: DType) -> None:
        for left in lefts:
            left[:, depth:] = 0
        for right in rights:
            right[depth:] = 0

    return Fill(name, f"integers, and zeros from k = {depth} on", False, _integers, cut)


def _opposites(_seed: int, lefts: Sequence[Array], rights: Sequence[Array], _dtype: DType) -> None:
    for left in lefts:
        half = left.shape[1] // 2
        left[:, :half] = abs(left[:, :half])
        left[:, half : 2 * half] = left[:, :half]
    for right in rights:
        half = right.shape[0] // 2
        right[:half] = abs(right[:half])
        right[half : 2 * half] = -right[:half]
        right[half : half + 1] += 1  # what is left is A's first column, and the last k of an odd K


def _orthonormal(rng: Rng, rows: int, columns: int) -> NDArray[np.float64]:
    """Random orthonormal columns."""
    return np.linalg.qr(rng.standard_normal((rows, columns)))[0]


def _unit(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scaled by a power of two so that elements are about 1; those of large orthogonal matrices are small."""
    deviation = float(np.sqrt(np.mean(np.square(values))))
    return values * 2.0 ** -round(math.log2(deviation)) if deviation > 0 else values


FILLS: Mapping[str, Fill] = MappingProxyType(
    {
        fill.name: fill
        for fill in (
            Fill("normal", "zero mean, unit variance", False, _normal),
            Fill("uniform", "positive, from 0 to 1", True, _uniform),
            Fill("integers", "small non-zero integers with exact sums", False, _integers),
            Fill("wide", "both signs, many magnitudes", True, _wide),
            Fill("subnormal", "products around the smallest normal fp32", False, _subnormal),
            Fill("specials", "normal with a few NaN, Inf, zeros and subnormals", False, _specials),
            Fill("bits", "random 32-bit patterns", False, _bits),
            Fill("nonfinite", "normal with a NaN or Inf in most rows of A", False, _normal, _nonfinite),
            Fill("largest", "integers at both ends of their range", True, _normal, _largest),
            Fill("zero sums", "sums that are exactly +0", True, _uniform, _zero_sums),
            Fill("subnormal inputs", "subnormal elements of A, normal sums", False, _normal, _subnormal_inputs),
            Fill("cancelling", "positive terms, then as many negative ones", True, _uniform, _cancelling),
            Fill("opposites", "integers whose terms cancel: large partial sums", False, _integers, _opposites),
            Fill("graded", "normal; rows of A and columns of B times 2^-i", False, _normal, _graded),
            Fill("skewed", "normal; A falls along k by powers of two as B rises", False, _normal, _skewed),
            Fill("ill-conditioned", "B inverts A: almost everything cancels", False, _normal, _ill_conditioned),
        )
    }
)
