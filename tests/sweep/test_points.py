"""The points of a sweep with and without a GPU: resources, measurements by shape, points that fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweep_samples import bench, measurement, points, rung

from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.store.results import Measurement
from gemmsmith.sweep.families import FileFamily, RungFamily, Variant
from gemmsmith.sweep.results import Outcome
from gemmsmith.sweep.timing import Entrant, Listener, time_points
from gemmsmith.sweep.workbench import resources
from gemmsmith.userfile.kernels.user_kernel import UserOptions


def test_the_resources_of_a_kernel() -> None:
    here = bench()
    spec = rung_named("coalesced")
    compiled = here.compiled(Variant(spec, spec.config(), ""), Problem(64, 64, 64))
    spilling = replace(compiled, resources=replace(compiled.resources, registers=255, spill_stores=4, spill_loads=8,
                                                   static_smem=1000, barriers=1))  # fmt: skip
    occupied = here.occupancy(spilling, 128, 24)
    found = dict(resources(spilling, occupied, 330, here.gpu))
    assert found == {"registers": 255, "smem_bytes": 1024, "spill_bytes": 12, "threads": 128, "blocks_per_sm": 2,
                     "occupancy": 0.125, "grid_blocks": 330, "waves": 1.25, "wave_efficiency": 0.625}  # fmt: skip


def test_points_of_a_shape_are_measured_together_with_the_baselines() -> None:
    found = points(rung("coalesced"), "SIZE=32,64", "TILE=8,9,16")
    asked: list[tuple[list[str], str]] = []

    def measure(entrants: Sequence[Entrant], problem: Problem, note: Listener) -> list[Measurement]:
        asked.append(([e.label for e in entrants], str(problem)))
        note("the clocks are not known")
        return [measurement("cublas", problem, kind="baseline"), *(measurement(e.label, problem) for e in entrants)]

    refused, *shapes = time_points(found, bench(), measure)
    assert [(at, outcome.state) for at, outcome in refused.outcomes] == [(1, "illegal"), (4, "illegal")]
    assert asked == [
        (["coalesced SIZE=32 TILE=8", "coalesced SIZE=32 TILE=16"], "32x32x32 fp32"),
        (["coalesced SIZE=64 TILE=8", "coalesced SIZE=64 TILE=16"], "64x64x64 fp32"),
    ]
    assert [[at for at, _ in turn.outcomes] for turn in shapes] == [[0, 2], [3, 5]]
    assert [m.identity.name for m in shapes[0].baselines] == ["cublas"]
    assert shapes[0].remarks == ("the clocks are not known",)
    taken = shapes[1].outcomes[1][1].measurement
    assert taken is not None
    assert (taken.identity.name, taken.identity.config) == ("coalesced", "TILE=16")
    assert taken.counter("registers") > 0
    assert taken.counter("threads") == 256
    assert taken.ratio("cublas") == 0.5


def outcomes_of(family: RungFamily | FileFamily, vary: str, answer: Any) -> list[Outcome]:
    return [outcome for turn in time_points(points(family, vary), bench(), answer) for _, outcome in turn.outcomes]


def test_a_point_that_is_rejected_or_skipped_on_the_gpu() -> None:
    def measure(entrants: Sequence[Entrant], problem: Problem, note: Listener) -> list[Measurement]:
        note(f"{problem}: {entrants[1].label} skipped: it is too large")
        return [measurement(entrants[0].label, problem, rejected="above the roofline")]

    wrong, skipped = outcomes_of(rung("coalesced"), "TILE=8,16", measure)
    assert (wrong.state, wrong.reasons) == ("wrong", ("above the roofline",))
    assert skipped.state == "failed"
    assert "it is too large" in skipped.reasons[0]


def test_a_point_that_does_not_compile_does_not_stop_the_others(file: Path) -> None:
    def measure(entrants: Sequence[Entrant], problem: Problem, _: Listener) -> list[Measurement]:
        assert [e.label for e in entrants] == ["mine.cu TILE=8"]
        return [measurement(e.label, problem, kind="file") for e in entrants]

    found = {o.point.label: o for o in outcomes_of(FileFamily(file, UserOptions()), "TILE=4,8", measure)}
    assert found["TILE=4"].state == "failed"
    assert "tiles of 4" in found["TILE=4"].reasons[-1]
    good = found["TILE=8"].measurement
    assert good is not None
    assert (good.identity.name, good.identity.config) == ("mine.cu", "TILE=8")
