"""What fp32_tensor_bf16x6 must compute, bit for bit, from the rule of tensor cores and IEEE arithmetic alone.

x·2**16 = x1 + x2 + x3 in bf16; for each PROMOTE of k, in tensor cores that start from zero: large = x1·y1, and
small = x3·y1, x1·y3, x2·y2, x2·y1, x1·y2, one after another; sum = sum + (large + small), two roundings to nearest;
a sum that is not finite is summed again by fma, in ascending k
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tensor_core_rule import block_sums

from gemmsmith.fills import Array
from gemmsmith.problem import BF16, Problem
from gemmsmith.verify.oracles.fma import fma32, mul32, ordered_fma_reference
from gemmsmith.verify.oracles.reference import has_product

F32 = NDArray[np.float32]
STEP = 16  # of k, in one mma.sync
SMALL = ((2, 0), (0, 2), (1, 1), (1, 0), (0, 1))


def fp32_tensor_reference(problem: Problem, a: Array, b: Array, c: Array, promote: int = 16) -> F32:
    """C in fp32, with the epilogue of every rung."""
    scaled = np.zeros(problem.c_shape, np.float32)
    if has_product(problem):
        left, right = a.T if problem.trans_a else a, b.T if problem.trans_b else b
        sums = mul32(np.full(1, 2.0**-32), six_products(left, right, promote))
        alone = problem.with_(alpha=1.0, beta=0.0)
        sums = np.where(np.isfinite(sums), sums, ordered_fma_reference(alone, a, b, c))
        scaled = mul32(np.full(1, problem.alpha), sums)
    return scaled if problem.beta == 0 else fma32(np.full(1, problem.beta), c, scaled)


def three_parts(values: Array) -> list[Array]:
    """bf16 numbers, as float64, that add up to 2**16 times the values; meaningless where those are too large."""
    parts = []
    with np.errstate(all="ignore"):
        rest = np.ascontiguousarray(values, np.float32) * np.float32(2**16)
        for _ in range(3):
            part = rest.astype(BF16.numpy).astype(np.float32)
            parts.append(part.astype(np.float64))
            rest = rest - part
    return parts


def six_products(left: Array, right: Array, promote: int) -> F32:
    """2**32 times the product of two matrices."""
    x, y = three_parts(left), three_parts(right)
    total = np.zeros((left.shape[0], right.shape[1]), np.float32)
    with np.errstate(all="ignore"):
        for k in range(0, left.shape[1], promote):
            steps = [slice(at, at + STEP) for at in range(k, min(k + promote, left.shape[1]), STEP)]
            large = _sums([(x[0][:, at], y[0][at]) for at in steps])
            small = _sums([(x[i][:, at], y[j][at]) for at in steps for i, j in SMALL])
            total = total + (large + small)
    return total


def _sums(pairs: list[tuple[Array, Array]]) -> F32:
    """Products added one after another to a tensor core's accumulator that starts from zero."""
    whole = [(_filled(x.T).T, _filled(y)) for x, y in pairs]
    return block_sums(np.concatenate([x for x, _ in whole], axis=1), np.concatenate([y for _, y in whole]), BF16)


def _filled(rows: Array) -> Array:
    """Padded with rows of zeros to a whole step."""
    return np.concatenate([rows, np.zeros((STEP - len(rows), rows.shape[1]))]) if len(rows) < STEP else rows
