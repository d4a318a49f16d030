"""alpha and beta in {0, −0, 1, −1, 0.7, 2⁻¹³⁰, Inf, NaN}², with NaN and infinities in C, in full and edge tiles.

One launch covers four tiles of C: one full and aligned, which takes the vector path, and three at the edges. C holds
finite numbers, NaN and both infinities, in all of them. beta = 0 must not read C, alpha = 0 neither A nor B.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from rung_launch import RUNGS, TENSOR_RUNGS, aligned, bits, expected_bits, launched, problem_of, small, tile

from gemmsmith.fills import Operands, operands
from gemmsmith.problem import Problem, arithmetic_of
from gemmsmith.verify.cases import SCALARS
from gemmsmith.verify.oracles.bounds import accuracy, error_ratios
from gemmsmith.verify.oracles.reference import float64_reference

C_VALUES = (math.nan, math.inf, -math.inf, 0.0, -0.0, 2.0**-140)
# Most rungs share one of two epilogues: some of each get every pair, the others every value of alpha and of beta twice.
THOROUGH = ("naive", "vectorized", "warp_tile", "simt_best", TENSOR_RUNGS[-1])
FEW = [(alpha, SCALARS[(i + shift) % len(SCALARS)]) for i, alpha in enumerate(SCALARS) for shift in (0, 3)]
PAIRS = [(name, alpha, beta) for name in RUNGS
         for alpha, beta in (product(SCALARS, SCALARS) if name in THOROUGH else FEW)]  # fmt: skip


def data_for(problem: Problem) -> Operands:
    """Random operands, and in C one special value after the other at about every second element."""
    data = operands(problem, "normal", seed=1)
    rows, columns = np.indices(problem.c_shape)
    pattern = (3 * rows + 7 * columns) % (2 * len(C_VALUES))
    for index, value in enumerate(C_VALUES):
        data.c[pattern == index] = value
    return data


@pytest.mark.parametrize(("name", "alpha", "beta"), PAIRS)
def test_scalars(name: str, alpha: float, beta: float) -> None:
    spec, config = small(name)
    bm, bn, bk = tile(name)
    problem = aligned(problem_of(name, (bm + 1, bn + 3, bk + 2)).with_(alpha=alpha, beta=beta))
    data = data_for(problem)
    got = launched(spec, config, problem, data)

    assert np.array_equal(bits(got), expected_bits(spec, problem, data))
    ratios = error_ratios(problem, got, float64_reference(problem, data.a, data.b, data.c))
    assert (ratios <= accuracy(arithmetic_of(problem.dtype, spec.tensor_cores), problem.k).gate).all()
    if beta == 0 and math.isfinite(alpha):
        assert np.isfinite(got).all()  # whatever C held
    if beta != 0:
        assert np.isnan(got[np.isnan(data.c)]).all()


@pytest.mark.parametrize("name", RUNGS)
def test_an_infinite_alpha_without_a_product_gives_no_nan(name: str) -> None:
    spec, config = small(name)
    bm, bn, _ = tile(name)
    problem = problem_of(name, (bm + 1, bn - 1, 0)).with_(alpha=math.inf, beta=-1.0)
    data = operands(problem, "integers")
    assert np.array_equal(launched(spec, config, problem, data), -data.c)
