"""One shape on the GPU for many candidates: operands are uploaded once, groups of candidates are timed in turn with the
baseline, and finalists are verified against float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TypeVar

from gemmsmith.bench.oracle import Finding, Oracle
from gemmsmith.bench.rig import Rig
from gemmsmith.bench.rotation import Rotation
from gemmsmith.bench.rounds import Course, Cursor, take_turns
from gemmsmith.bench.statistics import estimate
from gemmsmith.errors import GemmsmithError, LaunchError
from gemmsmith.fills import operands
from gemmsmith.problem import Problem
from gemmsmith.run.contender import Contender, Enqueue

_T = TypeVar("_T")

# Launches that estimate the time of one.
_CALIBRATION_SECONDS, _CALIBRATION_LAUNCHES = 0.005, 200


@dataclass(frozen=True)
class Stage:
    """How long candidates are timed: until the median is known to ``precision``, or for ``seconds`` each.

    sample    seconds per sample of short kernels
    settled   seconds per sample of kernels that take 0.1 ms or more: after as long untimed, such a kernel runs at its
              own clock rather than at its neighbours'
    """

    precision: float
    seconds: float
    sample: float
    settled: float


# GLANCE, three samples each, sorts out most candidates; QUICK orders those that are left; LONG resolves a per cent
# between the best few.
GLANCE = Stage(0.05, 0.0, 0.001, 0.003)
QUICK = Stage(0.02, 0.05, 0.002, 0.01)
LONG = Stage(0.003, 1.6, 0.004, 0.1)
SETTLES = 1e-4


class LostContextError(LaunchError):
    """A kernel's fault destroyed the GPU's context: this process cannot launch anything more."""


@dataclass
class Runner:
    """A contender prepared for the shape; ``seconds`` estimates one launch."""

    contender: Contender
    enqueue: Enqueue
    seconds: float


@dataclass(frozen=True)
class Times:
    """Median seconds of a candidate and of the baseline timed with it; NaN without a baseline."""

    seconds: float
    baseline: float

    @property
    def score(self) -> float:
        """Orders candidates of one or several groups: time relative to the baseline's at the same moment."""
        return self.seconds / self.baseline if self.baseline > 0 else self.seconds


class Arena:
    """A context manager that frees operands and closes contenders on exit."""

    def __init__(self, rig: Rig, problem: Problem, baseline: Contender | None, seed: int = 0) -> None:
        self._rig, self._problem, self._watch, self._seed = rig, problem, rig.stopwatch, seed
        self._stack = ExitStack()
        self._wanted = baseline
        self._oracle: Oracle | None = None
        self._baseline: Runner | None = None

    def __enter__(self) -> Arena:
        self._rig.step(f"{self._problem}: upload")
        with ExitStack() as building:
            building.enter_context(self._watch.active())
            self._data = operands(self._problem, "normal", self._seed)
            self._rotation = building.enter_context(Rotation(self._rig.memory, self._problem, self._data,
                                                             self._rig.l2_bytes))  # fmt: skip
            if self._wanted is not None:
                try:
                    self._baseline = self.enter(self._wanted, building)
                except LostContextError:
                    raise
                except GemmsmithError as error:
                    self._rig.note(f"{self._problem}: {self._wanted.identity.name} skipped: {error.message}")
            self._stack = building.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._stack.__exit__(kind, error, trace)
        except GemmsmithError:
            if error is None:  # after a fault freeing fails too; the first error explains it
                raise

    def enter(self, contender: Contender, stack: ExitStack) -> Runner:
        """Prepare a contender until ``stack`` closes, and launch it a few times."""
        with ExitStack() as own:
            own.callback(contender.close)
            enqueue = contender.prepare(self._problem, self._rotation.sets, self._watch.stream)
            seconds = self._launched(lambda: self._calibrated(enqueue))
            stack.push(own.pop_all())
        return Runner(contender, enqueue, seconds)

    def _calibrated(self, enqueue: Enqueue) -> float:
        once = self._watch.seconds(partial(enqueue, 0))
        count = min(_CALIBRATION_LAUNCHES, int(_CALIBRATION_SECONDS / max(once, 1e-7)))
        sets = len(self._rotation.sets)

        def several() -> None:
            for i in range(count):
                enqueue(i % sets)

        return self._watch.seconds(several) / count if count > 1 else once

    def _launched(self, work: Callable[[], _T]) -> _T:
        """Run work that may fault; raises ``LostContextError`` if the fault destroyed the context."""
        try:
            found = work()
            self._watch.synchronize()
        except LaunchError as error:
            try:
                self._watch.synchronize()
            except LaunchError:
                raise LostContextError(error.message, error.hint) from None
            raise
        return found

    def times(self, runners: Sequence[Runner], stage: Stage) -> list[Times]:
        """Medians of candidates timed in turn with each other and with the baseline."""
        everybody = [*([self._baseline] if self._baseline is not None else []), *runners]
        cursor = Cursor()
        with ExitStack() as stack:
            courses = [self._course(runner, stage, cursor) for runner in everybody]
            for course in courses:
                stack.callback(course.close)
            always = [runner is self._baseline for runner in everybody]
            budget = max(stage.seconds * len(everybody), 3 * sum(course.seconds for course in courses))
            taken = self._launched(lambda: take_turns(self._watch, courses, always, stage.precision, budget))
        medians = [estimate(list(samples.values())).median for samples in taken]
        baseline = medians[0] if self._baseline is not None else math.nan
        return [Times(seconds, baseline) for seconds in medians[len(everybody) - len(runners) :]]

    def _course(self, runner: Runner, stage: Stage, cursor: Cursor) -> Course:
        settles = runner.seconds >= SETTLES
        sample = stage.settled if settles else stage.sample
        facts = (len(self._rotation.sets), runner.seconds, cursor, sample)
        try:
            return Course(self._watch, runner.enqueue, "graph", "cold", *facts, alone=settles)
        except LaunchError:  # cannot be captured in a graph: launch one by one
            return Course(self._watch, runner.enqueue, "stream", "cold", *facts, alone=settles)

    def objection(self, runner: Runner, seconds: float) -> str:
        """Why this time is impossible on this GPU; empty if it is possible."""
        least = self._rig.limits.least_cold_seconds(self._rotation.extent.set_bytes, len(self._rotation.sets))
        return self._rig.limits.objection(self._problem, runner.contender.identity.precision, seconds, least)

    def judge(self, runner: Runner) -> Finding:
        """Fill C with NaN, launch, and compare with float64; a candidate that changes its inputs is incorrect.

        Uses the first operand set and restores its inputs first: a candidate timed earlier may have changed them.
        """
        self._rig.step(f"{self._problem}: verify")
        if self._oracle is None:
            self._oracle = Oracle(self._problem, self._data, self._seed)
        if changed := self._rotation.inputs_changed():  # it also restores them
            self._rig.note(f"{self._problem}: a candidate changed its input {changed}")
        self._rotation.poison(0)
        self._launched(lambda: runner.enqueue(0))
        found = self._oracle.judge(self._rotation.product(0), runner.contender.identity.precision)
        changed = self._rotation.inputs_changed()
        return Finding(found.rho, f"it changed its input {changed}") if changed else found
