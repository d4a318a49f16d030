"""The arithmetic of a tensor core: what one matrix instruction computes, to the bit.

Products are exact. The products of a block of K and the accumulator are aligned to the largest exponent among them and
truncated (towards zero) a few bits below the last place of fp32 there. The rest is added exactly. The sum is truncated
to fp32, or rounded to nearest even where accumulators are fp16. The exponent of a product is the sum of its factors'
exponents, before normalising. A K longer than a block is done block by block. The order of the terms in a block does
not matter. A sum that underflows is +0.

``HOPPER`` was fitted to cases recorded on an H200 (tests/data/tensor_cores.npz and tensor_cores_more.npz, made by
benchmarks/record_tensor_cores.py, and wgmma.npz, made by benchmarks/record_wgmma.py). wgmma of fp8 keeps only 13 bits
of a sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import ml_dtypes
import numpy as np

from gemmsmith.sim.arithmetic.rounding import CANONICAL_NAN_16, CANONICAL_NAN_32, TF32_MASK
from gemmsmith.sim.ptx.types import Array

_CHUNK = 512  # instructions at a time, so that intermediate arrays stay in the cache
_NOTHING = -10_000  # the exponent of zero
_FRACTION = 23
_OVERFLOW = 2.0**128
_LEAST = -133  # terms are never aligned to a smaller exponent


@dataclass(frozen=True)
class Accumulation:
    """How sums are formed.

    ``block``: how many products are added at once. ``extra``: how many bits terms keep below the last place of fp32,
    after alignment to the largest exponent. ``kept``: bits of the fraction of a sum that becomes fp32.
    """

    block: int
    extra: int
    kept: int = _FRACTION


HOPPER: dict[str, Accumulation] = {
    "f16": Accumulation(16, 2),
    "bf16": Accumulation(16, 2),
    "tf32": Accumulation(8, 2),
}
WGMMA_BYTES = Accumulation(32, -10, kept=13)


_SMALLEST = {"f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14}  # exponents
_BYTES = {"e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2)}


def widen(bits: Array, kind: str) -> Array:
    """Elements as fp32, which holds every value of these types."""
    if kind == "f16":
        return bits.view(np.float16).astype(np.float32)
    if kind == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if kind in _BYTES:
        single: Array = bits.view(_BYTES[kind]).astype(np.float32)
        return single
    return (bits & TF32_MASK).view(np.float32)


def _exponents(values: Array, smallest: int) -> Array:
    """Exponents as the hardware sees them: a subnormal number has the smallest; ``_NOTHING`` for zero."""
    bits = values.view(np.uint32)
    exponents = ((bits >> np.uint32(23)) & np.uint32(0xFF)).astype(np.int16) - np.int16(127)
    np.maximum(exponents, np.int16(smallest), out=exponents)
    exponents[(bits << np.uint32(1)) == 0] = _NOTHING
    return exponents


def multiply_add(kind: str, a: Array, b: Array, c: Array, how: Accumulation, b_kind: str = "") -> Array:
    """A·B + C of many instructions: bits of A (K, rows, n) and B (K, columns, n), C (rows, columns, n).

    C is fp32 or fp16, and so is the result. ``b_kind``: the type of B, if it is not that of A.
    """
    kinds = kind, b_kind or kind
    result = np.empty(c.shape, c.dtype)
    with np.errstate(all="ignore"):
        for start in range(0, c.shape[-1], _CHUNK):
            part = slice(start, start + _CHUNK)
            x, y = (widen(v[..., part], k) for v, k in zip((a, b), kinds, strict=True))
            result[..., part] = _chunk(kinds, x, y, c[..., part], how)
    return result


def _chunk(kinds: tuple[str, str], a: Array, b: Array, c: Array, how: Accumulation) -> Array:
    if _is_exact(a, b, c, how):
        exact: Array = np.einsum("kin,kjn->ijn", a, b) + c
        return (exact + np.float32(0)).astype(c.dtype)  # as below, zero is never negative
    ea, eb = (_exponents(v, _SMALLEST[kind]) for v, kind in zip((a, b), kinds, strict=True))
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    total = c.astype(np.float32)
    rounded = partial(_cut, kept=how.kept) if c.dtype == np.float32 else _to_half
    for start in range(0, len(a), how.block):
        stop = min(start + how.block, len(a))
        block = slice(start, stop)
        exact = _block(wide_a[block], wide_b[block], ea[block], eb[block], total, how)
        total = rounded(exact) if stop == len(a) else _cut(exact)
    if not (np.isfinite(a).all() and np.isfinite(b).all() and np.isfinite(c).all()):
        plain = np.einsum("kin,kjn->ijn", wide_a, wide_b) + c
        total = np.where(np.isfinite(plain), total, plain.astype(total.dtype))
    nan = total != total
    if nan.any():
        half = total.dtype == np.float16
        total.view(np.uint16 if half else np.uint32)[nan] = CANONICAL_NAN_16 if half else CANONICAL_NAN_32
    return total


def _is_exact(a: Array, b: Array, c: Array, how: Accumulation) -> bool:
    """Whether nothing is cut, in any order of adding: integers, whose sums are small enough to be kept whole."""
    if not all((v == np.trunc(v)).all() for v in (a, b, c)):
        return False
    most = float(np.abs(c).max()) + len(a) * float(np.abs(a).max()) * float(np.abs(b).max())
    return most < 2.0 ** min(_FRACTION + 1, _FRACTION + how.extra + 1, how.kept + 1)


def _block(a: Array, b: Array, ea: Array, eb: Array, c: Array, how: Accumulation) -> Array:
    """One block of products added to ``c``, all aligned to the largest exponent; the sum before it is rounded."""
    largest = _exponents(c, -126)
    exponent = np.empty_like(largest)
    for one, other in zip(ea, eb, strict=True):
        np.add(one[:, None], other[None], out=exponent)
        np.maximum(largest, exponent, out=largest)
    scale = np.ldexp(1.0, _FRACTION + how.extra - np.maximum(largest, _LEAST).astype(np.int32))
    total: Array = np.trunc(c * scale)
    term = np.empty_like(total)
    for one, other in zip(a, b, strict=True):
        np.multiply(one[:, None], other[None], out=term)
        np.multiply(term, scale, out=term)
        np.trunc(term, out=term)
        np.add(total, term, out=total)
    total /= scale
    return total


def _cut(x: Array, kept: int = _FRACTION) -> Array:
    """float64 to fp32, rounded towards zero; overflow gives infinity; zero is never negative."""
    if kept < _FRACTION:
        fraction, exponent = np.frexp(x)
        x = np.ldexp(np.trunc(np.ldexp(fraction, kept + 1)), exponent - kept - 1)
    single: Array = (x + 0.0).astype(np.float32)
    beyond = (np.abs(single) > np.abs(x)) & (np.abs(x) < _OVERFLOW)
    cut = np.where(beyond, np.nextafter(single, np.float32(0)), single)
    return cut + np.float32(0)  # an underflow to −0 becomes +0


def _to_half(x: Array) -> Array:
    """float64 to fp16, rounded to nearest even; zero is never negative."""
    half: Array = x.astype(np.float16) + np.float16(0)
    return half


def integer_multiply_add(a: Array, b: Array, c: Array, saturate: bool) -> Array:
    """A·B + C of signed or unsigned bytes (by dtype), in 32 bits that wrap or saturate."""
    total = c.astype(np.int64)
    for one, other in zip(a.astype(np.int32), b.astype(np.int32), strict=True):
        total += one[:, None] * other[None]
    if saturate:
        limits = np.iinfo(np.int32)
        total = np.clip(total, limits.min, limits.max)
    return total.astype(np.int32)
