"""Results that a kernel clamps to the finite numbers of their type: fminf(fmaxf(sum, -3.4e38f), 3.4e38f)."""

from __future__ import annotations

import numpy as np

from gemmsmith.verify.oracles.compare import Comparison

_NEAR = 0.99  # of the largest number: people write 3.4e38f for it


def clamp_of(comparison: Comparison) -> float:
    """The number that every wrong output has for an infinity, a NaN or a larger one; 0 if one is wrong otherwise."""
    got, expected = (values[comparison.wrong] for values in (comparison.got, comparison.expected))
    if got.dtype.kind != "f" or not got.size:
        return 0.0
    limits = np.unique(np.abs(got))
    largest = float(np.finfo(got.dtype).max)
    if limits.size != 1 or not _NEAR * largest <= float(limits[0]) <= largest:
        return 0.0
    infinite = np.isinf(comparison.expected)
    if bool((comparison.got[infinite] == comparison.expected[infinite]).any()):  # one sign, or some outputs: no clamp
        return 0.0
    beyond = np.isnan(expected) | ((np.abs(expected) >= limits[0]) & (np.signbit(expected) == np.signbit(got)))
    return float(limits[0]) if bool(beyond.all()) else 0.0
