"""Medians and their confidence intervals.

GPU times are skewed and drift with the clock, so no distribution is assumed: the location is the median, its interval
comes from order statistics, and the spread is the interquartile range. A comparison is the median of per-round ratios,
because both sides of a round ran at nearly the same clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

# With fewer samples a narrow interval would be chance.
LEAST_SAMPLES = 10
# At most 1 in 40 on each side: 95 % inside.
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
        """Half the interval, relative to the median."""
        return (self.high - self.low) / 2 / self.median if self.median > 0 else 0.0


def estimate(samples: Sequence[float]) -> Estimate:
    """The median of at least one sample, with its interval."""
    ordered = sorted(samples)
    low, high = interval_ranks(len(ordered))
    middle = quantile(ordered, 0.5)
    quartiles = quantile(ordered, 0.75) - quantile(ordered, 0.25)
    return Estimate(middle, ordered[low], ordered[high], quartiles / middle if middle > 0 else 0.0, len(ordered))


def quantile(ordered: Sequence[float], part: float) -> float:
    """The quantile of an ascending sequence, with linear interpolation."""
    place = part * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@cache
def interval_ranks(count: int) -> tuple[int, int]:
    """The ranks (from 0) of the order statistics that enclose the median with 95 % confidence.

    For any distribution the number of samples below the median is binomial with p = 1/2. The interval excludes as many
    samples on each side as keep the tail within 2.5 %. Five samples or fewer cannot reach 95 %; then all are included.
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
    """Whether the median is known to ``precision``: half the interval is at most that fraction of it."""
    return len(samples) >= LEAST_SAMPLES and estimate(samples).half_width <= precision


def speed_ratio(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Estimate | None:
    """The speed of ours over theirs, from the rounds in which both ran; seconds by round."""
    ratios = [theirs[r] / seconds for r, seconds in ours.items() if r in theirs and seconds > 0]
    return estimate(ratios) if ratios else None
