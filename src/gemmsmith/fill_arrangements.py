"""How the rows, columns and k of operands are made to depend on each other: what sums then cancel, grow or lose.

Each function changes the matrices op(A) and op(B) of a batch in place, after they were filled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.problem import BF16, FP16, INTEGER_TYPES, DType

Array = NDArray[Any]
Rng = np.random.Generator


def stream(seed: int, index: int) -> Rng:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([int(seed), index])))


def rounded(values: Array, dtype: DType) -> Array:
    return np.asarray(values, dtype=dtype.numpy)


# Rows, columns or k after which a grading starts again: 2**−31, and 2**−62 in products, are far from fp32's limits.
# fp16 has normal numbers from 2**−14 to 2**15.
_GRADES = {FP16.name: 8}
_MOST_GRADES = 32
# Decades that singular values span; rounding to the type would hide more.
_DECADES = {FP16.name: 3.0, BF16.name: 2.0}
_MOST_DECADES = 6.0


def cancelling(_seed: int, _lefts: Sequence[Array], rights: Sequence[Array], _dtype: DType) -> None:
    for right in rights:
        right[right.shape[0] // 2 :] *= -1


def graded(_seed: int, lefts: Sequence[Array], rights: Sequence[Array], dtype: DType) -> None:
    for left in lefts:
        left[:] = rounded(left * _falling(left.shape[0], dtype)[:, None], dtype)
    for right in rights:
        right[:] = rounded(right * _falling(right.shape[1], dtype), dtype)


def skewed(_seed: int, lefts: Sequence[Array], rights: Sequence[Array], dtype: DType) -> None:
    for left in lefts:
        left[:] = rounded(left * _falling(left.shape[1], dtype), dtype)
    for right in rights:
        right[:] = rounded(right / _falling(right.shape[0], dtype)[:, None], dtype)


def _falling(count: int, dtype: DType) -> NDArray[np.float64]:
    """1, 1/2, 1/4, …, repeating."""
    return np.exp2(-np.arange(count, dtype=np.float64) % -_GRADES.get(dtype.name, _MOST_GRADES))


def ill_conditioned(seed: int, lefts: Sequence[Array], rights: Sequence[Array], dtype: DType) -> None:
    # A = U·Σ·Vᵀ and B = V·Σ'·Wᵀ, where Σ' is Σ reversed: A·B is a small multiple of U·Wᵀ.
    if not lefts or not rights:
        return
    (m, k), n = lefts[0].shape, rights[0].shape[1]
    rng, rank = stream(seed, 4), min(m, n, k)
    values = np.logspace(0.0, -_DECADES.get(dtype.name, _MOST_DECADES), rank)
    inner = _orthonormal(rng, k, rank)
    for left in lefts:
        left[:] = rounded(_unit((_orthonormal(rng, m, rank) * values) @ inner.T), dtype)
    for right in rights:
        right[:] = rounded(_unit((inner * values[::-1]) @ _orthonormal(rng, n, rank).T), dtype)


def nonfinite(_seed: int, lefts: Sequence[Array], rights: Sequence[Array], _dtype: DType) -> None:
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


def zero_runs(_seed: int, lefts: Sequence[Array], rights: Sequence[Array], _dtype: DType) -> None:
    # A run of another length in each row of A and each column of B, a whole row and column of zeros now and then, and
    # some k that are zero in all of A: a kernel that stops at zeros, or skips too many, loses what comes after them.
    for left in lefts:
        for row in range(left.shape[0]):
            _zero_run(left[row], row)
        third = left.shape[1] // 3
        left[:, third : third + min(_ZERO_TILE, third)] = 0
    for right in rights:
        for column in range(right.shape[1]):
            _zero_run(right[:, column], column + 3)


def _zero_run(line: Array, number: int) -> None:
    if line.size and number % _ZERO_LINE == _ZERO_LINE - 1:
        line[:] = 0
    elif line.size > 1:
        first, length = (5 * number + 1) % line.size, 1 + number % 9
        line[first : min(first + length, line.size - 1)] = 0


def largest(_seed: int, lefts: Sequence[Array], rights: Sequence[Array], dtype: DType) -> None:
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


_ZERO_LINE, _ZERO_TILE = 13, 16  # every 13th line has zeros only; so many k have zeros in all of A
_CANCELLING_AT = (1, 2, 4, 4, 8, 8, 16, 16, 32, 32, 3)


def zero_sums(_seed: int, lefts: Sequence[Array], rights: Sequence[Array], _dtype: DType) -> None:
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


def subnormal_inputs(seed: int, lefts: Sequence[Array], rights: Sequence[Array], dtype: DType) -> None:
    # Sums are normal numbers: what is tested is whether subnormal elements of A count.
    rng, top, binades = stream(seed, 4), (-15 if dtype == FP16 else -127), (3 if dtype == BF16 else 6)
    for left in lefts:
        sizes = np.exp2(top - rng.uniform(0.0, binades, left.shape))
        left[:] = rounded(np.copysign(sizes, left), dtype)
    for right in rights if dtype != FP16 else ():
        right[:] = rounded(right * 2.0**40, dtype)


def opposites(_seed: int, lefts: Sequence[Array], rights: Sequence[Array], _dtype: DType) -> None:
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
