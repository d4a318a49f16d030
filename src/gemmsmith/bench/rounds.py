"""Interleaved sampling of several contenders, round after round, until each median is precise or the budget ends.

Clocks drift over seconds, so contenders are compared within a round. Every other round runs in reverse order, so that
no contender always follows the same neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gemmsmith.bench.statistics import LEAST_SAMPLES, estimate, known
from gemmsmith.bench.stopwatch import Replay, Stopwatch
from gemmsmith.run.contender import Enqueue
from gemmsmith.store.results import Timing

# The default minimum length of a sample; events resolve half a microsecond. Under a power cap, contenders that
# alternate every few milliseconds share one clock; with samples of 0.1 s and more each reaches its own.
SAMPLE_SECONDS = 4e-3
# A longer cycle through all sets is cut into single launches, if one launch is long enough for a sample.
_LONGEST_CYCLE = 0.05
# A shorter sample is preceded by an untimed one, to hide the launch latency.
_NEEDS_LEAD = 0.02
# Untimed interleaved runs before timing, for the clocks to settle.
_WARM_UP = 0.3
_ENOUGH_SAMPLES = 3
# From this many rounds on, convergence is tested only every eighth round.
_MANY = 64

Samples = dict[int, float]
"""Seconds per launch, by round."""


@dataclass
class Cursor:
    """The set used last by any contender; the next single launch uses the one after it."""

    last: int = 0


@dataclass
class Course:
    """How one contender is sampled in one mode: which launches form a sample, and how they are enqueued.

    order   the sets of one sample; empty: one launch per sample, of the set after the one used last
    alone   precede every sample with an untimed one of the same contender: under a power cap it would otherwise start
            at its neighbour's clock
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
            self._replay(0)  # fails here if capture is not possible

    @property
    def launches(self) -> int:
        return max(1, len(self.order))

    @property
    def seconds(self) -> float:
        """The estimated length of a sample, including its untimed lead."""
        length = self.launches * self.launch_seconds
        return 2 * length if self._has_lead else length

    @property
    def _has_lead(self) -> bool:
        return self.alone or self.launches * self.launch_seconds < _NEEDS_LEAD

    def sample(self) -> float:
        """Time one sample; returns the seconds per launch."""
        lead = self._next() if self._has_lead else None
        return self.stopwatch.seconds(self._next(), lead) / self.launches

    def _next(self) -> Callable[[], None]:
        """The next work of this course: its whole order, or the set after the one used last."""
        index = 0 if self.order else (self.cursor.last + 1) % self.sets
        self.cursor.last = self.order[-1] if self.order else index
        return self._work(index)

    def run_set(self, index: int) -> None:
        """Enqueue the timed work, which includes a launch of set ``index``."""
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
    """Samples of each course. ``always`` marks the courses (the baselines) that run as long as any other does.

    A course ends when its median is known to ``precision``. After ``budget`` seconds, each course ends with its third
    sample, or with its first if a single launch exceeds the budget. A course too slow for ten samples within the budget
    always ends at three (or one), and its time does not count against the others' budget.
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
    """Run interleaved and untimed. A course whose sample is longer than the warm-up is skipped."""
    short = [c for c in courses if c.seconds <= seconds]
    started = stopwatch.now()
    while short and stopwatch.now() - started < seconds:
        for course in short:
            course.sample()


def timing(course: Course, samples: Samples, precision: float) -> Timing:
    """The timing that a course's samples give."""
    values = list(samples.values())
    found = estimate(values)
    return Timing(course.mode, course.cache, found.median, found.low, found.high, found.spread, found.samples,
                  course.launches, known(values, precision))  # fmt: skip
