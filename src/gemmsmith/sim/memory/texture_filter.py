"""From coordinates to texels and weights, and from texels to values, as an H200's texture unit computes them.

Recorded (``tests/data/textures.npz``): a coordinate has 8 bits after the binary point, rounded half up. Weights are
256ths, and so is the weight of each of the four or eight texels: those along z divide into those along x, and these
into those along y, each time rounded. Texels of weight 0 do not count. The others of a slice are aligned to the largest
of them, truncated four bits below its last place, weighted and added exactly; the sum of both slices is rounded half
away from zero, to fp16 for texels of fp16. Subnormal fp32 is 0.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from gemmsmith.run.texture import Sampling, Texels
from gemmsmith.sim.ptx.types import Array

_FRACTION = 8  # bits of a weight
_ONE = 1 << _FRACTION
_NORMALIZED = 2.0**21  # steps of a normalized coordinate
_GUARD = 4  # bits kept below the last place of the largest texel
_NAN = np.uint32(0x7FFFFFFF)


@dataclass(frozen=True)
class Axis:
    """Along one axis: the texels that each lane reads, whether they are inside, and the weight of the second."""

    index: tuple[Array, ...]
    inside: tuple[Array, ...]
    part: Array


def axis(coordinate: Array, extent: int, mode: str, sampling: Sampling, *, linear: bool, gather: bool = False) -> Axis:
    """The texels of a float coordinate: one, or two for linear filtering and gathering."""
    at = coordinate.astype(np.float64)
    if sampling.normalized_coordinates:
        at = np.floor(at * _NORMALIZED)
        if mode in ("wrap", "mirror"):
            at = np.mod(at, 2 * _NORMALIZED)  # exact; NaN for infinities, which then read the first texel
        at = at / _NORMALIZED * extent
    if not (linear or gather):
        whole = _whole(np.floor(at))
        return _placed((whole,), np.zeros_like(whole), extent, mode)
    fixed = _whole(np.floor(at * _ONE + 0.5)) - _ONE // 2
    if mode == "clamp" and not gather:
        fixed = np.clip(fixed, 0, (extent - 1) * _ONE)
    first = fixed >> _FRACTION
    return _placed((first, first + 1), fixed & (_ONE - 1), extent, mode)


def integer_axis(coordinate: Array, extent: int) -> Axis:
    """The texel of an integer coordinate; whatever the address mode, texels beyond the edge are 0."""
    at = coordinate.astype(np.int64)
    return _placed((at,), np.zeros_like(at), extent, "border")


def _whole(values: Array) -> Array:
    found: Array = np.clip(np.nan_to_num(values, nan=0.0), -(2.0**40), 2.0**40).astype(np.int64)
    return found


def _placed(index: tuple[Array, ...], part: Array, extent: int, mode: str) -> Axis:
    found, inside = [], []
    for each in index:
        within = (each >= 0) & (each < extent)
        if mode == "wrap":
            each = each % extent
        elif mode == "mirror":
            each = each % (2 * extent)
            each = np.minimum(each, 2 * extent - 1 - each)
        found.append(np.clip(each, 0, extent - 1))
        inside.append(within if mode == "border" else np.ones(each.shape, bool))
    return Axis(tuple(found), tuple(inside), part)


@dataclass(frozen=True)
class Corner:
    """One texel of a lane's neighbourhood: ``at`` is 0 or 1 along each axis; its weight in 256ths.

    ``meant``: the weight is not 0, though it may be once it is rounded.
    """

    at: tuple[int, ...]
    weight: Array
    meant: Array

    @property
    def back(self) -> bool:
        """Whether it is in the second slice of a 3-D texture."""
        return len(self.at) == 3 and self.at[2] == 1


def corners_of(axes: list[Axis]) -> list[Corner]:
    """The corners of each lane's neighbourhood, with their weights."""
    parts = [each.part for each in axes]
    x = parts[0]
    y, z = (parts[n] if len(parts) > n else np.zeros_like(x) for n in (1, 2))
    found: dict[tuple[int, int, int], Array] = {}
    for back, slice_weight in enumerate((_ONE - z, z)):
        right = _rounded(x * slice_weight, up=True)
        for side, column in enumerate((slice_weight - right, right)):
            below = _rounded(y * column, up=side == 1)
            found[side, 0, back], found[side, 1, back] = column - below, below
    made = []
    for at in itertools.product((0, 1), repeat=len(axes)):
        meant = np.all([part > 0 for part, second in zip(parts, at, strict=True) if second] or [x >= 0], axis=0)
        side, row, back = (*at, 0, 0)[:3]
        made.append(Corner(at, found[side, row, back], meant))
    return made


def _rounded(product: Array, *, up: bool) -> Array:
    """A product of two weights as a weight; ``up`` is where half goes."""
    found: Array = (product + _ONE // 2 - (not up)) >> _FRACTION
    return found


def combined(texels: list[Array], corners: list[Corner]) -> Array:
    """The weighted sum of texels, each lanes x channels: floats, or integers that are read as fractions."""
    if texels[0].dtype.kind in "iu":
        return _fractions(texels, [corner.weight for corner in corners])
    digits, lowest = (11, -14) if texels[0].dtype == np.float16 else (24, -126)
    values = np.stack(texels).astype(np.float64)
    if digits == 24:
        values = np.where(np.abs(values) < 2.0**lowest, np.copysign(0.0, values), values)
    weight = np.stack([corner.weight for corner in corners])[:, :, None]
    finite = np.where((weight > 0) & np.isfinite(values), values, 0.0)
    slices = [np.array([corner.back == back for corner in corners]) for back in (False, True)]
    sums = [_aligned(finite[these], weight[these], digits, lowest) for these in slices if these.any()]
    total, exponent = sums[0] if len(sums) == 1 else _added(*sums)
    result = _away_from_zero(total, exponent, digits, lowest).astype(np.float32)
    if digits == 24:
        result = np.where(np.abs(result) < 2.0**lowest, np.copysign(np.float32(0), result), result)
    result[(total == 0) & (np.signbit(values) | (weight == 0)).all(axis=0)] = -0.0
    meant = np.stack([corner.meant for corner in corners])[:, :, None]
    plus, minus = ((meant & (values == limit)).any(axis=0) for limit in (np.inf, -np.inf))
    result[plus], result[minus] = np.inf, -np.inf
    result[(meant & np.isnan(values)).any(axis=0) | (plus & minus)] = _NAN.view(np.float32)
    return result


def _aligned(values: Array, weight: Array, digits: int, lowest: int) -> tuple[Array, Array]:
    """A weighted sum as an integer and its exponent: values are aligned to the largest, and truncated below it."""
    exponent = np.where(values == 0, lowest, np.frexp(values)[1] - 1).max(axis=0).clip(lowest)
    low = exponent - digits + 1 - _GUARD
    total: Array = (np.trunc(np.ldexp(values, -low)).astype(np.int64) * weight).sum(axis=0)
    return total, low - _FRACTION


def _added(one: tuple[Array, Array], two: tuple[Array, Array]) -> tuple[Array, Array]:
    """The sum of two integers with exponents. What is 24 places below the larger exponent is cut off."""
    exponent = np.maximum(one[1], two[1]) - 24
    shifted = []
    for total, own in (one, two):
        left, right = np.maximum(own - exponent, 0), np.maximum(exponent - own, 0).clip(0, 63)
        shifted.append((total << left) >> right)
    return shifted[0] + shifted[1], exponent


def _away_from_zero(total: Array, exponent: Array, digits: int, lowest: int) -> Array:
    """total·2^exponent rounded to so many binary digits, half away from zero."""
    size = np.abs(total)
    excess = np.maximum(np.frexp(size.astype(np.float64))[1] - digits, lowest - digits + 1 - exponent).clip(0)
    rounded = ((size + (np.int64(1) << excess >> 1)) >> excess) << excess
    found: Array = np.ldexp(np.copysign(rounded.astype(np.float64), total), exponent)
    return found


def _fractions(texels: list[Array], weights: list[Array]) -> Array:
    """Integers widened to 16 bits, weighted, and rounded half up to 16 bits.

    Signed bytes: of 2,048 recorded reads 82 differ by one 32,767th.
    """
    dtype = texels[0].dtype
    largest = 65535 if dtype.kind == "u" else 32767
    scale = largest / np.iinfo(dtype).max
    total = sum(np.floor(each * scale * 16) * weight[:, None] for each, weight in zip(texels, weights, strict=True))
    rounded = np.floor(np.asarray(total) / (16 * _ONE) + 0.5)
    found: Array = (np.maximum(rounded, -largest) / largest).astype(np.float32)
    return found


def as_float(raw: Array, sampling: Sampling) -> Array:
    """Texels as fp32: fractions of integers, or floats."""
    if raw.dtype.kind == "f" or not sampling.normalized_values:
        return raw.astype(np.float32)
    largest = np.iinfo(raw.dtype).max
    found: Array = np.maximum(raw.astype(np.float64) / largest, -1.0).astype(np.float32)
    return found


def four_channels(values: Array, texels: Texels) -> Array:
    """Results of four channels; those that the texture does not have are 0."""
    missing = np.zeros((values.shape[0], 4 - texels.channels), values.dtype)
    return np.concatenate([values, missing], axis=1)
