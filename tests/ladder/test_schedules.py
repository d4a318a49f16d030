"""The order of warps and the arrival of asynchronous copies: no hazard under any of them, and always the same bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rung_launch import RUNGS, problem_of, small, tile, verified

from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.schedule import schedule_named

# Name, seed (or the warp to starve), and whether copies land as late or as early as they may.
SCHEDULES = [
    ("lockstep", 0, False), ("lockstep", 0, True), ("in_order", 0, False), ("in_order", 0, True),
    ("reversed", 0, False), ("reversed", 0, True), ("random", 1, True), ("random", 2, True), ("random", 3, False),
    ("starved", 0, True), ("starved", 1, True), ("starved", 1, False),
]  # fmt: skip


def device_for(schedule: tuple[str, int, bool]) -> SimDevice:
    name, seed, late = schedule
    return SimDevice(schedule=schedule_named(name, seed, late_copies=late), hazards=True)


def name_of(schedule: tuple[str, int, bool]) -> str:
    name, seed, late = schedule
    return f"{name}{seed}-{'late' if late else 'early'}"


def problem_for(name: str, schedule: tuple[str, int, bool]) -> Problem:
    """A whole tile beside one with ragged rows or columns, or one with both: all three in the orders of each rung.

    All four tiles in each order would take more than twice the time. Blocks share nothing but the matrices, so one of
    a kind shows what warps do to each other in it.
    """
    bm, bn, bk = tile(name)
    rows, columns = ((bm + 1, bn), (bm, bn + 4), (bm - 1, max(1, bn - 4)))[SCHEDULES.index(schedule) % 3]
    return problem_of(name, (rows, columns, 3 * bk + 1)).with_(alpha=0.7, beta=-1.0)


# One rung of each way of sharing memory is tried in every order, the others in half of them. A product of several
# launches is tried in a few only: its last one has the ring of rung 22.
THOROUGH = ("shared_tile", "warp_tile", "async_copy", "mma_pipelined", "simt_best")


def schedules_of(name: str) -> list[tuple[str, int, bool]]:
    if rung_named(name).prologue is not None:
        return SCHEDULES[5:8]
    return SCHEDULES if name in THOROUGH else SCHEDULES[1::2]


DETERMINISTIC = [(name, schedule) for name in RUNGS for schedule in schedules_of(name)]


@pytest.mark.parametrize(("name", "schedule"), DETERMINISTIC, ids=lambda v: v if isinstance(v, str) else name_of(v))
def test_every_order_gives_the_same_bits(name: str, schedule: tuple[str, int, bool]) -> None:
    spec, config = small(name)
    verified(spec, config, problem_for(name, schedule), device=device_for(schedule), mode="bits")


@pytest.mark.parametrize("schedule", SCHEDULES[6:7], ids=name_of)
@pytest.mark.parametrize("name", RUNGS)
def test_the_default_configuration(name: str, schedule: tuple[str, int, bool]) -> None:
    spec = rung_named(name)
    problem = problem_of(name, (70, 68, 40))
    verified(spec, spec.config(), problem, device=device_for(schedule), mode="bits")


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("schedule", SCHEDULES[3:7], ids=name_of)
def test_every_depth_of_the_pipeline(stages: int, schedule: tuple[str, int, bool]) -> None:
    spec, config = small("async_copy")
    deep = spec.config(dict(config.values) | {"STAGES": stages})
    for k in (8, 16, 41):  # fewer k-tiles than stages, and more
        verified(spec, deep, problem_of("async_copy", (33, 64, k)), device=device_for(schedule), mode="bits")


BARRIER = "__syncthreads();"
WAIT = "cp_async_wait<STAGES - 2>();"


@pytest.mark.parametrize(("name", "statement"), [("shared_tile", BARRIER), ("warp_tile", BARRIER),
                                                 ("async_copy", BARRIER), ("async_copy", WAIT)])  # fmt: skip
def test_it_can_fail(tmp_path: Path, name: str, statement: str) -> None:
    spec, config = small(name)
    assert statement in spec.code
    broken = tmp_path / f"{name}.cu"
    broken.write_text(spec.code.replace(statement, "", 1))
    caught = []
    for schedule in SCHEDULES:
        try:
            verified(replace(spec, source=broken), config, problem_for(name, schedule), device=device_for(schedule),
                     mode="bits")  # fmt: skip
        except AssertionError as error:
            caught.append((schedule, str(error)))
    assert caught
    assert all("race: " in text for _, text in caught), caught[0][1]
