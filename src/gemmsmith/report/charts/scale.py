"""Linear and logarithmic scales, their ticks, and label spreading."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Maps [low, high] to [start, end]; ``log`` requires positive values."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"a scale from {self.low} to {self.high} is empty")
        if self.log and self.low <= 0:
            raise ValueError(f"a logarithmic scale cannot start at {self.low}")

    def __call__(self, value: float) -> float:
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        at = math.log(value) if self.log else value
        return self.start + (at - low) / (high - low) * (self.end - self.start)


def nice_ticks(low: float, high: float, about: int = 5) -> tuple[float, ...]:
    """About ``about`` multiples of 1, 2 or 5 times a power of ten, from ``low`` to ``high``."""
    step = _step(high - low, about)
    first = math.ceil(low / step - 1e-9)
    return tuple(i * step for i in range(first, math.floor(high / step + 1e-9) + 1))


def nice_top(high: float, about: int = 5) -> float:
    """The smallest tick at or above ``high``: the end of an axis that starts at 0."""
    if high <= 0:
        return 1.0
    top = math.ceil(high / _step(high, about) - 1e-9) * _step(high, about)
    # Rounding up may require a larger step, and the top must be a multiple of that one.
    return top if _step(top, about) == _step(high, about) else nice_top(top, about)


def _step(length: float, about: int) -> float:
    raw = length / max(1, about)
    power = 10.0 ** math.floor(math.log10(raw))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= raw * 0.999)


def log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Powers of ten, with 2 and 5 in between if there are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    within = (1, 2, 5) if last - first <= 3 else (1,)
    every = (m * 10.0**p for p in range(first, last + 1) for m in within)
    return tuple(t for t in every if low * 0.999 <= t <= high * 1.001)


def log_bounds(values: Sequence[float], room: float = 1.35) -> tuple[float, float]:
    """The ends of a logarithmic axis, with some room around ``values``."""
    return min(values) / room, max(values) * room


def spread(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions at least ``gap`` apart within [low, high], moved as little as possible, in the same order.

    If they cannot fit, they are spaced evenly.
    """
    if not places:
        return []
    if gap * (len(places) - 1) >= high - low:
        step = (high - low) / max(1, len(places) - 1)
        order = sorted(range(len(places)), key=lambda i: places[i])
        even = [0.0] * len(places)
        for at, i in enumerate(order):
            even[i] = low + at * step
        return even
    order = sorted(range(len(places)), key=lambda i: places[i])
    # Colliding neighbours form a cluster around the mean of their wanted positions; clusters merge until none collide.
    clusters: list[tuple[list[int], float]] = []
    for i in order:
        clusters.append(([i], min(max(places[i], low), high)))
        while len(clusters) > 1:
            (left, a), (right, b) = clusters[-2], clusters[-1]
            if b - a >= gap * (len(left) + len(right)) / 2 - 1e-9:
                break
            both = left + right
            want = sum(places[j] for j in both) / len(both)
            half = gap * (len(both) - 1) / 2
            clusters[-2:] = [(both, min(max(want, low + half), high - half))]
    result = [0.0] * len(places)
    for members, centre in clusters:
        for at, i in enumerate(members):
            result[i] = centre + (at - (len(members) - 1) / 2) * gap
    return result
