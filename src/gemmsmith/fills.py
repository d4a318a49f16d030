"""Fills for the operands: seeded, by name, in the problem's own types.

No fill is constant or symmetric: with constant operands a transposed tile, a swapped index or a row read twice gives
the right answer, and with symmetric ones a transpose does. A, B and C come from three independent streams, so that a
kernel that confuses two of them is incorrect. No fill but ``zero sums`` and ``zero runs`` has many zeros: a dropped
term of zero would not be noticed.

    normal     zero mean, unit variance: what the error gate is calibrated on
    uniform    [0, 1): growing sums and their rounding errors, no cancellation
    integers   small non-zero integers whose sums stay below 2**24: every order of summation is exact
    wide       log-normal magnitudes, both signs: small terms among large ones
    subnormal  products at and below the smallest normal fp32: shows flushing to zero
    specials   normal, with NaN, infinities, zeros and subnormals in a few places
    bits       random 32-bit patterns, for arithmetic modulo 2**32
    nonfinite  normal, with one NaN or infinity in most rows of A and in some columns of B
    largest    the ends of an 8-bit integer's range: the largest sums, of both signs; int32 C and bias beyond 16 bits
    zero sums  sums that are exactly +0, as they must be in any order of summation
    zero runs  normal, with runs of zeros along k, of many lengths
    near X     normal times X, for a kernel that compares its inputs with X; 'sums near X': for one that compares sums
    opposites  positive integers, then the same terms with the other sign: small exact sums of large partial sums, which
               no 16-bit accumulator holds
    integers to X  'integers', with zeros from k = X on: what a kernel computes that drops the rest; 'integers from X':
               with zeros up to there

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
from gemmsmith.fill_arrangements import (
    Rng,
    cancelling,
    graded,
    ill_conditioned,
    largest,
    nonfinite,
    opposites,
    rounded,
    skewed,
    stream,
    subnormal_inputs,
    zero_runs,
    zero_sums,
)
from gemmsmith.problem import FP16, FP32, FP64, INT8, INT32, INTEGER_TYPES, TF32, UINT8, DType, Problem

Array = NDArray[Any]

# Integers up to 2**24 are exact in fp32, the accumulate type of every rung.
EXACT_LIMIT = 2**24 - 1
# bf16 holds integers exactly up to 2**8 only.
LARGEST_INTEGER = 127
# In 'largest', of int32 elements that are added to sums of bytes; fp32, which some kernels have a bias in, holds it.
_LARGE_ADDEND, _LARGE_BIAS = 2**29, 2**20


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
    if whole is not None and fill not in FOR_INTEGERS and _PART.fullmatch(fill) is None:
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
        bias = chosen.make(stream(seed, 3), (1, problem.biases * problem.bias_length), problem.out_dtype,
                           c_scale).reshape(-1)  # fmt: skip
    made = Operands(
        chosen.make(stream(seed, 0), a, problem.dtype, scale),
        chosen.make(stream(seed, 1), b, problem.dtype, scale),
        chosen.make(stream(seed, 2), c, problem.out_dtype, c_scale),
        bias,
    )
    if fill == "largest" and problem.out_dtype == INT32 != problem.dtype:  # beyond 8, 16 and 24 bits
        made.c[:] = stream(seed, 2).integers(-_LARGE_ADDEND, _LARGE_ADDEND, made.c.shape)
        if bias is not None:
            bias[:] = stream(seed, 3).integers(-_LARGE_BIAS, _LARGE_BIAS, bias.shape)
    if chosen.arrange is not None:
        lefts = _each(made.a, problem.a_shape[0], problem.trans_a)
        rights = _each(made.b, problem.b_shape[0], problem.trans_b)
        chosen.arrange(int(seed), lefts, rights, problem.dtype)
    return made


def is_exact(fill: str) -> bool:
    """Whether the sums of a fill are exact in fp32, in every order of summation."""
    return fill in ("integers", "opposites") or _PART.fullmatch(fill) is not None


def _each(stored: Array, rows: int, transposed: bool) -> list[Array]:
    """Views of the stacked matrices, each as op(A) or op(B)."""
    parts = [stored[start : start + rows] for start in range(0, stored.shape[0], rows)] if stored.size else []
    return [part.T if transposed else part for part in parts]


def fill_named(name: str) -> Fill:
    """The fill called ``name``; raises with a list of all fills."""
    if isinstance(name, str) and (found := _NEAR.fullmatch(name)) is not None:
        return _near(name, float(found[2]), bool(found[1]))
    if isinstance(name, str) and (found := _PART.fullmatch(name)) is not None:
        return _cut(name, slice(int(found[2]), None) if found[1] == "to" else slice(int(found[2])))
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
    return rounded(values, dtype)


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
    return rounded(np.exp2(exponent) * sign, dtype)


def _subnormal(rng: Rng, shape: tuple[int, int], dtype: DType, scale: int) -> Array:
    # fp32, bf16: from 2**−68 to 2**−63, so that products lie from 2**−136 to fp32's smallest normal 2**−126. Products
    # of fp16 cannot reach fp32's subnormals; fp16's own start below 2**−14.
    exponent = rng.uniform(-4.0, 1.0, shape) + scale
    sign = rng.integers(0, 2, shape, dtype=np.int8) * 2.0 - 1.0
    return rounded(np.exp2(exponent) * sign, dtype)


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


_NEAR = re.compile(r"(sums )?near (-?[\d.]+(?:e[+-]?\d+)?)")


def _near(name: str, about: float, sums: bool) -> Fill:
    """Inputs, or sums, on both sides of ``about`` and of its negative."""

    def scale(_seed: int, lefts: Sequence[Array], _rights: Sequence[Array], dtype: DType) -> None:
        for left in lefts:
            times = abs(about) / math.sqrt(max(1, left.shape[1])) if sums else 1.5 * abs(about)
            left[:] = rounded(left * times, dtype)

    return Fill(name, f"{'sums' if sums else 'inputs'} on both sides of {about:g}", False, _normal, scale)


_PART = re.compile(r"integers (to|from) (\d+)")


def _cut(name: str, left_out: slice) -> Fill:
    """Integers, with zeros in a part of K."""

    def cut(_seed: int, lefts: Sequence[Array], rights: Sequence[Array], _dtype: DType) -> None:
        for left in lefts:
            left[:, left_out] = 0
        for right in rights:
            right[left_out] = 0

    return Fill(name, f"{name}, and zeros in the rest of K", False, _integers, cut)


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
            Fill("nonfinite", "normal with a NaN or Inf in most rows of A", False, _normal, nonfinite),
            Fill("largest", "integers at both ends of their range", True, _normal, largest),
            Fill("zero sums", "sums that are exactly +0", True, _uniform, zero_sums),
            Fill("zero runs", "normal with runs of zeros along k", False, _normal, zero_runs),
            Fill("subnormal inputs", "subnormal elements of A, normal sums", False, _normal, subnormal_inputs),
            Fill("cancelling", "positive terms, then as many negative ones", True, _uniform, cancelling),
            Fill("opposites", "integers whose terms cancel: large partial sums", False, _integers, opposites),
            Fill("graded", "normal; rows of A and columns of B times 2^-i", False, _normal, graded),
            Fill("skewed", "normal; A falls along k by powers of two as B rises", False, _normal, skewed),
            Fill("ill-conditioned", "B inverts A: almost everything cancels", False, _normal, ill_conditioned),
        )
    }
)
