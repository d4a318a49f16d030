"""The accumulators of the tensor-core rungs, bit for bit, in every floating-point type; and the rule for them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from rung_launch import TENSOR_RUNGS, aligned, bits, launched, small, verified
from tensor_core_rule import block_sums, tensor_core_reference, to_tf32, to_tf32_away

from gemmsmith.fills import operands
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, DTYPES, FP16, TF32, DType, Problem
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.oracles.fma import ordered_fma_reference

TYPES = [(name, dtype.name) for name in TENSOR_RUNGS for dtype in rung_named(name).dtypes if dtype.name != "int8"]
FILLS = ("normal", "uniform", "wide", "subnormal", "specials")


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize(("name", "dtype"), TYPES)
def test_every_type_and_fill(name: str, dtype: str, fill: str) -> None:
    spec, config = small(name)
    problem = aligned(Problem(66, 67, 83, dtype=DTYPES[dtype], alpha=0.7, beta=-1.5))
    verified(spec, config, problem, mode="bits", fill=fill, seed=len(fill))


def test_operands_are_truncated_to_tf32_with_round_0() -> None:
    spec, config = small("mma_swizzled")
    problem = Problem(5, 8, 24, dtype=TF32)
    data = operands(problem, "normal")
    cut = [(x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (data.a, data.b)]
    got = launched(spec, spec.config(dict(config.values) | {"ROUND": 0}), problem, data)
    assert np.array_equal(bits(got), bits(tensor_core_reference(problem, cut[0], cut[1], data.c)))
    assert not np.array_equal(bits(got), bits(launched(spec, config, problem, data)))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_ties_are_rounded_as_the_architecture_does_it_cheaply(arch: str) -> None:
    spec, config = small("mma_pipelined")
    problem = aligned(Problem(66, 67, 83, dtype=TF32))
    verified(spec, config, problem, device=SimDevice(arch=arch), fill="normal")
    data = operands(problem, "normal")
    even, away = (tensor_core_reference(problem, data.a, data.b, data.c, arch=n) for n in (90, 80))
    assert not np.array_equal(bits(even), bits(away))  # so that the bits above can tell them apart


# --- the rule, by hand


def test_where_ties_go() -> None:
    """Half way between two numbers of ten fraction bits, below and above; the smallest, the largest, and no numbers."""
    values = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, -1 - 2.0**-11, 1 + 2.0**-11 + 2.0**-23, 2.0**-137, 3 * 2.0**-137,
                       2.0**128 - 2.0**116, -(2.0**128) + 2.0**117, -math.inf, 0.0], np.float32)  # fmt: skip
    even = [1, 1 + 2.0**-9, -1, 1 + 2.0**-10, 0, 2.0**-135, math.inf, -(2.0**128) + 2.0**117, -math.inf, 0]
    away = [1 + 2.0**-10, 1 + 2.0**-9, -1 - 2.0**-10, 1 + 2.0**-10, 2.0**-136, 2.0**-135, *even[6:]]
    assert to_tf32(values).tolist() == even
    assert to_tf32_away(values).tolist() == away
    nan = np.array([math.nan], np.float32)
    assert np.isnan(to_tf32(nan)).all()
    assert np.isnan(to_tf32_away(nan)).all()


def summed(left: list[float], right: list[float], dtype: DType) -> float:
    return float(block_sums(np.array([left]), np.array([right]).T, dtype)[0, 0])


def test_terms_far_below_the_largest_are_truncated() -> None:
    """2⁻²⁵ of the largest is the last place that counts, and the sum is truncated at its 2⁻²³."""
    assert summed([1.0, *[2.0**-13] * 15], [1.0, *[2.0**-12] * 15], FP16) == 1 + 3 * 2.0**-23  # of 15 · 2⁻²⁵
    assert summed([1.0, *[2.0**-13] * 15], [1.0, *[2.0**-13] * 15], FP16) == 1.0
    assert summed([-1.0, *[2.0**-20] * 15], [1.0, *[2.0**-6] * 15], BF16) == -1.0
    assert summed([2.0**-3] * 16, [2.0**-3] * 16, BF16) == 0.25


def test_a_sum_is_truncated_towards_zero_block_after_block() -> None:
    """Rounding to nearest would carry 2⁻²³·3/4 up; truncated four times, nothing is left."""
    small_terms = [3 * 2.0**-13, *[0.0] * 15]
    left, right = [1.0, *[0.0] * 15, *small_terms * 4], [1.0, *[0.0] * 15, *([2.0**-12] * 16 * 4)]
    assert summed(left, right, FP16) == 1.0
    assert summed([-x for x in left], right, FP16) == -1.0
    assert summed([1.0, *[3 * 2.0**-13] * 4], [1.0, *[2.0**-12] * 4], FP16) == 1 + 3 * 2.0**-23  # in one block: exact


def test_how_many_products_are_added_at_once_shows() -> None:
    """A small term beside a large one and its negative: all ten products are added at once in bf16, eight in tf32."""
    left, right = [2.0**20, 2.0**-4, *[0.0] * 7, -(2.0**20)], [1.0] * 10
    assert summed(left, right, BF16) == 2.0**-4
    assert summed(left, right, TF32) == 0.0  # cut from the sum of the first eight


def test_the_rule_is_not_the_ordered_sum() -> None:
    """Otherwise the bits of tensor cores would prove nothing."""
    problem = Problem(16, 16, 64, dtype=FP16)
    data = operands(problem, "normal")
    ordered = ordered_fma_reference(problem, data.a, data.b, data.c)
    ruled = tensor_core_reference(problem, data.a, data.b, data.c)
    assert np.count_nonzero(ordered != ruled) > ordered.size // 2
    assert np.abs(ordered - ruled).max() < 1e-4


def test_bits_can_fail() -> None:
    """The order of summation of all other rungs is not the tensor core's."""
    spec, config = small("wmma")
    problem = Problem(5, 6, 40, dtype=FP16)
    data = operands(problem, "normal")
    got = bits(launched(spec, config, problem, data))
    expected = bits(tensor_core_reference(problem, data.a, data.b, data.c))
    assert np.array_equal(got, expected)
    assert not np.array_equal(got, bits(ordered_fma_reference(problem, data.a, data.b, data.c)))


# --- the epilogue


@pytest.mark.parametrize(("name", "out", "activation"), [
    *((name, FP16, "gelu") for name in TENSOR_RUNGS if FP16 in rung_named(name).dtypes),
    ("mma_pipelined", BF16, "silu"), ("mma_swizzled", BF16, ""),
], ids=str)  # fmt: skip
def test_no_bias_is_read_beyond_the_last_column(name: str, out: DType, activation: str) -> None:
    """Warps right of the last column have no bias: the compiler must not hoist the load above its bounds check."""
    spec, config = small(name)
    problem = Problem(17, 19, 24, dtype=out, out_dtype=out, bias="column", activation=activation, beta=0.5)
    verified(spec, config, problem, mode="float")
