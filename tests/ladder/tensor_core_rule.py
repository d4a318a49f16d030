"""What a rung on tensor cores must produce, bit for bit: the rule of docs/simulator.md, written down once more.

Independent of the simulator, which works on integers; here everything is float64 and whole matrices at a time:

    products of a block of k (32 bytes of it) are exact; with E the largest exponent among them and the sum so far, all
    are cut off below 2**(E − 25), E being at least −133, added exactly, and the new sum is cut to fp32, towards zero
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gemmsmith.fills import Array
from gemmsmith.problem import FP16, TF32, DType, Problem
from gemmsmith.verify.oracles.fma import fma32, mul32
from gemmsmith.verify.oracles.reference import has_product

F64 = NDArray[np.float64]
STEP_BYTES = 32
_NO_EXPONENT = -10_000  # of a zero, which takes no part


def tensor_core_reference(problem: Problem, a: Array, b: Array, c: Array, *, arch: int = 90) -> NDArray[np.float32]:
    """C in fp32 from fp16, bf16 or rounded tf32 operands: blocks of products, then the epilogue of every rung."""
    operand = to_tf32 if problem.dtype == TF32 and arch >= 90 else to_tf32_away if problem.dtype == TF32 else _exact
    scaled = np.zeros(problem.c_shape, np.float32)
    if has_product(problem):
        left, right = operand(a.T if problem.trans_a else a), operand(b.T if problem.trans_b else b)
        sums = block_sums(left, right, problem.dtype)
        scaled = mul32(np.full(1, problem.alpha), sums)
    return scaled if problem.beta == 0 else fma32(np.full(1, problem.beta), c, scaled)


def block_sums(left: F64, right: F64, dtype: DType) -> NDArray[np.float32]:
    """left · right, summed as tensor cores do."""
    at_once, least = STEP_BYTES // dtype.itemsize, -14 if dtype == FP16 else -126
    total: F64 = np.zeros((left.shape[0], right.shape[1]))
    with np.errstate(all="ignore"):
        for k in range(0, left.shape[1], at_once):
            x, y = left[:, k : k + at_once, None], right[None, k : k + at_once, :]
            terms = np.concatenate([x * y, total[:, None, :]], axis=1)
            sums = _exponent(x, least) + _exponent(y, least)
            exponents = np.concatenate([np.where(x * y == 0, _NO_EXPONENT, sums), _exponent(total, -126)[:, None]], 1)
            last_place = np.ldexp(1.0, np.maximum(exponents.max(axis=1), -133) - 25)[:, None]
            kept = (np.trunc(terms / last_place) * last_place).sum(axis=1)
            special = ~np.isfinite(terms).all(axis=1)
            total = _cut(np.where(special, terms.sum(axis=1), kept))
    narrow = total.astype(np.float32)
    narrow[np.isnan(narrow)] = np.uint32(0x7FFFFFFF).view(np.float32)
    return narrow + np.float32(0)  # a sum of zero is +0


def _exact(values: Array) -> F64:
    wide: F64 = values.astype(np.float64)
    return wide


def to_tf32(values: Array) -> F64:
    """To 10 fraction bits, to nearest, ties to even, as the rungs round from sm_90 on; infinite from 2**128 on."""
    wide = _exact(values)
    place = np.ldexp(1.0, np.maximum(np.frexp(wide)[1], -125) - 11)
    rounded: F64 = np.rint(wide / place) * place
    return np.where(np.abs(rounded) >= math.ldexp(1.0, 128), np.copysign(math.inf, rounded), rounded)


def to_tf32_away(values: Array) -> F64:
    """The same with ties away from zero, as before sm_90: half of the last place is added to the magnitude."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return _exact(np.where(np.isfinite(values), rounded, values))


def _exponent(values: F64, least: int) -> NDArray[np.int64]:
    """That of the leading bit, of subnormal numbers the smallest normal one's."""
    exponents = np.maximum(np.frexp(values)[1].astype(np.int64) - 1, least)
    return np.where((values == 0) | ~np.isfinite(values), _NO_EXPONENT, exponents)


def _cut(values: F64) -> F64:
    """Towards zero, to what fp32 holds; infinite from 2**128 on."""
    near = values.astype(np.float32)
    below = np.where(np.abs(near.astype(np.float64)) > np.abs(values), np.nextafter(near, np.float32(0)), near)
    return np.where(np.abs(values) >= math.ldexp(1.0, 128), values * math.inf, below.astype(np.float64))
