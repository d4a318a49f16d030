"""Stores as they were measured by their shape: how fast one SM issues them, and how fast all SMs get rid of them."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from gemmsmith.gpus import gpu_named
from gemmsmith.sim.timing.memory_path import Memory, MemoryPath
from gemmsmith.sim.timing.outcome import Outcome
from gemmsmith.sim.timing.parameters import SmParameters, parameters_of
from gemmsmith.sim.timing.table import Kind, Row, Unit

MODEL = parameters_of(gpu_named("H200")).sm
RECORD = Path(__file__).parents[2] / "benchmarks" / "results" / "h200_store_shapes.json"
SHAPES = [(4, 128), (8, 32), (8, 256), (16, 32), (16, 64), (16, 512)]  # bytes a lane, bytes of a row


@cache
def measured(lane: int, across: int, blocks: int, what: str) -> float:
    """Cycles that one more store of each of eight warps takes: 64 stores less 32."""
    wanted = {"lane": lane, "across": across, "blocks": blocks, "from": "L2", "warps": 8}
    rows = json.loads(RECORD.read_text(encoding="utf-8"))["micro"]
    cycles: dict[int, float] = {row["stores"]: row[what] for row in rows if wanted.items() <= row.items()}
    return (cycles[64] - cycles[32]) / 32


def store(lane: int) -> Row:
    return Row(0, Kind.GLOBAL_STORE, Unit.MIO, 2, 1, -1, -1, (), 0, 0, 0, 0, 0.0, 0, lane + 8, 0, False, 1, 0, "TEST")


def lines_of(lane: int, across: int, number: int) -> tuple[tuple[int, int], ...]:
    """What a store touches, with its rows on lines of their own."""
    sectors, rows = max(1, across // 32), 32 * lane // across
    each, mask = max(1, sectors // 4), (1 << min(4, sectors)) - 1
    return tuple((1000 * number + 10 * r + n, mask) for r in range(rows) for n in range(each))


def stored(lane: int, across: int, model: SmParameters, count: int = 64) -> tuple[float, float]:
    """Cycles of one more store of each of eight warps: until the memory unit takes the next, and until it has left."""
    path = MemoryPath(1, model, Memory(), Outcome())
    for n in range(8 * count):
        path.global_access(n % 4, store(lane), lines_of(lane, across, n), 0.0)
    return path.lsu_free[0] / count, path.store_free[0] / count


def at_work(sms: int) -> SmParameters:
    """The rates while so many SMs store, as ``Rates.sm`` has them."""
    idle = 132 / sms
    return replace(MODEL, store_bytes_cycle=min(MODEL.store_bytes_cycle, MODEL.store_all_bytes_cycle * idle),
                   store_line=max(MODEL.store_line, MODEL.store_all_line / idle))  # fmt: skip


@pytest.mark.parametrize(("lane", "across"), SHAPES)
def test_an_sm_issues_stores_a_sector_a_cycle(lane: int, across: int) -> None:
    taken, left = stored(lane, across, at_work(1))
    assert taken == pytest.approx(measured(lane, across, 1, "issued"), rel=0.13)
    assert left == pytest.approx(measured(lane, across, 1, "fenced"), rel=0.13)


@pytest.mark.parametrize("blocks", [64, 132])
@pytest.mark.parametrize(("lane", "across"), SHAPES)
def test_many_sms_store_lines_of_one_sector_more_slowly(lane: int, across: int, blocks: int) -> None:
    _, left = stored(lane, across, at_work(blocks))
    assert left == pytest.approx(measured(lane, across, blocks, "fenced"), rel=0.17)


def test_a_load_of_shared_memory_waits_behind_stores() -> None:
    """As the shuffles between the stores of an epilogue do, `mma_pipelined` for one."""
    path = MemoryPath(1, MODEL, Memory(), Outcome())
    load = Row(0, Kind.SHARED_LOAD, Unit.MIO, 2, 1, 0, -1, (), 0, 0, 0, 0, 0.0, 4, 4, 0, False, 1, 0, "TEST")
    alone = path.shared_access(0, load, 1, 0.0)
    path = MemoryPath(1, MODEL, Memory(), Outcome())
    for part in (1, 2, 3):
        path.global_access(part, store(16), lines_of(16, 64, part), 0.0)
    assert path.shared_access(0, load, 1, 0.0) - alone == pytest.approx(3 * 16, abs=3)


def test_spills_take_four_sectors_a_cycle() -> None:
    path = MemoryPath(1, MODEL, Memory(), Outcome())
    path.global_access(0, store(16), "local", 0.0)
    assert path.lsu_free[0] == 4


def test_sectors_that_are_written_in_part_leave_one_at_a_time() -> None:
    """Two half sectors on each of 16 lines, as `wmma` stores accumulators, with all SMs at work."""
    path = MemoryPath(1, at_work(132), Memory(), Outcome())
    path.global_access(0, store(16), tuple((line, 0b11) for line in range(16)), 0.0)
    assert path.store_free[0] - path.lsu_free[0] == pytest.approx(32 * 2.5, abs=15)
    path.global_access(1, store(16), lines_of(16, 64, 2), 1000.0)
    assert path.store_free[0] - path.lsu_free[0] == pytest.approx(512 / 19, abs=15)
