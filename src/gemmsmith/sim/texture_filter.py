"""From coordinates to texels and weights, and from texels to values, as an H200's texture unit computes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmsmith.run.texture import Sampling, Texels
from gemmsmith.sim.types import Array

_FRACTION = 8  # bits of a weight
_ONE = 1 << _FRACTION


@dataclass(frozen=True)
class Axis:
    """Along one axis: the texels that each lane reads, whether they are inside, and their weights in 256ths."""

    index: tuple[Array, ...]
    inside: tuple[Array, ...]
    weight: tuple[Array, ...]


def axis(coordinate: Array, extent: int, mode: str, sampling: Sampling, *, linear: bool) -> Axis:
    """The texels of a float coordinate."""
    at = coordinate.astype(np.float64)
    if sampling.normalized_coordinates:
        at = at * extent
    if not linear:
        return _placed((_whole(np.floor(at)),), (np.full(at.shape, _ONE),), extent, mode)
    fixed = _whole(np.rint(at * _ONE)) - _ONE // 2
    first, part = fixed >> _FRACTION, fixed & (_ONE - 1)
    return _placed((first, first + 1), (_ONE - part, part), extent, mode)


def integer_axis(coordinate: Array, extent: int, mode: str) -> Axis:
    """The texel of an integer coordinate."""
    at = coordinate.astype(np.int64)
    return _placed((at,), (np.full(at.shape, _ONE),), extent, mode)


def _whole(values: Array) -> Array:
    found: Array = np.clip(np.nan_to_num(values, nan=0.0), -(2.0**40), 2.0**40).astype(np.int64)
    return found


def _placed(index: tuple[Array, ...], weight: tuple[Array, ...], extent: int, mode: str) -> Axis:
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
    return Axis(tuple(found), tuple(inside), weight)


def combined(texels: list[Array], weights: list[Array], bits: int) -> Array:
    """The weighted sum of float texels (lanes x channels), weights in units of 2^-bits."""
    total = sum(t.astype(np.float64) * (w[:, None] / 2.0**bits) for t, w in zip(texels, weights, strict=True))
    found: Array = np.asarray(total).astype(np.float32)
    return found


def as_float(raw: Array, sampling: Sampling) -> Array:
    """Texels as fp32: fractions of integers, or floats."""
    if raw.dtype.kind == "f":
        return raw.astype(np.float32)
    if not sampling.normalized_values:
        return raw.astype(np.float32)
    largest = np.iinfo(raw.dtype).max
    found: Array = np.maximum(raw.astype(np.float64) / largest, -1.0).astype(np.float32)
    return found


def four_channels(values: Array, texels: Texels) -> Array:
    """Results of four channels; those that the texture does not have."""
    missing = np.zeros((values.shape[0], 4 - texels.channels), values.dtype)
    if missing.shape[1]:
        missing[:, -1] = 1
    return np.concatenate([values, missing], axis=1)
