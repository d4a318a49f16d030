"""The margin that docs/precision.md allows 'fp32', from the rule of tensor cores: bf16×6 beside an fma loop.

K-tiles of 16, with small products in a sum of their own, as in fp32_tensor_bf16x6, and k-tiles of 64 with all
products in one sum, as fp32_wgmma_bf16x6 has, and 32, as fp32_wgmma_registers. The loop stands
for cuBLAS on CUDA cores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fp32_tensor_rule import F32, six_products, three_parts
from tensor_core_rule import block_sums

from gemmsmith.choose.precision import FP32_FLOOR, FP32_MARGIN
from gemmsmith.fills import Array, fill_named, operands
from gemmsmith.problem import BF16, Problem
from gemmsmith.verify.oracles.accuracy_study import DISTRIBUTIONS
from gemmsmith.verify.oracles.bounds import error_ratios, gate
from gemmsmith.verify.oracles.fma import mul32, ordered_fma_reference
from gemmsmith.verify.oracles.reference import float64_reference

CASES = 12  # of each distribution
STEP = 16
ORDER = ((1, 1), (0, 1), (1, 0), (0, 2), (2, 0), (0, 0))  # small products first


def by_k_tiles(left: Array, right: Array, depth: int) -> F32:
    """2**32 times the product; sums of ``depth`` k are added without compensation."""
    x, y = (np.stack(three_parts(each)) for each in (left, right))
    total = np.zeros((left.shape[0], right.shape[1]), np.float32)
    for k in range(0, left.shape[1], depth):
        at = slice(k, k + depth)
        missing = -len(y[0, at]) % STEP
        parts_x, parts_y = (
            np.pad(x[:, :, at], ((0, 0), (0, 0), (0, missing))),
            np.pad(y[:, at], ((0, 0), (0, missing), (0, 0))),
        )
        pairs = [(parts_x[i], parts_y[j]) for i, j in ORDER]
        total = total + block_sums(
            np.concatenate([a for a, _ in pairs], axis=1), np.concatenate([b for _, b in pairs]), BF16
        )
    return total


METHODS: dict[str, Callable[[Array, Array], F32]] = {
    "k-tiles of 16": lambda left, right: six_products(left, right, 16),
    "k-tiles of 64": lambda left, right: by_k_tiles(left, right, 64),
    "k-tiles of 32": lambda left, right: by_k_tiles(left, right, 32),
}


def largest(problem: Problem, got: Any, a: Array, b: Array) -> float:
    reference = float64_reference(problem, a, b, np.zeros(problem.c_shape, np.float32))
    return float(error_ratios(problem, got, reference).max())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_errors_are_within_the_margin_of_an_fma_loop(distribution: str, method: str) -> None:
    rng = np.random.default_rng(DISTRIBUTIONS.index(distribution))
    for seed in range(CASES):
        m, n, k = (int(np.exp2(rng.uniform(0, most))) for most in (5, 5, 8))
        problem = Problem(m, n, k)
        data = operands(problem, distribution, seed)
        theirs = largest(problem, ordered_fma_reference(problem, data.a, data.b, data.c), data.a, data.b)
        ours = largest(problem, mul32(np.full(1, 2.0**-32), METHODS[method](data.a, data.b)), data.a, data.b)
        floor = FP32_FLOOR * gate(k, fill_named(distribution).errors_grow)
        assert ours <= FP32_MARGIN * max(theirs, floor), problem


@pytest.mark.parametrize("distribution", ["normal", "uniform", "cancelling"])
def test_of_many_outputs_none_of_the_margin_is_needed(distribution: str) -> None:
    problem = Problem(40, 40, 256)
    data = operands(problem, distribution, 1)
    theirs = largest(problem, ordered_fma_reference(problem, data.a, data.b, data.c), data.a, data.b)
    for product in METHODS.values():
        assert largest(problem, mul32(np.full(1, 2.0**-32), product(data.a, data.b)), data.a, data.b) <= theirs
