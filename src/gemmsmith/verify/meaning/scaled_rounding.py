"""How a product becomes integers of few bits again: a number of fraction bits is dropped, and the rest is rounded.

A float multiplier has no fraction bits. An integer multiplier is a fixed-point number: ``(sum * mult) >> shift``, or
with 31 bits of fraction before a further shift.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def _half_away(x: Array) -> Array:
    rounded: Array = np.sign(x) * np.floor(np.abs(x) + 0.5)
    return rounded


NEAREST_EVEN, AWAY, UP, DOWN, CUT = (
    "to the nearest even", "half away from zero", "half up", "down", "towards zero",
)  # fmt: skip
_WAYS: dict[str, Callable[[Array], Array]] = {
    NEAREST_EVEN: np.rint,
    AWAY: _half_away,
    CUT: np.trunc,
    UP: lambda x: np.floor(x + 0.5),
    DOWN: np.floor,
}
NEAREST = (NEAREST_EVEN, AWAY, UP)
_FRACTIONS = (0, 31, 15, 16, 30, 32)  # bits that an integer multiplier has behind its point, beside those of a shift
_WORD = 32


@dataclass(frozen=True)
class Rounding:
    """One way. ``fraction``: bits that are dropped beside those of the kernel's shift; ``first``: the way in which they
    are dropped before those of the shift, where that is done twice. ``loose``: results may be one step off, as those of
    a kernel that rounds in yet another way. ``mistake``: what is known of a kernel that rounds so by mistake; it is
    then meant to round as this one says."""

    name: str
    fixed: bool = False
    fraction: int = 0
    first: str = ""
    loose: bool = False
    mistake: str = ""

    def rounded(self, total: Array, shift: Array) -> Array:
        if self.mistake == ONE_HALF:
            return np.trunc(total + 0.5)
        if self.mistake == OVERFLOWS:
            half = 2 ** (_WORD - 1)
            total = np.mod(total + half, 2 * half) - half
        way = _WAYS[self.name]
        if self.first:
            return way(_WAYS[self.first](total / 2.0**self.fraction) / 2.0**shift)
        return way(total / 2.0 ** (self.fraction + shift) if self.fixed else total)

    def scaled(self, total: str) -> str:
        """A formula for what is rounded."""
        if not self.fixed:
            return total
        bits = " + ".join(filter(None, (str(self.fraction) if self.fraction else "", "shift")))
        return f"{total} / 2^({bits})"


ONE_HALF = "one half is added to results below 0, and the rest is cut off"
OVERFLOWS = "the sum is multiplied in 32 bits"


def roundings(fixed: bool) -> tuple[Rounding, ...]:
    """Those that occur, the likeliest first. ``fixed``: the multiplier is an integer."""
    if not fixed:
        return tuple(Rounding(name) for name in _WAYS)
    once = [Rounding(name, True, bits) for bits in _FRACTIONS for name in (UP, AWAY, NEAREST_EVEN, DOWN, CUT)]
    pairs = ((UP, UP), (AWAY, UP), (AWAY, AWAY))
    return (*once, *(Rounding(last, True, bits, before) for bits in _FRACTIONS if bits for last, before in pairs))


def mistaken_roundings(fixed: bool) -> tuple[Rounding, ...]:
    """Those of kernels that are known to be wrong."""
    if not fixed:
        return (Rounding(AWAY, mistake=ONE_HALF),)
    return tuple(replace(each, mistake=OVERFLOWS) for each in roundings(fixed))
