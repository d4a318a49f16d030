"""What a matrix instruction computes for each combination of types: D of A, B and C as arrays of raw bits.

A is (K, rows, n), B (K, columns, n), C and D (rows, columns, n), for n instructions. Elements narrower than a byte come
by the byte.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import ml_dtypes
import numpy as np

from gemmsmith.sim.arithmetic.doubles import fma64
from gemmsmith.sim.arithmetic.rounding import add32, fma32, to_half
from gemmsmith.sim.arithmetic.tensor_core import HOPPER, WGMMA_BYTES, integer_multiply_add, multiply_add
from gemmsmith.sim.ptx.types import Array

Matrix = Callable[[Array, Array, Array], Array]

_BYTES = {"s8": np.dtype(np.int8), "u8": np.dtype(np.uint8)}
_BYTE_FLOATS = {"e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2)}
_ACCUMULATORS: dict[str, np.dtype[Any]] = {"f16": np.dtype(np.float16), "f32": np.dtype(np.float32)}
_NEW_NAN = np.uint64(0xFFF8 << 48)
_QUIET = np.uint64(1 << 51)


@cache
def arithmetic(a: str, b: str, c: str, saturate: bool = False) -> Matrix:
    """The function for these element types of A, B and C; D has the type of C."""
    if a in HOPPER:
        return partial(_float, a, _ACCUMULATORS[c])
    if a in _BYTE_FLOATS:
        return partial(_byte_float, _BYTE_FLOATS[a], _BYTE_FLOATS[b])
    if a == "f64":
        return _double
    return partial(_integer, a, b, saturate)


@cache
def wgmma_arithmetic(a: str, b: str, c: str, saturate: bool = False) -> Matrix:
    """The same for wgmma, which has fp8 of its own; mma.sync builds it from fp16."""
    if a in _BYTE_FLOATS:
        return partial(_wgmma_byte_float, a, b, _ACCUMULATORS[c])
    return arithmetic(a, b, c, saturate)


def _wgmma_byte_float(a_kind: str, b_kind: str, accumulators: np.dtype[Any], a: Array, b: Array, c: Array) -> Array:
    return multiply_add(a_kind, a, b, c.view(accumulators), WGMMA_BYTES, b_kind).view(c.dtype)


def _float(kind: str, accumulators: np.dtype[Any], a: Array, b: Array, c: Array) -> Array:
    return multiply_add(kind, a, b, c.view(accumulators), HOPPER[kind]).view(c.dtype)


def _integer(a_kind: str, b_kind: str, saturate: bool, a: Array, b: Array, c: Array) -> Array:
    first, second = _integers(a, a_kind), _integers(b, b_kind)
    return integer_multiply_add(first, second, c.view(np.int32), saturate).view(np.uint32)


def _integers(values: Array, kind: str) -> Array:
    """Bytes as numbers. The order along K does not matter to a sum of integers."""
    if kind in _BYTES:
        return values.view(_BYTES[kind])
    low, high = (values << 4 if kind == "s4" else values & 15), values
    if kind == "s4":
        return np.concatenate([low.view(np.int8) >> 4, high.view(np.int8) >> 4])
    return np.concatenate([low, high >> 4])


def bits(exclusive: bool, a: Array, b: Array, c: Array) -> Array:
    """b1: C plus the number of ones in the AND of a row and a column, or in the XOR."""
    total = c.astype(np.int64)
    for one, other in zip(a, b, strict=True):
        both = one[:, None] ^ other[None] if exclusive else one[:, None] & other[None]
        total += np.bitwise_count(both)
    return total.astype(np.uint32)


def _double(a: Array, b: Array, c: Array) -> Array:
    """One fused multiply-add after another. Of several NaN, that of B is passed on before those of C and A."""
    total = c.view(np.float64)
    for one, other in zip(a.view(np.float64), b.view(np.float64), strict=True):
        x, y = np.broadcast_to(one[:, None], total.shape), np.broadcast_to(other[None], total.shape)
        result = fma64(x, y, total)
        if np.isnan(result).any():
            words = np.where(np.isnan(result), _NEW_NAN, result.view(np.uint64))
            for operand in (x, total, y):
                given = np.ascontiguousarray(operand)
                words = np.where(np.isnan(given), given.view(np.uint64) | _QUIET, words)
            result = words.view(np.float64)
        total = result
    return total.view(np.uint64)


def _byte_float(a_kind: np.dtype[Any], b_kind: np.dtype[Any], a: Array, b: Array, c: Array) -> Array:
    """fp8 as sm_90 does it: two instructions on fp16 without C, for the lower and upper halves of registers."""
    x, y = (v.view(kind).astype(np.float16).view(np.uint16) for v, kind in ((a, a_kind), (b, b_kind)))
    upper = np.arange(len(x)) // 2 % 2 == 1
    total = np.zeros(c.shape, np.float32)
    for half in (~upper, upper):
        total = multiply_add("f16", x[half], y[half], total, HOPPER["f16"])
    return add32(c.view(np.float32), total).view(np.uint32)


def quad_pair_product(a: Array, b: Array, c: Array, half: bool) -> Array:
    """m8n8k4 of fp16 as ptxas builds it for sm_75 and later: A (…, 8, 4), B (…, 4, 8), C fp16 or fp32 (…, 8, 8).

    With fp32 results: four fused multiply-adds from zero, then C is added. With fp16 results: pairs of products, added
    to C one after the other in fp32.
    """
    x, y = (v.view(np.float16).astype(np.float32) for v in (a, b))
    products = [(x[..., :, k, None], y[..., k, None, :]) for k in range(4)]
    start = c.astype(np.float32)
    with np.errstate(all="ignore"):
        if half:
            pairs = [fma32(*products[k + 1], np.multiply(*products[k])) for k in (0, 2)]
            return to_half(add32(add32(start, pairs[0]), pairs[1])).view(np.uint16)
        total = np.zeros(start.shape, np.float32)
        for one, other in products:
            total = fma32(one, other, total)
        return add32(start, total).view(np.uint32)
