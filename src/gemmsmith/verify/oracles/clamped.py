"""Results in fp16 that a kernel clamps to the finite numbers: fminf(fmaxf(sum, -65504.f), 65504.f).

Sums of usual data exceed 65504, so this is common practice and is noted, not failed. No usual sum exceeds the largest
number of fp32, bf16 or fp64: there a clamp only hides infinities and NaN, and the kernel is wrong.
"""

from __future__ import annotations

import numpy as np

from gemmsmith.verify.oracles.compare import Comparison

_NEAR = 0.99  # of the largest number: people write 65000 for it


def clamp_of(comparison: Comparison) -> float:
    """The number that every wrong output has for an infinity, a NaN or a larger one; 0 if one is wrong otherwise."""
    got, expected = (values[comparison.wrong] for values in (comparison.got, comparison.expected))
    if got.dtype != np.float16 or not got.size:
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
