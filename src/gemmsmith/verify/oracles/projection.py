"""Random projection: check C·t instead of C, for sizes at which a float64 product takes too long.

C·t = alpha·A·(B·t) + beta·C₀·t costs O(MN + MK + KN) instead of O(MNK), and is exact algebra: for a random t
a wrong row of C is detected with probability one, up to rounding. Rows are judged one by one, so a wrong element is
located to its row.

The gate. Element (i, j) of a correct fp32 result has an error of ρ·u·magnitude with ρ ≤ gate, so the row's sum has an
error of at most gate·u·Σⱼ magnitude·|tⱼ|. That is far too generous: the signs of t are random, so the errors add up
like √N, not like N. The gate is therefore gate/√N, in units of u·Σⱼ magnitude·|tⱼ|. Measured with the ordered fp32
reference for K up to 65,536, correct rows stay below a tenth of it on zero-mean data and below a half on positive data;
one dropped term in a row of N = K = 4096 exceeds it. The magnitudes within a row must be comparable, so this oracle
does not support the fill 'wide', in which one element outweighs its row.

|t| is drawn from [1, 2) with random signs; a normal t would have small |tⱼ| that hide an element. Operands must be
finite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.problem import Problem
from gemmsmith.verify.oracles.reference import has_product

Array = NDArray[Any]
F64 = NDArray[np.float64]

# Rows converted to float64 at a time, to avoid a float64 copy of a large matrix.
_BLOCK = 1024


@dataclass(frozen=True)
class Projection:
    """Expected C·t per row, and the scale of its rounding errors."""

    direction: F64
    value: F64
    magnitude: F64


def projection_reference(problem: Problem, a: Array, b: Array, c: Array, seed: int = 0) -> Projection:
    """alpha·A·(B·t) + beta·C·t for a random t, in float64; operands as stored."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 3])))
    direction = rng.uniform(1.0, 2.0, problem.n) * (rng.integers(0, 2, problem.n) * 2.0 - 1.0)
    value = np.zeros(problem.m)
    magnitude = np.zeros(problem.m)
    if has_product(problem):
        value = problem.alpha * _times(a, _times(b, direction, problem.trans_b), problem.trans_a)
        inner = _times(b, np.abs(direction), problem.trans_b, absolute=True)
        magnitude = abs(problem.alpha) * _times(a, inner, problem.trans_a, absolute=True)
    if problem.beta != 0:
        value = value + problem.beta * project(c, direction)
        magnitude = magnitude + abs(problem.beta) * _times(c, np.abs(direction), False, absolute=True)
    return Projection(direction, value, magnitude)


def project(matrix: Array, direction: F64) -> F64:
    """matrix·t per row, in float64."""
    return _times(matrix, direction, False)


def projection_gate(gate: float, n: int) -> float:
    """The gate of a row from the gate of an element: errors of independent sign add up like √N."""
    return gate / math.sqrt(max(1, n))


def _times(matrix: Array, vector: F64, transposed: bool, absolute: bool = False) -> F64:
    """op(matrix)·vector in float64, block by block of stored rows."""
    result = np.zeros(matrix.shape[1] if transposed else matrix.shape[0])
    with np.errstate(all="ignore"):
        for start in range(0, matrix.shape[0], _BLOCK):
            rows = matrix[start : start + _BLOCK].astype(np.float64)
            rows = np.abs(rows) if absolute else rows
            if transposed:
                result += rows.T @ vector[start : start + _BLOCK]
            else:
                result[start : start + _BLOCK] = rows @ vector
    return result
