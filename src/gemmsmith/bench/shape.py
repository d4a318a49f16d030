"""Measure one problem: verify all contenders, time them interleaved, verify again, judge."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from types import TracebackType

from gemmsmith.bench.clocks import Sampler
from gemmsmith.bench.oracle import UNJUDGED, Finding, Oracle
from gemmsmith.bench.rig import Rig, TimingPolicy
from gemmsmith.bench.rotation import Rotation
from gemmsmith.bench.rounds import Course, Cursor, Samples, take_turns, timing
from gemmsmith.bench.statistics import speed_ratio
from gemmsmith.errors import GemmsmithError, LaunchError, MissingDeviceError, UsageError
from gemmsmith.fills import operands
from gemmsmith.problem import Problem
from gemmsmith.run.contender import Contender, Enqueue, method_reader
from gemmsmith.store.results import Conditions, Measurement, Pairs, Ratio, Timing

# Mode, cache, and its share of the budget. Contenders are compared in the first.
_MODES = (("graph", "cold", 1.0), ("stream", "cold", 0.2), ("graph", "hot", 0.2))
# Launches to estimate the time of one.
_CALIBRATION_SECONDS, _CALIBRATION_LAUNCHES = 0.02, 1000
# Host time of a launch: batches that fit the driver's queue and occupy the GPU only briefly.
_BATCH, _BATCHES, _BATCH_SECONDS = 20, 5, 0.01


@dataclass
class _Entrant:
    """A contender on one shape, with the findings so far.

    zeroed   C is zeroed for it, since it reads C although beta is 0
    course   the course it was first timed with
    methods  the arithmetics of its products, if the data decide; more than one if its sets differ
    """

    contender: Contender
    is_baseline: bool
    enqueue: Enqueue
    before: Finding = UNJUDGED
    after: Finding = UNJUDGED
    zeroed: bool = False
    launch_seconds: float = math.nan
    overhead: float = math.nan
    course: Course | None = None
    methods: list[str] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    samples: dict[tuple[str, str], Samples] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.contender.identity.name

    @property
    def precision(self) -> str:
        """The arithmetic of its products, which determines limit and error bound."""
        return self.methods[0] if self.methods else self.contender.identity.precision

    def record_method(self) -> None:
        """Record the arithmetic of the product that has just ended."""
        read = method_reader(self.contender)
        if read is not None and (method := read()) not in self.methods:
            self.methods.append(method)


def measure_shape(
    rig: Rig, policy: TimingPolicy, problem: Problem, contenders: Sequence[Contender], baselines: Sequence[Contender]
) -> list[Measurement]:
    """Measure every contender that supports the problem, baselines first; the others are noted."""
    rig.step(f"{problem}: upload")
    data = operands(problem, "normal", policy.seed)
    with ExitStack() as stack:
        try:
            rotation = Rotation(rig.memory, problem, data, rig.l2_bytes)
        except (UsageError, LaunchError) as error:
            rig.note(f"{problem}: skipped: {error.message}")
            return []
        _close_at_exit(stack, rotation.close)
        if not rotation.extent.covers:
            held = rotation.extent.sets * rotation.extent.set_bytes / 2**20
            rig.note(f"{problem}: all {rotation.extent.sets} operand sets together have {held:.1f} MB, less than twice "
                     "the L2: the cold timings are not cold")  # fmt: skip
        rig.step(f"{problem}: float64 reference")
        shape = _Shape(rig, policy, problem, rotation, Oracle(problem, data, policy.seed))
        candidates = [(c, True) for c in baselines] + [(c, False) for c in contenders]
        entrants = [e for c, is_baseline in candidates if (e := shape.enter(c, is_baseline, stack)) is not None]
        shape.time([e for e in entrants if not e.before.why])
        return [shape.judged(e, entrants) for e in entrants]


class _Shape:
    def __init__(self, rig: Rig, policy: TimingPolicy, problem: Problem, rotation: Rotation, oracle: Oracle) -> None:
        self._rig, self._policy, self._problem, self._rotation, self._oracle = rig, policy, problem, rotation, oracle
        self._watch, self._sets = rig.stopwatch, len(rotation.sets)
        self._conditions: Conditions | None = None

    def enter(self, contender: Contender, is_baseline: bool, stack: ExitStack) -> _Entrant | None:
        """Prepare and verify a contender; None, with a note, if it does not support the problem."""
        name = contender.identity.name
        self._rig.step(f"{self._problem}: verify {name}")
        try:
            enqueue = contender.prepare(self._problem, self._rotation.sets, self._watch.stream)
        except (UsageError, MissingDeviceError, LaunchError) as error:
            hint = f" ({error.hint})" if error.hint else ""
            self._rig.note(f"{self._problem}: {name} skipped: {error.message}{hint}")
            return None
        _close_at_exit(stack, contender.close)
        entrant = _Entrant(contender, is_baseline, enqueue)
        entrant.before = self._verify(entrant, 0, partial(enqueue, 0))
        if entrant.before.why and contender.identity.kind == "file":
            # Many tutorials compute 0·C, which fails with NaN in C: try again with zeros, and note it.
            entrant.zeroed = True
            again = self._verify(entrant, 0, partial(enqueue, 0))
            if not again.why:
                self._rig.note(f"{name} reads C when beta is 0; C was set to zeros for it")
                entrant.before = again
        if entrant.precision != contender.identity.precision:
            self._rig.note(f"{self._problem}: {name} fell back to {entrant.precision}: the data do not suit "
                           f"{contender.identity.precision}")  # fmt: skip
        if changed := self._rotation.inputs_changed():
            entrant.before = Finding(entrant.before.rho, f"it changed its input {changed}")
        return entrant

    def _verify(self, entrant: _Entrant, index: int, work: Callable[[], None]) -> Finding:
        """Preset C of a set, run ``work``, and judge C."""
        self._rotation.poison(index, zero=entrant.zeroed)
        try:
            work()
            self._watch.synchronize()
            entrant.record_method()
        except LaunchError as error:
            try:
                self._watch.synchronize()
            except LaunchError:  # the fault destroyed the context
                hint = "the GPU is unusable in this process from here on: leave this kernel out"
                raise LaunchError(f"{entrant.name}: {error.message}", hint) from None
            return Finding(math.nan, error.message)
        return self._oracle.judge(self._rotation.product(index), entrant.precision)

    def time(self, running: Sequence[_Entrant]) -> None:
        """Time all entrants in every mode, and verify the timed work again."""
        for entrant in running:
            entrant.launch_seconds = self._calibrated(entrant)
        with ExitStack() as stack:
            for mode, cache, part in _MODES:
                # A contender that cannot be captured into a graph is timed on a stream, with its baselines.
                if not self._policy.quick or any(e.course is None for e in running):
                    self._time_mode(running, mode, cache, part, stack)
            for entrant in running:
                self._rig.step(f"{self._problem}: verify {entrant.name} again")
                assert entrant.course is not None, "stream launches are always possible"
                last = self._sets - 1
                entrant.after = self._verify(entrant, last, partial(entrant.course.run_set, last))
                self._record_methods(entrant)
        for entrant in running:
            if not self._policy.quick and not self._too_long(entrant, _MODES[1][2]):
                entrant.overhead = self._overhead(entrant)

    def _record_methods(self, entrant: _Entrant) -> None:
        """Record the arithmetic for the sets between the first and the last, whose products were verified.

        All sets hold the same rows and columns, shifted, and the decision depends on their worst; so all should agree.
        """
        if method_reader(entrant.contender) is None:
            return
        for index in range(1, self._sets - 1):
            entrant.enqueue(index)
            self._watch.synchronize()
            entrant.record_method()

    def _too_long(self, entrant: _Entrant, part: float) -> bool:
        """Whether a single launch exceeds that share of the budget, so that launch overhead is negligible."""
        return entrant.course is not None and entrant.launch_seconds > self._policy.budget * part

    def _calibrated(self, entrant: _Entrant) -> float:
        """The estimated time of a launch; this also warms up."""
        once = self._watch.seconds(partial(entrant.enqueue, 0))
        count = min(_CALIBRATION_LAUNCHES, int(_CALIBRATION_SECONDS / max(once, 1e-7)))
        return self._watch.seconds(partial(self._several, entrant, count)) / count if count > 1 else once

    def _several(self, entrant: _Entrant, count: int) -> None:
        for i in range(count):
            entrant.enqueue(i % self._sets)

    def _time_mode(self, running: Sequence[_Entrant], mode: str, cache: str, part: float, stack: ExitStack) -> None:
        """Time all entrants that support this mode; the courses stay open until ``stack`` closes."""
        cursor = Cursor()
        taking: list[tuple[_Entrant, Course]] = []
        for entrant in running:
            if self._too_long(entrant, part):
                continue
            try:
                course = Course(
                    self._watch,
                    entrant.enqueue,
                    mode,
                    cache,
                    self._sets,
                    entrant.launch_seconds,
                    cursor,
                    self._policy.sample,
                )
            except LaunchError as error:
                if cache == "cold":
                    self._rig.note(f"{self._problem}: {entrant.name} is timed without graphs: {error.message}")
                continue
            _close_at_exit(stack, course.close)
            entrant.course = entrant.course or course
            taking.append((entrant, course))
        if not taking:
            return
        self._rig.step(f"{self._problem}: time, {mode}, {cache} L2")
        with Sampler(self._rig.probe) as sampler:
            taken = take_turns(self._watch, [c for _, c in taking], [e.is_baseline for e, _ in taking],
                               self._policy.precision, self._policy.budget * part)  # fmt: skip
        self._conditions = self._conditions or sampler.conditions
        for (entrant, course), samples in zip(taking, taken, strict=True):
            entrant.timings.append(timing(course, samples, self._policy.precision))
            entrant.samples[mode, cache] = samples

    def _overhead(self, entrant: _Entrant) -> float:
        """Host seconds per launch, from batches on an idle GPU."""
        count = max(1, min(_BATCH, int(_BATCH_SECONDS / max(entrant.launch_seconds, 1e-7))))
        held: Callable[[], AbstractContextManager[Enqueue]] | None = getattr(entrant.enqueue, "held", None)
        with held() if held is not None else nullcontext(entrant.enqueue) as call:

            def several() -> None:
                for i in range(count):
                    call(i % self._sets)

            return median(self._watch.host_seconds(several) / count for _ in range(_BATCHES))

    def judged(self, entrant: _Entrant, entrants: Sequence[_Entrant]) -> Measurement:
        """The measurement, with the reason if it is rejected."""
        identity = replace(entrant.contender.identity, precision=entrant.precision)
        problem, limits = self._problem, self._rig.limits
        rejected = entrant.before.why or (f"wrong after timing: {entrant.after.why}" if entrant.after.why else "")
        verified = not rejected
        if len(entrant.methods) > 1:
            rejected = rejected or f"its operand sets used different arithmetics: {' and '.join(entrant.methods)}"
        least = limits.least_cold_seconds(self._rotation.extent.set_bytes, self._sets)
        for found in entrant.timings:
            floor = least if found.cache == "cold" else 0.0
            rejected = rejected or limits.objection(problem, identity.precision, found.median, floor)
        resources: Pairs = getattr(entrant.contender, "resources", ())
        return Measurement(
            identity=identity, problem=problem, origin="measured", verified=verified, rejected=rejected,
            rho=(entrant.before.rho, entrant.after.rho), timings=tuple(entrant.timings),
            ratios=_ratios(entrant, entrants), conditions=self._conditions or Conditions(),
            overhead=entrant.overhead, limit_tflops=limits.tflops(problem, identity.precision), counters=resources,
        )  # fmt: skip


def _ratios(entrant: _Entrant, entrants: Sequence[_Entrant]) -> tuple[Ratio, ...]:
    """The speed relative to each baseline, in the first mode that both were timed in."""
    found = []
    for baseline in entrants:
        if not baseline.is_baseline or baseline is entrant:
            continue
        both = next((m for m in entrant.samples if m in baseline.samples), None)
        if both is not None and (ratio := speed_ratio(entrant.samples[both], baseline.samples[both])) is not None:
            found.append(Ratio(baseline.name, ratio.median, ratio.low, ratio.high))
    return tuple(found)


def _close_at_exit(stack: ExitStack, close: Callable[[], None]) -> None:
    """Close at exit. After a fault the driver refuses to free too; the first error is kept."""

    def leave(_kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None) -> None:
        with suppress(GemmsmithError) if error is not None else ExitStack():
            close()

    stack.push(leave)
