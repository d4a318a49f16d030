"""What integer and bit instructions compute, over NumPy arrays; arithmetic wraps as registers do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemmsmith.sim.ptx.types import Array


def mad_low(a: Array, b: Array, c: Array) -> Array:
    return np.multiply(a, b) + c


def multiply_wide(wide: np.dtype[Any]) -> Callable[[Array, Array], Array]:
    return lambda a, b: np.multiply(a, b, dtype=wide)


def mad_wide(wide: np.dtype[Any]) -> Callable[[Array, Array, Array], Array]:
    return lambda a, b, c: np.multiply(a, b, dtype=wide) + c


def multiply_high(a: Array, b: Array) -> Array:
    """The upper half of the double-width product."""
    kind = np.asarray(a).dtype
    bits = kind.itemsize * 8
    if bits < 64:
        wide = np.int64 if kind.kind == "i" else np.uint64
        return (np.multiply(a, b, dtype=wide) >> wide(bits)).astype(kind)
    return _multiply_high_64(np.asarray(a), np.asarray(b), kind)


def _multiply_high_64(a: Array, b: Array, kind: np.dtype[Any]) -> Array:
    """64×64→128 by 32-bit halves; the signed form corrects the unsigned one."""
    ua, ub = a.astype(np.uint64), b.astype(np.uint64)
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a_low, a_high, b_low, b_high = ua & mask, ua >> half, ub & mask, ub >> half
    middle = a_high * b_low + ((a_low * b_low) >> half)
    carry = a_low * b_high + (middle & mask)
    high: Array = a_high * b_high + (middle >> half) + (carry >> half)
    if kind.kind == "i":
        high = high - np.where(a < 0, ub, np.uint64(0)) - np.where(b < 0, ua, np.uint64(0))
    return high.astype(kind)


def mad_high(a: Array, b: Array, c: Array) -> Array:
    return multiply_high(a, b) + c


def divide(a: Array, b: Array) -> Array:
    """Quotient truncated towards zero; division by zero gives all ones, as on an H200."""
    a, b = np.broadcast_arrays(a, b)
    safe = np.where(b == 0, np.ones_like(b), b)
    quotient: Array = (a - np.fmod(a, safe)) // safe
    return np.where(b == 0, ~np.zeros_like(a), quotient).astype(a.dtype)


def remainder(a: Array, b: Array) -> Array:
    """Remainder with the sign of the dividend; division by zero gives all ones, as on an H200."""
    a, b = np.broadcast_arrays(a, b)
    safe = np.where(b == 0, np.ones_like(b), b)
    return np.where(b == 0, ~np.zeros_like(a), np.fmod(a, safe)).astype(a.dtype)


def shift_left(a: Array, b: Array) -> Array:
    """Amounts beyond the width give zero."""
    kind = np.asarray(a).dtype
    bits = kind.itemsize * 8
    if isinstance(b, np.generic) and 0 <= int(b) < bits:  # most often: a constant
        by_constant: Array = np.left_shift(a, kind.type(int(b)))
        return by_constant
    shifted = np.left_shift(a, np.minimum(b, bits - 1).astype(kind))
    result: Array = np.where(b >= bits, kind.type(0), shifted) if np.any(b >= bits) else shifted
    return result


def shift_right(a: Array, b: Array) -> Array:
    """Amounts beyond the width give zero, or the sign for signed types."""
    kind = np.asarray(a).dtype
    bits = kind.itemsize * 8
    shifted: Array = np.right_shift(a, np.minimum(b, bits - 1).astype(kind))
    if kind.kind == "u" and np.any(b >= bits):
        shifted = np.where(b >= bits, kind.type(0), shifted)
    return shifted


def funnel(left: bool, wrap: bool) -> Callable[[Array, Array, Array], Array]:
    """shf: shift the 64-bit number {b, a}, and take the upper (left) or lower (right) half."""

    def shift(a: Array, b: Array, c: Array) -> Array:
        amount = (c & np.uint32(31)) if wrap else np.minimum(c, np.uint32(32))
        both = (np.asarray(b).astype(np.uint64) << np.uint64(32)) | a
        if left:
            return (((both << amount.astype(np.uint64)) >> np.uint64(32)) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        return ((both >> amount.astype(np.uint64)) & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    return shift


def _field(amount: Array, bits: int) -> Array:
    """A position or length: its low 8 bits for 32-bit fields; for 64-bit ones an H200 takes the whole number."""
    return (amount & np.uint32(255)).astype(np.int64) if bits == 32 else amount.astype(np.int64)


def bit_field_extract(a: Array, start: Array, length: Array) -> Array:
    """bfe: the field of ``length`` bits at ``start``; the signed form extends its top bit."""
    kind = np.asarray(a).dtype
    bits = kind.itemsize * 8
    wide = np.uint64
    start, length = _field(start, bits), _field(length, bits)
    raw = np.asarray(a).view(np.dtype(f"u{kind.itemsize}")).astype(wide)
    width = np.minimum(length, 64)
    mask = np.where(width >= 64, ~wide(0), (wide(1) << np.minimum(width, 63).astype(wide)) - wide(1))
    field = np.where(start >= bits, wide(0), raw >> np.minimum(start, 63).astype(wide)) & mask
    if kind.kind == "i":
        top = np.minimum(start + length - 1, bits - 1)
        sign = np.where(length == 0, wide(0), (raw >> np.maximum(top, 0).astype(wide)) & wide(1))
        valid = np.maximum(np.minimum(length, bits - start), 0)
        filled = np.where(valid >= 64, wide(0), ~wide(0) << np.minimum(valid, 63).astype(wide))
        field = np.where(sign == 1, field | filled, field)
    return field.astype(np.dtype(f"u{kind.itemsize}")).view(kind)


def bit_field_insert(a: Array, b: Array, start: Array, length: Array) -> Array:
    """bfi: ``length`` bits of a, put into b at ``start``."""
    kind = np.asarray(b).dtype
    bits = kind.itemsize * 8
    wide = np.uint64
    start, length = _field(start, bits), _field(length, bits)
    width = np.minimum(length, 64)
    mask = np.where(width >= 64, ~wide(0), (wide(1) << np.minimum(width, 63).astype(wide)) - wide(1))
    mask = np.where(start >= bits, wide(0), mask << np.minimum(start, 63).astype(wide))
    moved = np.asarray(a).astype(wide) << np.minimum(start, 63).astype(wide)
    return ((np.asarray(b).astype(wide) & ~mask) | (moved & mask)).astype(kind)


def permute_bytes(a: Array, b: Array, selector: Array) -> Array:
    """prmt: four bytes picked out of {b, a}; bit 3 of a selector nibble replicates the sign."""
    both = (np.asarray(b).astype(np.uint64) << np.uint64(32)) | a
    result = np.zeros(np.broadcast_shapes(np.shape(both), np.shape(selector)), np.uint32)
    for i in range(4):
        nibble = (np.asarray(selector) >> np.uint32(4 * i)) & np.uint32(0xF)
        byte = ((both >> (np.uint64(8) * (nibble & np.uint32(7)).astype(np.uint64))) & np.uint64(0xFF)).astype(
            np.uint32
        )
        sign = np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0))
        result |= np.where(nibble & np.uint32(8), sign, byte) << np.uint32(8 * i)
    return result


def lop3(a: Array, b: Array, c: Array, truth_table: int) -> Array:
    """Any Boolean function of three inputs, given by its truth table."""
    result = np.zeros(np.broadcast_shapes(np.shape(a), np.shape(b), np.shape(c)), np.uint32)
    for i in range(8):
        if truth_table >> i & 1:
            result |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return result


def equals_zero(a: Array) -> Array:
    """cnot: 1 for zero, 0 for anything else."""
    return np.equal(a, 0).astype(np.asarray(a).dtype)


def sum_of_difference(a: Array, b: Array, c: Array) -> Array:
    """sad: c + |a − b|."""
    return c + np.where(a < b, b - a, a - b)


def bit_reverse(a: Array) -> Array:
    kind = np.asarray(a).dtype
    swapped = np.ascontiguousarray(a).byteswap()
    bits = np.unpackbits(swapped.view(np.uint8), bitorder="little").reshape(-1, 8)[:, ::-1]
    return np.packbits(bits, bitorder="little").view(kind).reshape(np.shape(a))


def population(a: Array) -> Array:
    return np.bitwise_count(a).astype(np.uint32)


def leading_zeros(a: Array) -> Array:
    kind = np.asarray(a).dtype
    bits = kind.itemsize * 8
    spread = np.array(a)
    for shift in (1, 2, 4, 8, 16, 32)[: bits.bit_length() - 1]:
        spread |= spread >> kind.type(shift)
    zeros: Array = np.uint32(bits) - np.bitwise_count(spread)
    return zeros.astype(np.uint32)


def add_saturated(a: Array, b: Array) -> Array:
    """Signed 32-bit sum, clamped."""
    return _clamped(np.asarray(a).astype(np.int64) + b)


def subtract_saturated(a: Array, b: Array) -> Array:
    """Signed 32-bit difference, clamped."""
    return _clamped(np.asarray(a).astype(np.int64) - b)


def mad_high_saturated(a: Array, b: Array, c: Array) -> Array:
    """mad.hi.sat.s32"""
    return _clamped((np.multiply(a, b, dtype=np.int64) >> np.int64(32)) + c)


def _clamped(wide: Array) -> Array:
    limits = np.iinfo(np.int32)
    return np.clip(wide, limits.min, limits.max).astype(np.int32)


def multiply_24(high: bool) -> Callable[[Array, Array], Array]:
    """mul24: the low 24 bits of each operand; the low or the high 32 of the 48 bits."""

    def multiply(a: Array, b: Array) -> Array:
        kind = np.asarray(a).dtype
        wide = np.int64 if kind.kind == "i" else np.uint64
        x, y = (((np.asarray(v) << kind.type(8)) >> kind.type(8)).astype(wide) for v in (a, b))
        product: Array = x * y
        return ((product >> wide(16)) if high else product).astype(kind)

    return multiply


def mad_24(high: bool, saturate: bool = False) -> Callable[[Array, Array, Array], Array]:
    """mad24"""
    multiply = multiply_24(high)
    if saturate:
        return lambda a, b, c: _clamped(multiply(a, b).astype(np.int64) + c)
    return lambda a, b, c: multiply(a, b) + c


def dot_product(parts: int, a_signed: bool, b_signed: bool, upper: bool = False) -> Callable[..., Array]:
    """dp4a (four bytes of each word) and dp2a (two 16-bit parts of a, two bytes of b)."""
    kind = np.int32 if a_signed or b_signed else np.uint32

    def part(word: Array, bits: int, n: int, signed: bool) -> Array:
        value = (np.asarray(word) >> np.uint32(bits * n)) & np.uint32((1 << bits) - 1)
        return value.astype(f"u{bits // 8}").astype(f"{'i' if signed else 'u'}{bits // 8}").astype(np.int64)

    def compute(a: Array, b: Array, c: Array) -> Array:
        total = np.asarray(c).view(kind).astype(np.int64)
        for n in range(parts):
            at = n + 2 if parts == 2 and upper else n
            total = total + part(a, 32 // parts, n, a_signed) * part(b, 8, at, b_signed)
        return (total & np.int64(0xFFFFFFFF)).astype(np.uint32).view(kind)

    return compute


def find_leading(shift: bool) -> Callable[[Array], Array]:
    """bfind: the position of the highest bit that differs from the sign, or the shift that brings it to the top."""

    def find(a: Array) -> Array:
        kind = np.asarray(a).dtype
        bits = kind.itemsize * 8
        raw = np.where(a < 0, ~np.asarray(a), a).astype(f"u{kind.itemsize}") if kind.kind == "i" else np.asarray(a)
        zeros = leading_zeros(raw)
        found = zeros if shift else np.uint32(bits - 1) - zeros
        return np.where(raw == 0, np.uint32(0xFFFFFFFF), found).astype(np.uint32)

    return find


def find_nth_set(mask: Array, base: Array, offset: Array) -> Array:
    """fns: from bit ``base``, the n-th set bit upwards (n > 0) or downwards; 0 tests the base itself."""
    mask, base, offset = (np.atleast_1d(x) for x in np.broadcast_arrays(mask, base, offset))
    found = np.full(mask.shape, 0xFFFFFFFF, np.uint32)
    left = np.abs(offset.astype(np.int64)) + (offset == 0)
    step = np.where(offset < 0, -1, 1)
    position = np.where(base < 32, base.astype(np.int64), 99)
    for _ in range(32):
        inside = (position >= 0) & (position < 32)
        is_set = inside & ((mask >> np.clip(position, 0, 31).astype(np.uint32)) & np.uint32(1) == 1)
        left = left - is_set
        done = is_set & (left == 0)
        found = np.where(done, position.astype(np.uint32), found)
        position = np.where((offset == 0) | ~inside, 99, position + step)
    return found


def bit_mask(wrap: bool) -> Callable[[Array, Array], Array]:
    """bmsk: ``length`` ones from bit ``start``; both are taken modulo 32 or clamped."""

    def mask(start: Array, length: Array) -> Array:
        if wrap:
            start, length = np.asarray(start) & np.uint32(31), np.asarray(length) & np.uint32(31)
        first = np.minimum(start, np.uint32(32)).astype(np.uint64)
        ones = (np.uint64(1) << np.minimum(length, np.uint32(32)).astype(np.uint64)) - np.uint64(1)
        return ((ones << first) & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    return mask


def extend_from(wrap: bool) -> Callable[[Array, Array], Array]:
    """szext: keep the low ``width`` bits and extend them by their sign or with zeros."""

    def extend(a: Array, width: Array) -> Array:
        kind = np.asarray(a).dtype
        width = np.asarray(width) & np.uint32(31) if wrap else np.minimum(width, np.uint32(32))
        spare = (np.uint32(32) - width).astype(np.uint64)
        shifted = (np.asarray(a).view(np.uint32).astype(np.uint64) << spare).astype(np.uint32).view(kind)
        kept = np.right_shift(shifted, np.minimum(spare, 31).astype(kind))
        result: Array = np.where(width == 0, kind.type(0), kept).astype(kind)
        return result

    return extend


_PERMUTATIONS = {
    "f4e": lambda k: [k, k + 1, k + 2, k + 3], "b4e": lambda k: [k, k + 7, k + 6, k + 5],
    "rc8": lambda k: [k, k, k, k], "ecl": lambda k: [max(k, n) for n in range(4)],
    "ecr": lambda k: [min(k, n) for n in range(4)], "rc16": lambda k: [2 * (k & 1), 2 * (k & 1) + 1] * 2,
}  # fmt: skip
PERMUTATIONS = " ".join(_PERMUTATIONS)


def permute_by(mode: str) -> Callable[[Array, Array, Array], Array]:
    """prmt with a named mode: the low two bits of the selector choose one of four patterns."""

    def permute(a: Array, b: Array, selector: Array) -> Array:
        chosen = np.atleast_1d(selector) & np.uint32(3)
        words = [sum((byte & 7) << (4 * n) for n, byte in enumerate(_PERMUTATIONS[mode](k))) for k in range(4)]
        return permute_bytes(a, b, np.array(words, np.uint32)[chosen])

    return permute


def pairwise(function: Callable[[Array, Array], Array], signed: bool, relu: bool = False) -> Callable[..., Array]:
    """An operation on both 16-bit integers of a word."""
    kind = np.int16 if signed else np.uint16

    def compute(a: Array, b: Array) -> Array:
        word = np.zeros(np.broadcast_shapes(np.shape(a), np.shape(b)), np.uint32)
        for shift in (np.uint32(0), np.uint32(16)):
            x, y = ((np.asarray(v) >> shift).astype(np.uint16).view(kind) for v in (a, b))
            result = function(x, y)
            result = np.maximum(result, kind(0)) if relu else result
            word |= np.asarray(result).view(np.uint16).astype(np.uint32) << shift
        return word

    return compute


def byte_differences(signed: bool, add: bool) -> Callable[[Array, Array, Array], Array]:
    """vabsdiff4: |a − b| of each of four bytes; .add gives their sum and c."""
    kind = np.int8 if signed else np.uint8

    def compute(a: Array, b: Array, c: Array) -> Array:
        total = np.array(np.broadcast_to(c, np.broadcast_shapes(np.shape(a), np.shape(b))), np.uint32)
        word = np.zeros(total.shape, np.uint32)
        for shift in (np.uint32(0), np.uint32(8), np.uint32(16), np.uint32(24)):
            x, y = ((np.asarray(v) >> shift).astype(np.uint8).view(kind).astype(np.int32) for v in (a, b))
            difference = np.abs(x - y).astype(np.uint32)
            word |= (difference & np.uint32(0xFF)) << shift
            total += difference
        return total if add else word

    return compute
