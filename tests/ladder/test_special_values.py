"""NaN, an infinity or a subnormal at one position of A or B: its row or column of C shows it, all others do not.

Each case compares two launches that differ in one element. The outputs that it cannot reach must be identical to
the last bit; those it does reach must be what IEEE arithmetic says, on tensor cores but for rounding towards zero.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from rung_launch import RUNGS, TENSOR_RUNGS, aligned, bits, expected_bits, launched, problem_of, small, tile

from gemmsmith.fills import Array, Operands, operands
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import DTYPES, FP16, Problem

VALUES = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "subnormal": 0.0}
# First element, last element, the last of the first tile, and the one after it.
PLACES = ("first", "last", "tile_end", "tile_next")
# Every rung in its first type; the others of tensor cores, whose range of exponents differs, in one rung each.
TYPES = [*((name, rung_named(name).dtypes[0].name) for name in RUNGS), ("warp_tile_mixed", "bf16"), ("wmma", "bf16"),
         ("mma_swizzled", "tf32"), ("mma_pipelined", "bf16")]  # fmt: skip
# In every place for each rung that sums in order; of tensor cores only the last one has them all.
CASES = [(name, dtype, place) for name, dtype in TYPES
         for place in (PLACES[1:3] if name in TENSOR_RUNGS[:-1] else PLACES)]  # fmt: skip


def problem_for(name: str, dtype: str) -> Problem:
    bm, bn, bk = tile(name)
    return aligned(problem_of(name, (bm + 2, bn + 2, bk + 3)).with_(dtype=DTYPES[dtype]))


@cache
def plain(name: str, dtype: str) -> tuple[Operands, Array]:
    """Random operands and C for them."""
    spec, config = small(name)
    problem = problem_for(name, dtype)
    data = operands(problem, "normal", seed=3)
    return data, launched(spec, config, problem, data)


def position(name: str, problem: Problem, operand: str, place: str) -> tuple[int, int]:
    bm, bn, bk = tile(name)
    shape, edge = (problem.a_shape, (bm, bk)) if operand == "a" else (problem.b_shape, (bk, bn))
    if place == "first":
        return 0, 0
    if place == "last":
        return shape[0] - 1, shape[1] - 1
    back = 1 if place == "tile_end" else 0
    return edge[0] - back, edge[1] - back


def planted(data: Operands, operand: str, where: tuple[int, int], value: float) -> Operands:
    changed: Array = getattr(data, operand).copy()
    changed[where] = value
    return replace(data, **{operand: changed})


@pytest.mark.parametrize("kind", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("operand", ["a", "b"])
@pytest.mark.parametrize(("name", "dtype", "place"), CASES)
def test_one_row_or_column_is_affected(name: str, dtype: str, place: str, operand: str, kind: str) -> None:
    spec, config = small(name)
    problem = problem_for(name, dtype)
    before, untouched = plain(name, dtype)
    where = position(name, problem, operand, place)
    data = planted(before, operand, where, VALUES[kind])
    got = launched(spec, config, problem, data)

    affected = np.zeros(problem.c_shape, bool)
    if operand == "a":
        affected[where[0], :] = True
        factors = before.b[where[1], :].astype(np.float32)
    else:
        affected[:, where[1]] = True
        factors = before.a[:, where[0]].astype(np.float32)
    if spec.prologue is None:  # else one such element changes the method for all: they are held to its rule below
        assert np.array_equal(bits(got)[~affected], bits(untouched)[~affected])
    with np.errstate(invalid="ignore"):
        expected = np.float32(VALUES[kind]) * factors
    assert np.array_equal(got[affected], expected, equal_nan=True)
    assert np.array_equal(bits(got), expected_bits(spec, problem, data))


@pytest.mark.parametrize("operand", ["a", "b"])
@pytest.mark.parametrize(("name", "dtype", "place"), CASES)
def test_a_subnormal_is_not_flushed(name: str, dtype: str, place: str, operand: str) -> None:
    """The element is alone in its row of A (column of B), so that flushing it to zero shows."""
    spec, config = small(name)
    problem = problem_for(name, dtype)
    before, untouched = plain(name, dtype)
    where = position(name, problem, operand, place)
    line = np.s_[where[0], :] if operand == "a" else np.s_[:, where[1]]
    tiny = 2.0**-20 if problem.dtype == FP16 else 2.0**-133
    cleared: Array = getattr(before, operand).copy()
    cleared[line] = 0
    data = planted(replace(before, **{operand: cleared}), operand, where, tiny)
    got = launched(spec, config, problem, data)

    affected = np.zeros(problem.c_shape, bool)
    affected[line] = True
    factors = before.b[where[1], :] if operand == "a" else before.a[:, where[0]]
    assert np.array_equal(bits(got)[~affected], bits(untouched)[~affected])
    assert np.array_equal(bits(got), expected_bits(spec, problem, data))
    if spec.tensor_cores:
        below = np.abs(np.float64(tiny) * factors.astype(np.float64))
        assert (np.abs(got[affected]) <= below * (1 + 2.0**-11) + 2.0**-150).all()
    else:
        assert np.array_equal(got[affected], np.float32(tiny) * factors.astype(np.float32))
    assert np.count_nonzero(got[affected]) > np.count_nonzero(affected) // 2
