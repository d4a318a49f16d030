"""Which candidates are timed next, and when no other can gain 1 %: from predictions and the times known so far.

The model errs by a factor. Where candidates of the same tile size were timed, their common factor is known, and what is
left is how far single ones lie from it. So a candidate that was not timed takes, at the least,

    prediction × the factor of its tile size × exp(−3 standard deviations)

Candidates with the lowest such bound are timed next. When every bound exceeds 0.99 of the best time, the search ends.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from gemmsmith.choose.candidates import Candidate, tile_size

GAIN = 0.01  # what another candidate must be able to gain
FIRST = 16  # candidates that are timed in the given order: their errors are the model's at this shape
_DEVIATIONS = 3.0  # of some hundred candidates the best may lie as far below its expected time
# The least standard deviation assumed: a few equal errors do not show that the model never errs.
_LEAST_OF_SIZE, _LEAST_OF_ALL = 0.02, 0.05
Name = tuple[str, str]


@dataclass(frozen=True)
class Outlook:
    """What a search knows. ``gain``: the most that a candidate left out can gain over the best, as a share of its time.

    tried   candidates with a result, also those that failed
    left    candidates without one
    error   the model's error at this shape: one standard deviation, as a factor minus 1
    """

    tried: int
    left: int
    gain: float
    error: float

    @property
    def is_exhausted(self) -> bool:
        """Whether no candidate that is left can gain 1 %."""
        return self.gain < GAIN


@dataclass(frozen=True)
class Errors:
    """Logarithms of time over prediction: their mean and deviation, of all candidates and of each tile size."""

    mean: float
    of_all: float
    of_size: float
    sizes: Mapping[Hashable, tuple[int, float]]

    def least(self, predicted: float, size: Hashable) -> float:
        """The least time that a candidate of this tile size is expected to take."""
        count, mean = self.sizes.get(size, (0, 0.0))
        if not count:
            return predicted * math.exp(self.mean - _DEVIATIONS * self.of_all)
        prior = (self.of_size / self.of_all) ** 2  # weight of the mean of all, as a number of candidates
        centre = (count * mean + prior * self.mean) / (count + prior)
        return predicted * math.exp(centre - _DEVIATIONS * self.of_size * math.sqrt(1 + 1 / count))


def errors(timed: Sequence[tuple[Candidate, float]], size: Callable[[Candidate], Hashable] = tile_size) -> Errors:
    """From candidates with their times, in any unit."""
    found = [(size(c), math.log(time / c.seconds)) for c, time in timed if time > 0 and c.seconds > 0]
    if not found:
        return Errors(0.0, math.inf, _LEAST_OF_SIZE, {})
    mean = sum(error for _, error in found) / len(found)
    by_size: dict[Hashable, list[float]] = defaultdict(list)
    for of, error in found:
        by_size[of].append(error)
    of_all = _deviation([error - mean for _, error in found], len(found) - 1)
    means = {of: sum(each) / len(each) for of, each in by_size.items()}
    within = [error - means[of] for of, each in by_size.items() if len(each) > 1 for error in each]
    several = sum(1 for each in by_size.values() if len(each) > 1)
    of_size = _deviation(within, len(within) - several) if within else of_all
    of_all = max(of_all, _LEAST_OF_ALL)
    return Errors(mean, of_all, min(of_all, max(of_size, _LEAST_OF_SIZE)),
                  {of: (len(each), means[of]) for of, each in by_size.items()})  # fmt: skip


def _deviation(values: Sequence[float], freedom: int) -> float:
    return math.sqrt(sum(value * value for value in values) / max(1, freedom))


def next_candidates(candidates: Sequence[Candidate], times: Mapping[Name, float], tried: int, most: int,
                    count: int) -> tuple[list[Candidate], Outlook]:  # fmt: skip
    """Up to ``count`` candidates to time next, most promising first, and what is known; none when the search ends.

    candidates  all, in the order in which the first ones are timed
    times       of those with a result, in any unit; infinite for candidates that failed
    tried       candidates with a result, also those that are not in ``candidates``
    most        the search ends after so many
    """
    waiting = [each for each in candidates if each.name not in times]
    timed = [(each, times[each.name]) for each in candidates if math.isfinite(times.get(each.name, math.inf))]
    best = min((time for _, time in timed), default=math.inf)
    found = errors(timed)
    room = max(0, most - tried)
    if len(timed) < FIRST or not math.isfinite(best):
        unknown = 1.0 if waiting else 0.0
        return waiting[: min(count, room)], Outlook(tried, len(waiting), unknown, math.expm1(found.of_all))
    least = {each.name: found.least(each.seconds, tile_size(each)) for each in waiting}
    promising = sorted((c for c in waiting if least[c.name] < best * (1 - GAIN)), key=lambda c: least[c.name])
    gain = max(0.0, 1 - min(least.values(), default=best) / best)
    return promising[: min(count, room)], Outlook(tried, len(waiting), gain, math.expm1(found.of_all))
