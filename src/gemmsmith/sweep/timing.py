"""The points of a sweep on a GPU: those of one shape, and the baselines, are timed in interleaved rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gemmsmith.errors import CompileError, UsageError
from gemmsmith.explain.occupancy import launched_blocks
from gemmsmith.problem import Problem
from gemmsmith.run.contender import Contender
from gemmsmith.store.results import Measurement
from gemmsmith.sweep.families import Variant
from gemmsmith.sweep.grid import Point
from gemmsmith.sweep.results import Outcome
from gemmsmith.sweep.workbench import Workbench, reasons_of, resources

_SECONDS_PER_POINT, _LEAST_SECONDS = 1.0, 3.0

Listener = Callable[[str], None]


@dataclass(frozen=True)
class Entrant:
    """A point that compiles, with a label that no other point has."""

    label: str
    variant: Variant


Measure = Callable[[Sequence[Entrant], Problem, Listener], Iterable[Measurement]]
"""Measures entrants and baselines on a problem; the listener hears what was skipped and why."""


@dataclass(frozen=True)
class ShapeOutcomes:
    """The points of one shape: their outcomes by place in the sweep, the baselines, and remarks."""

    outcomes: tuple[tuple[int, Outcome], ...]
    baselines: tuple[Measurement, ...] = ()
    remarks: tuple[str, ...] = ()


def time_points(points: Sequence[Point], bench: Workbench, measure: Measure) -> Iterator[ShapeOutcomes]:
    """Every point: illegal ones first, then shape by shape in the order in which shapes appear."""
    shapes: dict[Problem, list[int]] = {}
    refused = []
    for at, point in enumerate(points):
        if point.problem is None:
            refused.append((at, Outcome(point, "illegal", point.reasons)))
        else:
            shapes.setdefault(point.problem, []).append(at)
    if refused:
        yield ShapeOutcomes(tuple(refused))
    for problem, places in shapes.items():
        yield _time_shape(problem, [(at, points[at]) for at in places], bench, measure)


def _time_shape(
    problem: Problem, placed: Sequence[tuple[int, Point]], bench: Workbench, measure: Measure
) -> ShapeOutcomes:
    outcomes: dict[int, Outcome] = {}
    entrants: dict[int, Entrant] = {}
    for at, point in placed:
        assert point.variant is not None, "a point with a problem has a kernel"
        try:
            bench.compiled(point.variant, problem)
            entrants[at] = Entrant(f"{point.variant.spec.name} {point.label}", point.variant)
        except (CompileError, UsageError) as error:
            outcomes[at] = Outcome(point, "failed", reasons_of(error))
    notes: list[str] = []
    found = list(measure(list(entrants.values()), problem, notes.append)) if entrants else []
    by_name = {measurement.identity.name: measurement for measurement in found}
    for at, point in placed:
        if at in entrants:
            outcomes[at] = _outcome(point, entrants[at], by_name.pop(entrants[at].label, None), notes, bench)
    of_points = {note for note in notes for e in entrants.values() if f"{e.label} skipped" in note}
    remarks = tuple(dict.fromkeys(note for note in notes if note not in of_points))
    return ShapeOutcomes(tuple(outcomes.items()), tuple(by_name.values()), remarks)


def _outcome(
    point: Point, entrant: Entrant, found: Measurement | None, notes: Sequence[str], bench: Workbench
) -> Outcome:
    if found is None:
        reasons = tuple(note for note in notes if f"{entrant.label} skipped" in note) or tuple(notes)
        return Outcome(point, "failed", reasons or ("it was not measured",))
    identity = replace(found.identity, name=entrant.variant.spec.name, config=entrant.variant.text)
    found = replace(found, identity=identity)
    state = "wrong" if found.rejected or not found.verified else "ok"
    return _with_resources(Outcome(point, state, (found.rejected,) if found.rejected else (), found), bench)


def _with_resources(outcome: Outcome, bench: Workbench) -> Outcome:
    """A measured point with the resources of its kernel added."""
    variant, problem, found = outcome.point.variant, outcome.point.problem, outcome.measurement
    if variant is None or problem is None or found is None:
        return outcome
    compiled = bench.compiled(variant, problem)
    geometry = bench.geometry(variant, problem)
    occupied = bench.occupancy(compiled, geometry.threads, geometry.smem)
    blocks = launched_blocks(bench.gpu, geometry, variant.spec.persistent, occupied.blocks_per_sm)
    added = dict(resources(compiled, occupied, blocks, bench.gpu)) | dict(found.counters)
    measured = replace(found, counters=tuple(added.items()))
    return replace(outcome, measurement=measured, limiter=", ".join(occupied.limiters))


def gpu_measure(bench: Workbench, baselines: Sequence[str], step: Listener) -> Measure:
    """Measures on this machine's GPU, by the protocol of ``gemmsmith bench``."""
    from gemmsmith.run.baselines import baseline_named
    from gemmsmith.run.cuda import cuda_device

    device = cuda_device()
    for name in baselines:
        baseline_named(name)  # an unknown one is refused before anything runs

    def measure(entrants: Sequence[Entrant], problem: Problem, note: Listener) -> Iterator[Measurement]:
        from gemmsmith.bench.bench import Renamed
        from gemmsmith.bench.bench import bench as timed
        from gemmsmith.bench.kernel_contender import KernelContender
        from gemmsmith.bench.rig import TimingPolicy, cuda_rig

        contenders: list[Contender] = [
            Renamed(KernelContender(e.variant.spec, e.variant.config, device, bench.compiler), e.label)
            for e in entrants
        ]
        others = [baseline_named(name) for name in baselines]
        budget = max(_LEAST_SECONDS, _SECONDS_PER_POINT * (len(contenders) + len(others)))
        with cuda_rig(device, step, note) as rig:
            yield from timed(contenders, others, [problem], rig, TimingPolicy(budget=budget, quick=True))

    return measure
