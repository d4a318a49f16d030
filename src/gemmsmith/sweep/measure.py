"""All points of a sweep: timed on a GPU, counted on the simulator, or predicted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from gemmsmith.store.results import Measurement
from gemmsmith.sweep.counting import count_point, predict_point
from gemmsmith.sweep.grid import Point
from gemmsmith.sweep.results import Outcome
from gemmsmith.sweep.timing import gpu_measure, time_points
from gemmsmith.sweep.workbench import Workbench

Doing = Callable[[str], None]
"""Hears which point is next."""


class Finished(Protocol):
    """Hears the measurements of ``count`` points that are done."""

    def __call__(self, measurements: Iterable[Measurement], count: int = 1) -> None: ...


def measure_points(
    points: Sequence[Point], bench: Workbench, origin: str, baselines: Sequence[str], doing: Doing, finished: Finished
) -> tuple[tuple[Outcome, ...], tuple[str, ...]]:
    """The outcome of every point, in the order of the sweep, and remarks. ``origin`` says how they are obtained."""
    if origin == "measured":
        return _timed(points, bench, baselines, doing, finished)
    return _counted(points, bench, origin, doing, finished), ()


def _counted(
    points: Sequence[Point], bench: Workbench, origin: str, doing: Doing, finished: Finished
) -> tuple[Outcome, ...]:
    """Every point on the simulator, or predicted by arithmetic alone."""
    outcomes = []
    for point in points:
        doing(point.label)
        outcome = predict_point(point, bench) if origin == "predicted" else count_point(point, bench)
        finished([outcome.measurement] if outcome.measurement is not None else [])
        outcomes.append(outcome)
    return tuple(outcomes)


def _timed(
    points: Sequence[Point], bench: Workbench, baselines: Sequence[str], doing: Doing, finished: Finished
) -> tuple[tuple[Outcome, ...], tuple[str, ...]]:
    """Every point on the GPU, and remarks."""
    placed: dict[int, Outcome] = {}
    remarks: dict[str, None] = {}
    for shape in time_points(points, bench, gpu_measure(bench, baselines, doing)):
        found = [outcome.measurement for _, outcome in shape.outcomes if outcome.measurement is not None]
        finished([*shape.baselines, *found], len(shape.outcomes))
        placed.update(shape.outcomes)
        remarks.update(dict.fromkeys(shape.remarks))
    return tuple(placed[at] for at in range(len(points))), tuple(remarks)
