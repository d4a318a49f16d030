"""One problem, measured: everybody verified, timed in turn, verified again, judged."""

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
from gemmsmith.bench.rig import Plan, Rig
from gemmsmith.bench.rotation import Rotation
from gemmsmith.bench.rounds import Course, Cursor, Samples, take_turns, timing
from gemmsmith.bench.statistics import speed_ratio
from gemmsmith.errors import GemmsmithError, LaunchError, MissingDeviceError, UsageError
from gemmsmith.fills import operands
from gemmsmith.problem import Problem
from gemmsmith.run.contender import Contender, Enqueue, method_reader
from gemmsmith.store.results import Conditions, Measurement, Pairs, Ratio, Timing

# Mode, cache, and the part of the budget it may take. The first is what everybody is compared in.
_MODES = (("graph", "cold", 1.0), ("stream", "cold", 0.2), ("graph", "hot", 0.2))
# Launches to learn roughly how long one takes.
_CALIBRATION_SECONDS, _CALIBRATION_LAUNCHES = 0.02, 1000
# Host time of a launch: batches that fit the driver's queue and do not keep the GPU long.
_BATCH, _BATCHES, _BATCH_SECONDS = 20, 5, 0.01


@dataclass
class _Entrant:
    """A contender in one shape, and what was found about it so far.

    zeroed   its C starts as zeros, since it reads C although beta is 0
    course   what it was timed with first
    methods  what its products were multiplied in, where data decide: one, or its sets differ
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
        """The arithmetic of its products, of which limit and bound follow."""
        return self.methods[0] if self.methods else self.contender.identity.precision

    def ask_method(self) -> None:
        """Of the product that has just ended."""
        read = method_reader(self.contender)
        if read is not None and (method := read()) not in self.methods:
            self.methods.append(method)


def measure_shape(
    rig: Rig, plan: Plan, problem: Problem, contenders: Sequence[Contender], baselines: Sequence[Contender]
) -> list[Measurement]:
    """A measurement of everybody that can take part, baselines first; the others are noted."""
    rig.step(f"{problem}: upload")
    data = operands(problem, "normal", plan.seed)
    with ExitStack() as stack:
        try:
            rotation = Rotation(rig.memory, problem, data, rig.l2_bytes)
        except (UsageError, LaunchError) as error:
            rig.note(f"{problem}: skipped: {error.message}")
            return []
        _close_at_the_end(stack, rotation.close)
        if not rotation.extent.covers:
            held = rotation.extent.sets * rotation.extent.set_bytes / 2**20
            rig.note(f"{problem}: all {rotation.extent.sets} sets of operands hold {held:.1f} MB, less than twice the "
                     "L2: what is called cold is not")  # fmt: skip
        rig.step(f"{problem}: float64 reference")
        shape = _Shape(rig, plan, problem, rotation, Oracle(problem, data, plan.seed))
        everybody = [(c, True) for c in baselines] + [(c, False) for c in contenders]
        entrants = [e for c, is_baseline in everybody if (e := shape.enter(c, is_baseline, stack)) is not None]
        shape.time([e for e in entrants if not e.before.why])
        return [shape.judged(e, entrants) for e in entrants]


class _Shape:
    def __init__(self, rig: Rig, plan: Plan, problem: Problem, rotation: Rotation, oracle: Oracle) -> None:
        self._rig, self._plan, self._problem, self._rotation, self._oracle = rig, plan, problem, rotation, oracle
        self._watch, self._sets = rig.stopwatch, len(rotation.sets)
        self._conditions: Conditions | None = None

    def enter(self, contender: Contender, is_baseline: bool, stack: ExitStack) -> _Entrant | None:
        """Prepare and verify; None, and a note, where it cannot take part."""
        name = contender.identity.name
        self._rig.step(f"{self._problem}: verify {name}")
        try:
            enqueue = contender.prepare(self._problem, self._rotation.sets, self._watch.stream)
        except (UsageError, MissingDeviceError, LaunchError) as error:
            hint = f" ({error.hint})" if error.hint else ""
            self._rig.note(f"{self._problem}: {name} skipped: {error.message}{hint}")
            return None
        _close_at_the_end(stack, contender.close)
        entrant = _Entrant(contender, is_baseline, enqueue)
        entrant.before = self._verify(entrant, 0, partial(enqueue, 0))
        if entrant.before.why and contender.identity.kind == "file":
            # Many tutorials compute 0·C, which NaN spoils: right with numbers there, and said so.
            entrant.zeroed = True
            again = self._verify(entrant, 0, partial(enqueue, 0))
            if not again.why:
                self._rig.note(f"{name} reads C when beta is 0; C was set to zeros for it")
                entrant.before = again
        if entrant.precision != contender.identity.precision:
            self._rig.note(f"{self._problem}: {name} multiplied in {entrant.precision}: these data are not for "
                           f"{contender.identity.precision}")  # fmt: skip
        if changed := self._rotation.inputs_changed():
            entrant.before = Finding(entrant.before.rho, f"it changed its input {changed}")
        return entrant

    def _verify(self, entrant: _Entrant, index: int, work: Callable[[], None]) -> Finding:
        """Preset C of a set, do the work, and judge what C holds."""
        self._rotation.poison(index, zero=entrant.zeroed)
        try:
            work()
            self._watch.synchronize()
            entrant.ask_method()
        except LaunchError as error:
            try:
                self._watch.synchronize()
            except LaunchError:  # the fault has taken the context with it
                hint = "the GPU does nothing more in this process: leave this kernel out"
                raise LaunchError(f"{entrant.name}: {error.message}", hint) from None
            return Finding(math.nan, error.message)
        return self._oracle.judge(self._rotation.product(index), entrant.precision)

    def time(self, running: Sequence[_Entrant]) -> None:
        """Time everybody in every mode, and verify again what was timed."""
        for entrant in running:
            entrant.launch_seconds = self._calibrated(entrant)
        with ExitStack() as stack:
            for mode, cache, part in _MODES:
                # Who cannot be captured into a graph is timed all the same, with its baselines beside it.
                if not self._plan.quick or any(e.course is None for e in running):
                    self._time_mode(running, mode, cache, part, stack)
            for entrant in running:
                self._rig.step(f"{self._problem}: verify {entrant.name} again")
                assert entrant.course is not None, "launches one by one are always possible"
                last = self._sets - 1
                entrant.after = self._verify(entrant, last, partial(entrant.course.run_set, last))
                self._ask_of_all(entrant)
        for entrant in running:
            if not self._plan.quick and not self._too_long(entrant, _MODES[1][2]):
                entrant.overhead = self._overhead(entrant)

    def _ask_of_all(self, entrant: _Entrant) -> None:
        """What it multiplies in, of the sets between the first and the last, whose products were verified.

        A rotation shifts the same rows and columns, of which a verdict is the worst, so all should be alike.
        """
        if method_reader(entrant.contender) is None:
            return
        for index in range(1, self._sets - 1):
            entrant.enqueue(index)
            self._watch.synchronize()
            entrant.ask_method()

    def _too_long(self, entrant: _Entrant, part: float) -> bool:
        """Whether a single launch takes all of that part of the budget, so that launching itself costs nothing."""
        return entrant.course is not None and entrant.launch_seconds > self._plan.budget * part

    def _calibrated(self, entrant: _Entrant) -> float:
        """About how long a launch takes; warms up on the way."""
        once = self._watch.seconds(partial(entrant.enqueue, 0))
        count = min(_CALIBRATION_LAUNCHES, int(_CALIBRATION_SECONDS / max(once, 1e-7)))
        return self._watch.seconds(partial(self._several, entrant, count)) / count if count > 1 else once

    def _several(self, entrant: _Entrant, count: int) -> None:
        for i in range(count):
            entrant.enqueue(i % self._sets)

    def _time_mode(self, running: Sequence[_Entrant], mode: str, cache: str, part: float, stack: ExitStack) -> None:
        """Time everybody who can be timed in this mode; the courses stay open as long as ``stack``."""
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
                    self._plan.sample,
                )
            except LaunchError as error:
                if cache == "cold":
                    self._rig.note(f"{self._problem}: {entrant.name} is timed without graphs: {error.message}")
                continue
            _close_at_the_end(stack, course.close)
            entrant.course = entrant.course or course
            taking.append((entrant, course))
        if not taking:
            return
        self._rig.step(f"{self._problem}: time, {mode}, {cache} L2")
        with Sampler(self._rig.probe) as sampler:
            taken = take_turns(self._watch, [c for _, c in taking], [e.is_baseline for e, _ in taking],
                               self._plan.precision, self._plan.budget * part)  # fmt: skip
        self._conditions = self._conditions or sampler.conditions
        for (entrant, course), samples in zip(taking, taken, strict=True):
            entrant.timings.append(timing(course, samples, self._plan.precision))
            entrant.samples[mode, cache] = samples

    def _overhead(self, entrant: _Entrant) -> float:
        """Host seconds of one launch, from batches on an idle GPU."""
        count = max(1, min(_BATCH, int(_BATCH_SECONDS / max(entrant.launch_seconds, 1e-7))))
        held: Callable[[], AbstractContextManager[Enqueue]] | None = getattr(entrant.enqueue, "held", None)
        with held() if held is not None else nullcontext(entrant.enqueue) as call:

            def several() -> None:
                for i in range(count):
                    call(i % self._sets)

            return median(self._watch.host_seconds(several) / count for _ in range(_BATCHES))

    def judged(self, entrant: _Entrant, entrants: Sequence[_Entrant]) -> Measurement:
        """What was found, with the reason where it must not be believed."""
        identity = replace(entrant.contender.identity, precision=entrant.precision)
        problem, limits = self._problem, self._rig.limits
        rejected = entrant.before.why or (f"wrong after timing: {entrant.after.why}" if entrant.after.why else "")
        verified = not rejected
        if len(entrant.methods) > 1:
            rejected = rejected or f"its sets of operands were not multiplied alike: {' and '.join(entrant.methods)}"
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
    """Speed over each baseline, in the first mode that both were timed in."""
    found = []
    for baseline in entrants:
        if not baseline.is_baseline or baseline is entrant:
            continue
        both = next((m for m in entrant.samples if m in baseline.samples), None)
        if both is not None and (ratio := speed_ratio(entrant.samples[both], baseline.samples[both])) is not None:
            found.append(Ratio(baseline.name, ratio.median, ratio.low, ratio.high))
    return tuple(found)


def _close_at_the_end(stack: ExitStack, close: Callable[[], None]) -> None:
    """After a fault the driver refuses to free as well: the first error is the one that says why."""

    def leave(_kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None) -> None:
        with suppress(GemmsmithError) if error is not None else ExitStack():
            close()

    stack.push(leave)
