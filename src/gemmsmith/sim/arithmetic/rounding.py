"""Floating-point arithmetic that rounds exactly as the GPU does.

A fused multiply-add rounds once. The product of two fp32 numbers is exact in float64, but the float64 sum rounds, and
rounding that again to fp32 may differ from rounding once. It differs only where the float64 sum is exactly halfway
between two fp32 numbers, or where the result is subnormal. Those few lanes are recomputed with a sum rounded to odd,
which is safe to round again.

NaN results are NVIDIA's canonical NaN; the operands' payloads are lost.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from gemmsmith.sim.ptx.types import Array

CANONICAL_NAN_32 = np.uint32(0x7FFFFFFF)
CANONICAL_NAN_16 = np.uint16(0x7FFF)
TF32_MASK = np.uint32(0xFFFFE000)
# Shifted left by this, a float64 has only the 29 bits of its significand that fp32 does not have, and their halfway
# pattern is this.
_KEPT = np.uint64(35)
_HALFWAY = np.uint64(1 << 63)
_ONE = np.uint32(1)
# After a left shift that removes the sign: below _REGULAR is zero, subnormal, or the smallest normal number, which a
# subnormal sum may have been rounded up to; from there to infinity is regular; above is NaN.
_REGULAR = np.uint32(0x01000002)
_REGULAR_RANGE = np.uint32(0xFF000000 - 0x01000002)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """a·b + c in fp32, rounded once to nearest even."""
    total: Array = np.atleast_1d(np.multiply(a, b, dtype=np.float64))
    total = np.add(total, c, out=total if total.size >= np.size(c) else None)
    result: Array = total.astype(np.float32)
    irregular: Array = np.left_shift(total.view(np.uint64), _KEPT) == _HALFWAY
    magnitude = np.left_shift(result.view(np.uint32), _ONE)
    magnitude -= _REGULAR  # wraps, so that zero, subnormal and NaN are all above the regular range
    irregular |= magnitude > _REGULAR_RANGE
    if np.count_nonzero(irregular):
        irregular &= total != 0  # a sum is zero only where it is exact
        if (where := np.flatnonzero(irregular)).size:
            _redo(result, a, b, c, where)
    return result


def _redo(result: Array, a: Array, b: Array, c: Array, where: Array) -> None:
    """Recompute the lanes ``where`` with the sum rounded to odd, and make NaN canonical."""
    shape = result.shape
    a, b, c = (np.broadcast_to(x, shape).reshape(-1)[where].astype(np.float64) for x in (a, b, c))
    fixed = round_to_odd_sum(a * b, c).astype(np.float32)
    result.reshape(-1)[where] = canonical32(fixed)


def round_to_odd_sum(x: Array, y: Array) -> Array:
    """x + y in float64, rounded to odd: safe to round again to any narrower format."""
    total: Array = x + y
    shifted = total - x
    error = (x - (total - shifted)) + (y - shifted)  # exact, where everything is finite
    inexact = np.isfinite(total) & (error != 0) & ((total.view(np.uint64) & np.uint64(1)) == 0)
    towards = np.where(error > 0, np.inf, -np.inf)
    result: Array = np.where(inexact, np.nextafter(total, towards), total)
    return result


def canonical32(x: Array) -> Array:
    """fp32 values with every NaN replaced by the canonical one."""
    nan = x != x
    if np.any(nan):
        x = np.array(x, dtype=np.float32)
        x.view(np.uint32)[nan] = CANONICAL_NAN_32
    return x


def quiet64(x: Array) -> Array:
    """float64 values with every signalling NaN made quiet, its payload kept."""
    nan = x != x
    if np.any(nan):
        x = np.array(x, dtype=np.float64)
        x.view(np.uint64)[nan] |= np.uint64(1 << 51)
    return x


def arithmetic64(operation: Callable[[Array, Array], Array], prefer: int = 1) -> Callable[[Array, Array], Array]:
    """float64 arithmetic of an H200: a new NaN is negative; of two NaN operands, number ``prefer`` is passed on."""

    def compute(a: Array, b: Array) -> Array:
        result = np.asarray(operation(a, b))
        if not np.any(result != result):
            return result
        a, b = np.broadcast_to(a, result.shape), np.broadcast_to(b, result.shape)
        own = (result != result) & (a == a) & (b == b)
        first, second = (b, a) if prefer == 1 else (a, b)
        passed = np.where(first != first, quiet64(first), np.where(second != second, quiet64(second), result))
        return np.where(own, np.copysign(np.nan, -1.0), passed)

    return compute


def fused64(operation: Callable[[Array, Array, Array], Array]) -> Callable[[Array, Array, Array], Array]:
    """A float64 multiply-add of an H200: of several NaN operands b comes first, then c."""

    def compute(a: Array, b: Array, c: Array) -> Array:
        result = np.asarray(operation(a, b, c))
        if not np.any(result != result):
            return result
        a, b, c = (np.broadcast_to(x, result.shape) for x in (a, b, c))
        passed = np.where(result != result, np.copysign(np.nan, -1.0), result)
        for operand in (a, c, b):
            passed = np.where(operand != operand, quiet64(operand), passed)
        return passed

    return compute


def single64(operation: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A float64 function of one operand: a new NaN is negative, the operand's is passed on."""

    def compute(a: Array) -> Array:
        result = np.asarray(operation(np.atleast_1d(a)))
        made = np.where(result != result, np.copysign(np.nan, -1.0), result)
        return np.where(a != a, quiet64(np.atleast_1d(a)), made)

    return compute


def negate64(x: Array) -> Array:
    """−x; a NaN keeps its sign."""
    return np.where(x != x, quiet64(x), -x)


def absolute64(x: Array) -> Array:
    """|x|; a NaN keeps its sign."""
    return np.where(x != x, quiet64(x), np.abs(x))


def add32(a: Array, b: Array) -> Array:
    """a + b in fp32."""
    return canonical32(np.add(a, b, dtype=np.float32))


def sub32(a: Array, b: Array) -> Array:
    """a − b in fp32."""
    return canonical32(np.subtract(a, b, dtype=np.float32))


def mul32(a: Array, b: Array) -> Array:
    """a·b in fp32."""
    return canonical32(np.multiply(a, b, dtype=np.float32))


def div32(a: Array, b: Array) -> Array:
    """a / b in fp32, rounded to nearest even."""
    return canonical32(np.divide(a, b, dtype=np.float32))


def float_min(a: Array, b: Array) -> Array:
    """The smaller; the other operand where one is NaN (np.fmin differs for signalling ones); −0 is below +0."""
    takes_a = (a < b) | ((b != b) & (a == a)) | ((a == b) & np.signbit(a))
    return np.where(takes_a, a, b)


def float_max(a: Array, b: Array) -> Array:
    """The larger, by the same rules."""
    takes_a = (a > b) | ((b != b) & (a == a)) | ((a == b) & np.signbit(b))
    return np.where(takes_a, a, b)


def to_half(x: Array) -> Array:
    """float32 or float64 values to fp16, rounded once to nearest even."""
    result: Array = x.astype(np.float16)
    nan = x != x
    if np.any(nan):
        result.view(np.uint16)[nan] = CANONICAL_NAN_16
    return result


def to_bfloat(x: Array) -> Array:
    """float32 or float64 values to bf16, rounded once to nearest even."""
    single = _odd_single(x) if x.dtype == np.float64 else np.ascontiguousarray(x, dtype=np.float32)
    bits = single.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    result = (rounded >> np.uint32(16)).astype(np.uint16)
    nan = x != x
    if np.any(nan):
        result[nan] = CANONICAL_NAN_16
    return result.view(ml_dtypes.bfloat16)


def to_tf32(x: Array, away: bool) -> Array:
    """fp32 values to TF32, in the upper 19 of 32 bits: to nearest, ties away from zero or to even.

    The GPU does ties away with integer instructions, which cut off a NaN's low payload bits; a NaN with no other
    payload becomes infinite. Ties to even is one instruction from sm_90 on; its NaN is always the same, without a
    sign. Both as recorded on an H200 (tests/data/tensor_cores.npz).
    """
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    if away:
        return np.where(np.isfinite(x), bits + np.uint32(0x1000), bits) & TF32_MASK
    rounded = bits + np.uint32(0x0FFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    return np.where(x != x, CANONICAL_NAN_32, rounded) & TF32_MASK


def _odd_single(x: Array) -> Array:
    """float64 to fp32 rounded to odd."""
    single = x.astype(np.float32)
    back = single.astype(np.float64)
    inexact = (back != x) & np.isfinite(back) & ((single.view(np.uint32) & np.uint32(1)) == 0)
    towards = np.where(x > back, np.float32(np.inf), np.float32(-np.inf)).astype(np.float32)
    result: Array = np.where(inexact, np.nextafter(single, towards), single)
    # A finite value that overflowed in the first rounding must not stay infinite here.
    overflowed = np.isinf(single) & np.isfinite(x)
    return np.where(overflowed, np.copysign(np.finfo(np.float32).max, x).astype(np.float32), result)
