"""Medians and how well they are known.

Times of a GPU are skewed and swing with its clock, so nothing here assumes a distribution: the middle is the median,
its interval comes from order statistics, the spread is the interquartile range. A comparison is the median of ratios
taken round by round, because both sides of a round ran at nearly the same clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

# An interval with the asked-for width from fewer samples than this is luck.
LEAST_SAMPLES = 10
# One in 40 on each side of the interval: 95 % between.
_TAIL = 40


@dataclass(frozen=True)
class Estimate:
    """A median with its 95 % confidence interval; ``spread`` is the interquartile range over the median."""

    median: float
    low: float
    high: float
    spread: float
    samples: int

    @property
    def half_width(self) -> float:
        """Half of the interval, relative to the median."""
        return (self.high - self.low) / 2 / self.median if self.median > 0 else 0.0


def estimate(samples: Sequence[float]) -> Estimate:
    """The median of ``samples`` and what is known about it; at least one sample."""
    ordered = sorted(samples)
    low, high = interval_ranks(len(ordered))
    middle = quantile(ordered, 0.5)
    quartiles = quantile(ordered, 0.75) - quantile(ordered, 0.25)
    return Estimate(middle, ordered[low], ordered[high], quartiles / middle if middle > 0 else 0.0, len(ordered))


def quantile(ordered: Sequence[float], part: float) -> float:
    """The quantile of an ascending sequence, interpolated between neighbours."""
    place = part * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@cache
def interval_ranks(count: int) -> tuple[int, int]:
    """Which order statistics (from 0) enclose the median with 95 % confidence.

    The number of samples below the median is binomial with p = 1/2, whatever the distribution. The interval leaves
    out the largest number of samples on each side whose tail stays within 2.5 %. Five samples or fewer do not reach
    95 % at all: all of them, then.
    """
    tail, term, rank = 0, 1, 0
    while True:
        tail += term
        if _TAIL * tail > 1 << count:
            break
        term = term * (count - rank) // (rank + 1)
        rank += 1
    low = max(0, rank - 1)
    return low, count - 1 - low


def known(samples: Sequence[float], precision: float) -> bool:
    """Whether the median is known to ``precision``: half the interval is at most that part of it."""
    return len(samples) >= LEAST_SAMPLES and estimate(samples).half_width <= precision


def speed_ratio(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Estimate | None:
    """How much faster ours is than theirs, from the rounds that both took part in; seconds by round."""
    ratios = [theirs[r] / seconds for r, seconds in ours.items() if r in theirs and seconds > 0]
    return estimate(ratios) if ratios else None
