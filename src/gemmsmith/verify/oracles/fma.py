"""The bit-exact result of an fp32 kernel that accumulates with fma over ascending k.

``fma32`` rounds a·b + c once. float64 holds the product of two fp32 numbers exactly (24 + 24 ≤ 53 bits, and no
product of fp32 numbers leaves float64's exponent range), but the sum is rounded to 53 bits, and casting that to fp32
would round a second time. So the sum's exact error is recovered (Knuth's TwoSum) and folded into its last bit.
This is rounding to odd: a 53-bit number rounded to odd, then to nearest in at most 51 bits, equals the exact number
rounded once (Boldo and Melquiond, 2008). That covers subnormal results, which have even fewer bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.problem import Problem
from gemmsmith.verify.oracles.reference import has_product

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

# NVIDIA's fp32 arithmetic produces this NaN for every NaN input.
CANONICAL_NAN = np.uint32(0x7FFFFFFF)


def fma32(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> F32:
    """a·b + c of fp32 arrays (broadcast), rounded once to nearest-even; NaN results are 0x7fffffff."""
    with np.errstate(all="ignore"):
        product = _widened(a) * _widened(b)
        return _canonical(_round_to_odd(product, _widened(c)).astype(np.float32))


def mul32(a: NDArray[Any], b: NDArray[Any]) -> F32:
    """a·b of fp32 arrays; NaN results are 0x7fffffff."""
    with np.errstate(all="ignore"):
        return _canonical(np.multiply(np.asarray(a, dtype=np.float32), np.asarray(b, dtype=np.float32)))


def ordered_fma_reference(problem: Problem, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> F32:
    """C as every rung computes it: one accumulator per output, fma over ascending k, then the epilogue.

    acc = fma(A[i,k], B[k,j], acc) from acc = +0; v = alpha·acc; C = v where beta is 0, else fma(beta, C, v).
    Without a product (alpha = 0 or K = 0) v is +0 for either sign of alpha, and A and B are not read. Operands are as
    stored; 16-bit operands are widened exactly.

    Correct rungs may differ in one case: if every product of a sum underflows to −0, a k-tile padded with zeros turns
    the result into +0. This needs operands below 2**−75, which no fill has.
    """
    scaled = np.zeros(problem.c_shape, dtype=np.float32)
    if has_product(problem):
        left = (a.T if problem.trans_a else a).astype(np.float32)
        right = (b.T if problem.trans_b else b).astype(np.float32)
        accumulator = np.zeros(problem.c_shape, dtype=np.float32)
        for k in range(problem.k):
            accumulator = fma32(left[:, k, None], right[None, k, :], accumulator)
        scaled = mul32(np.full(1, problem.alpha), accumulator)
    if problem.beta == 0:
        return scaled
    return fma32(np.full(1, problem.beta), c, scaled)


def _widened(values: NDArray[Any]) -> F64:
    """fp32 or narrower numbers in float64; a float64 scalar is first rounded to fp32."""
    return np.asarray(values, dtype=np.float32).astype(np.float64)


def _round_to_odd(x: F64, y: F64) -> F64:
    """x + y as float64, rounded to odd; infinities and NaN as the hardware adds them."""
    total = np.asarray(x + y)
    # TwoSum: total + error == x + y exactly, if all are finite.
    from_y = total - x
    error = np.asarray((x - (total - from_y)) + (y - from_y))
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    # The bits encode a magnitude: step outward if the error has the sum's sign, else inward.
    outward = (error > 0) == (total > 0)
    return (bits + np.where(inexact, np.where(outward, 1, -1), 0)).view(np.float64)


def _canonical(values: NDArray[Any]) -> F32:
    bits = np.atleast_1d(values).view(np.uint32).copy()
    bits[np.isnan(np.atleast_1d(values))] = CANONICAL_NAN
    return bits.view(np.float32).reshape(np.shape(values))
