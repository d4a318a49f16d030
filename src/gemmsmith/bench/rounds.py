"""Samples of several contenders in turn, round after round, until each median is known or the budget ends.

Clocks swing over seconds, so contenders are compared within a round, not one after the other; every other round runs
backwards, so that none always follows the same neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gemmsmith.bench.statistics import LEAST_SAMPLES, estimate, known
from gemmsmith.bench.stopwatch import Replay, Stopwatch
from gemmsmith.run.contender import Enqueue
from gemmsmith.store.results import Timing

# A sample lasts at least this where nothing else is asked for: events resolve half a microsecond. Where the power cap
# sets the clock, contenders that take turns every few milliseconds share one clock between them; with samples of a
# tenth of a second and more each settles on its own.
SAMPLE_SECONDS = 4e-3
# A cycle through all sets that takes longer is cut into single launches, if a launch alone makes a sample.
_LONGEST_CYCLE = 0.05
# A sample shorter than this is preceded by another, untimed, so that no launch latency is counted.
_NEEDS_LEAD = 0.02
# How long contenders take turns untimed, for the clocks to settle.
_WARM_UP = 0.3
_ENOUGH_SAMPLES = 3
# From so many samples on, whether the median is known is asked every eighth round only.
_MANY = 64

Samples = dict[int, float]
"""Seconds of a launch, by round."""


@dataclass
class Cursor:
    """The set used last, by anyone: the next single launch takes the one after it."""

    last: int = 0


@dataclass
class Course:
    """How one contender is sampled in one mode: which launches make a sample, and how they are enqueued.

    order   the sets of one sample; empty: one launch a sample, of the set after the one used last
    alone   a sample follows another of its own, untimed, however long it is: under a power cap it would begin at the
            clock that a neighbour left
    """

    stopwatch: Stopwatch
    enqueue: Enqueue
    mode: str
    cache: str
    sets: int
    launch_seconds: float
    cursor: Cursor
    sample_seconds: float = SAMPLE_SECONDS
    order: tuple[int, ...] = ()
    alone: bool = False
    _replays: dict[int, Replay] = field(default_factory=dict)

    def __post_init__(self) -> None:
        cycle = self.launch_seconds * self.sets
        shortest = max(self.launch_seconds, 1e-7)
        if self.cache == "hot":
            self.order = (0,) * max(1, math.ceil(self.sample_seconds / shortest))
        elif cycle <= _LONGEST_CYCLE or self.launch_seconds < self.sample_seconds:
            self.order = tuple(range(self.sets)) * max(1, math.ceil(self.sample_seconds / (shortest * self.sets)))
        if self.mode == "graph":
            self._replay(0)  # refused here, if at all

    @property
    def launches(self) -> int:
        return max(1, len(self.order))

    @property
    def seconds(self) -> float:
        """About how long a sample takes, its lead included."""
        length = self.launches * self.launch_seconds
        return 2 * length if self._has_lead else length

    @property
    def _has_lead(self) -> bool:
        return self.alone or self.launches * self.launch_seconds < _NEEDS_LEAD

    def sample(self) -> float:
        """Seconds of one launch."""
        lead = self._next() if self._has_lead else None
        return self.stopwatch.seconds(self._next(), lead) / self.launches

    def _next(self) -> Callable[[], None]:
        """The next work of this course: all of its order, or the set after the one used last."""
        index = 0 if self.order else (self.cursor.last + 1) % self.sets
        self.cursor.last = self.order[-1] if self.order else index
        return self._work(index)

    def run_set(self, index: int) -> None:
        """Enqueue what is timed, at least the launch of set ``index``."""
        self._work(0 if self.order else index)()

    def close(self) -> None:
        for replay in self._replays.values():
            replay.close()
        self._replays.clear()

    def _work(self, index: int) -> Callable[[], None]:
        return self._replay(index) if self.mode == "graph" else lambda: self._launch(index)

    def _replay(self, index: int) -> Replay:
        if index not in self._replays:
            self._replays[index] = self.stopwatch.capture(lambda: self._launch(index))
        return self._replays[index]

    def _launch(self, index: int) -> None:
        enqueue = self.enqueue
        for launch in self.order or (index,):
            enqueue(launch)


def take_turns(
    stopwatch: Stopwatch, courses: Sequence[Course], always: Sequence[bool], precision: float, budget: float
) -> list[Samples]:
    """Samples of each course. ``always`` marks those (the baselines) that run as long as anyone does.

    A course ends when its median is known to ``precision``. When ``budget`` seconds are over, all end that have three
    samples, or one where a single launch exceeds the budget. A course that could not take ten samples within the budget
    ends at three (or one) in any case, and its time is not taken from the others'.
    """
    _warm_up(stopwatch, courses, min(_WARM_UP, budget / 4))
    taken: list[Samples] = [{} for _ in courses]
    done = [False] * len(courses)
    slow = [course.seconds * LEAST_SAMPLES > budget for course in courses]
    least = [1 if course.launch_seconds > budget else _ENOUGH_SAMPLES for course in courses]
    spent, number = 0.0, 0
    while not all(done):
        over = spent > budget
        for i in range(len(courses)) if number % 2 == 0 else reversed(range(len(courses))):
            done[i] = done[i] or ((over or slow[i]) and len(taken[i]) >= least[i])
            if not done[i]:
                started = stopwatch.now()
                taken[i][number] = courses[i].sample()
                spent += 0.0 if slow[i] else stopwatch.now() - started
        number += 1
        if number < _MANY or number % 8 == 0:
            settled = [ended or known(list(s.values()), precision) for ended, s in zip(done, taken, strict=True)]
            others = all(s for s, stays in zip(settled, always, strict=True) if not stays)
            done = [ended or (s and (others or not stays))
                    for ended, s, stays in zip(done, settled, always, strict=True)]  # fmt: skip
    return taken


def _warm_up(stopwatch: Stopwatch, courses: Sequence[Course], seconds: float) -> None:
    """Take turns untimed. Whose sample takes longer than all of the warm-up needs none."""
    short = [c for c in courses if c.seconds <= seconds]
    started = stopwatch.now()
    while short and stopwatch.now() - started < seconds:
        for course in short:
            course.sample()


def timing(course: Course, samples: Samples, precision: float) -> Timing:
    """What the samples of a course say."""
    values = list(samples.values())
    found = estimate(values)
    return Timing(course.mode, course.cache, found.median, found.low, found.high, found.spread, found.samples,
                  course.launches, known(values, precision))  # fmt: skip
