"""Arithmetic in the prime field of 2⁶¹ − 1, on arrays of uint64.

Elements are kept below 2⁶¹ + 8 and are equal modulo the prime; ``canonical`` gives the one below the prime. Finite
floating-point numbers are dyadic rationals, so each has an exact image, and images of sums and products are the sums
and products of images.
"""

from __future__ import annotations

import numpy as np

from gemmsmith.sim.ptx.types import Array

BITS = 61
PRIME = (1 << BITS) - 1
_P = np.uint64(PRIME)
_61, _31, _30, _1 = (np.uint64(n) for n in (61, 31, 30, 1))
_LOW31, _LOW30 = np.uint64((1 << 31) - 1), np.uint64((1 << 30) - 1)
_LIMB, _LIMBS = 21, 3  # bits: products of two limbs, 2,048 of them added, are exact in float64
_DEPTH = 2048


def _reduced(x: Array) -> Array:
    """A sum below 2⁶⁴ as an element."""
    low: Array = x & _P
    low += x >> _61
    return low


def add(a: Array, b: Array) -> Array:
    return _reduced(a + b)


def negative(a: Array) -> Array:
    return _reduced(np.uint64(4 * PRIME) - a)


def multiply(a: Array, b: Array) -> Array:
    """By halves of 30 and 31 bits, since NumPy has no 128-bit integers. 2⁶² is 2 here, and 2⁶¹ is 1."""
    a_high, a_low, b_high, b_low = a >> _31, a & _LOW31, b >> _31, b & _LOW31
    middle: Array = a_high * b_low
    middle += a_low * b_high
    total: Array = a_high * b_high
    total <<= _1
    total += middle >> _30
    middle &= _LOW30
    middle <<= _31
    total += middle
    return _reduced(total + _reduced(a_low * b_low))


def canonical(a: Array) -> Array:
    low = np.atleast_1d(_reduced(a))
    return np.where(low >= _P, low - _P, low).reshape(np.shape(a))


def image(values: Array) -> Array:
    """The elements of finite floating-point numbers or integers, each a fraction below 2⁵³ times a power of two."""
    wide = np.asarray(values)
    if wide.dtype.kind in "iu":
        return canonical(np.where(wide < 0, np.uint64(PRIME) - np.abs(wide.astype(np.int64)).astype(np.uint64) % _P,
                                  wide.astype(np.uint64)))  # fmt: skip
    fraction, exponent = np.frexp(wide.astype(np.float64))
    whole = np.abs(fraction * 2.0**53).astype(np.uint64)
    power = np.uint64(1) << ((exponent - 53) % BITS).astype(np.uint64)
    found = multiply(whole, power)
    return canonical(np.where(fraction < 0, negative(found), found))


def random_elements(source: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return source.integers(0, PRIME, shape, np.uint64)


def product(a: Array, b: Array) -> Array:
    """The product of two matrices, by limbs that float64 multiplies exactly: one product for all pairs of limbs."""
    (m, _), (_, n) = a.shape, b.shape
    total = np.zeros((m, n), np.uint64)
    for start in range(0, a.shape[1], _DEPTH):
        left, right = (np.concatenate([_limb(x, i) for i in range(_LIMBS)], axis=axis)
                       for x, axis in ((canonical(a[:, start : start + _DEPTH]), 0),
                                       (canonical(b[start : start + _DEPTH]), 1)))  # fmt: skip
        parts = (left @ right).astype(np.uint64).reshape(_LIMBS, m, _LIMBS, n)
        for i in range(_LIMBS):
            for j in range(_LIMBS):
                power = np.array((1 << (_LIMB * (i + j))) % PRIME, np.uint64)
                total = add(total, multiply(_reduced(parts[i, :, j]), power))
    return canonical(total)


def _limb(a: Array, number: int) -> Array:
    limb: Array = ((a >> np.uint64(_LIMB * number)) & np.uint64((1 << _LIMB) - 1)).astype(np.float64)
    return limb
