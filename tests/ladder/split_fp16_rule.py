"""What split_fp16 and fp32_tensor_fp16x3 must compute, bit for bit, from their rules and IEEE arithmetic alone.

With e such that the largest |x|·2**e of a line along k lies in [2**14, 2**15): h = fp16(x·2**e), l = fp16(x·2**e − h).
For each PROMOTE of k, in tensor cores that start from zero: large = h·h, and small = l·h, h·l, one after another;
sum = sum + (large + small), two roundings to nearest; and then times 2**−(e of the row + e of the column), one rounding
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from fp32_tensor_rule import fp32_tensor_reference
from numpy.typing import NDArray
from tensor_core_rule import block_sums

from gemmsmith.fills import Array
from gemmsmith.problem import FP16, Problem
from gemmsmith.verify.oracles.fma import fma32, mul32
from gemmsmith.verify.oracles.reference import has_product

F32 = NDArray[np.float32]
STEP = 16  # of k, in one mma.sync
SMALL = ((1, 0), (0, 1))
LEAST_DEPTH = 32


@dataclass(frozen=True)
class Lines:
    """Rows of numbers as their parts, with the exponent and the counts of each row."""

    high: NDArray[np.float16]
    low: NDArray[np.float16]
    exponents: list[int]
    lost: int
    large: float
    finite: bool


def split(values: Array) -> Lines:
    """Each row of ``values`` is a line along k."""
    values = np.ascontiguousarray(values, np.float32)
    exponents, lost, large = [], [], [math.inf]
    finite = bool(np.isfinite(values).all())
    for row in np.abs(values.astype(np.float64)):
        most = float(row.max())
        if most == 0 or not math.isfinite(most):
            exponents.append(0)
            continue
        exponents.append(14 - math.floor(math.log2(most)) if most >= 2.0**-126 else 15 - math.frexp(most)[1])
        small, zero = int(((row != 0) & (row < most / 8192)).sum()), int((row == 0).sum())
        lost.append(small + zero if small else 0)
        large.append(int((row >= most / 16).sum()))
    with np.errstate(all="ignore"):
        scaled = np.ldexp(values.astype(np.float64), np.array(exponents, int)[:, None]).astype(np.float32)
        high = scaled.astype(np.float16)
        low = (scaled - high.astype(np.float32)).astype(np.float16)
    return Lines(high, low, exponents, max(lost, default=0), min(large), finite)


def accepted(a: Lines, b: Lines) -> bool:
    """Rows of A and columns of B, as lines."""
    enough = a.high.shape[1] >= LEAST_DEPTH
    return enough and a.finite and b.finite and a.lost * 2 * 16 <= b.large and b.lost * 2 * 16 <= a.large


def fp16x3_accepts(problem: Problem, a: Array, b: Array) -> bool:
    return accepted(split(a.T if problem.trans_a else a), split(b if problem.trans_b else b.T))


def fp16x3_reference(problem: Problem, a: Array, b: Array, c: Array, promote: int = 16) -> F32:
    """C in fp32, with the epilogue of every rung; by bf16 parts where fp16 ones are not enough."""
    if has_product(problem) and fp16x3_accepts(problem, a, b):
        return by_fp16_parts(problem, a, b, c, promote)
    return fp32_tensor_reference(problem, a, b, c)


def by_fp16_parts(problem: Problem, a: Array, b: Array, c: Array, promote: int = 16) -> F32:
    """The same from fp16 parts, whatever the verdict."""
    x, y = split(a.T if problem.trans_a else a), split(b if problem.trans_b else b.T)
    exponents = np.add.outer(x.exponents, y.exponents)
    sums = np.ldexp(three_products(x, y, promote).astype(np.float64), -exponents).astype(np.float32)
    scaled = mul32(np.full(1, problem.alpha), sums)
    return scaled if problem.beta == 0 else fma32(np.full(1, problem.beta), c, scaled)


def three_products(a: Lines, b: Lines, promote: int) -> F32:
    """The product of parts, not yet scaled back."""
    x = [part.astype(np.float64) for part in (a.high, a.low)]
    y = [part.astype(np.float64).T for part in (b.high, b.low)]
    total = np.zeros((len(x[0]), y[0].shape[1]), np.float32)
    for k in range(0, x[0].shape[1], promote):
        steps = [slice(at, at + STEP) for at in range(k, min(k + promote, x[0].shape[1]), STEP)]
        large = _sums([(x[0][:, at], y[0][at]) for at in steps])
        small = _sums([(x[i][:, at], y[j][at]) for at in steps for i, j in SMALL])
        total = total + (large + small)
    return total


def _sums(pairs: list[tuple[Array, Array]]) -> F32:
    """Products added one after another to a tensor core's accumulator that starts from zero."""
    whole = [(_filled(x.T).T, _filled(y)) for x, y in pairs]
    return block_sums(np.concatenate([x for x, _ in whole], axis=1), np.concatenate([y for _, y in whole]), FP16)


def _filled(rows: Array) -> Array:
    """Padded with rows of zeros to a whole step."""
    return np.concatenate([rows, np.zeros((STEP - len(rows), rows.shape[1]))]) if len(rows) < STEP else rows
