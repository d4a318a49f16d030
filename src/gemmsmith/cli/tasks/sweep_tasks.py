"""Tasks of ``sweep``: one point each on the simulator, all points of one shape on a GPU, where they are compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.sweep_plan import SweepPlan
from gemmsmith.cli.tasks.files import seen, seen_options
from gemmsmith.cluster.codec import decode, encode
from gemmsmith.cluster.task import Task, TaskResult
from gemmsmith.store.results import Measurement
from gemmsmith.sweep.grid import Point
from gemmsmith.sweep.measure import measure_points
from gemmsmith.sweep.results import Outcome


@dataclass(frozen=True)
class SentOutcome:
    """An outcome without its point, which the driver has."""

    at: int
    state: str
    reasons: tuple[str, ...]
    measurement: Measurement | None
    limiter: str


@dataclass(frozen=True)
class SentOutcomes:
    """The outcomes of a task, and every measurement that it made, of baselines too."""

    outcomes: tuple[SentOutcome, ...]
    measurements: tuple[Measurement, ...]
    remarks: tuple[str, ...]


def sweep_tasks(plan: SweepPlan, points: Sequence[Point], sources: str, gpu: str, limit: float) -> list[Task]:
    """The tasks of a sweep. Illegal points are in the first: they cost nothing."""
    groups: dict[object, list[int]] = {}
    for at, point in enumerate(points):
        groups.setdefault(point.problem if plan.origin == "measured" else at, []).append(at)
    return [
        Task("sweep", {"plan": encode(plan), "points": group}, _label(plan, [points[at] for at in group]), sources,
             gpu, limit)
        for group in groups.values()
    ]  # fmt: skip


def _label(plan: SweepPlan, points: Sequence[Point]) -> str:
    name = f"{plan.kernel} {points[0].label}"
    return name if len(points) == 1 else f"{name} and {len(points) - 1} more"


def do_sweep(parameters: dict[str, Any], folder: Path) -> Any:
    """The outcomes of some points of a sweep."""
    plan = decode(SweepPlan, parameters["plan"])
    plan = replace(plan, kernel=seen(plan.kernel, folder), options=seen_options(plan.options, folder))
    bench = plan.workbench(Compiler())
    points = plan.points(bench)
    chosen = [points[at] for at in parameters["points"]]
    made: list[Measurement] = []

    def finished(measurements: Iterable[Measurement], count: int = 1) -> None:  # noqa: ARG001
        made.extend(measurements)

    outcomes, remarks = measure_points(chosen, bench, plan.origin, plan.baselines, lambda _: None, finished)
    sent = tuple(SentOutcome(at, o.state, o.reasons, o.measurement, o.limiter)
                 for at, o in zip(parameters["points"], outcomes, strict=True))  # fmt: skip
    return encode(SentOutcomes(sent, tuple(made), remarks))


def received(
    points: Sequence[Point], tasks: Sequence[Task], results: Sequence[TaskResult]
) -> tuple[tuple[Outcome, ...], tuple[str, ...]]:
    """The outcome of every point in order, and remarks. A point whose task has no result failed."""
    placed: dict[int, Outcome] = {}
    remarks: dict[str, None] = {}
    for task, result in zip(tasks, results, strict=True):
        if not result.ok:
            why = (result.error or {}).get("message", "")
            placed |= {at: Outcome(points[at], "failed", (why,)) for at in task.parameters["points"]}
            continue
        found = decode(SentOutcomes, result.value)
        remarks.update(dict.fromkeys(found.remarks))
        for each in found.outcomes:
            placed[each.at] = Outcome(points[each.at], each.state, each.reasons, each.measurement, each.limiter)
    return tuple(placed[at] for at in range(len(points))), tuple(remarks)
