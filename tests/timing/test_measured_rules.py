"""Rules of the time model against the micro-benchmarks that they come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.gpus import gpu_named
from gemmsmith.sim.sass.reader import read_instruction
from gemmsmith.sim.timing.memory_path import Memory, MemoryPath
from gemmsmith.sim.timing.outcome import Outcome
from gemmsmith.sim.timing.parameters import parameters_of
from gemmsmith.sim.timing.sm import Sm
from gemmsmith.sim.timing.streams import Stream
from gemmsmith.sim.timing.table import Kind, Row, Unit, _latency, _unit, instruction_kind, tensor_flops

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
MODEL = parameters_of(gpu_named("H200"))


def recorded(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((RESULTS / name).read_text(encoding="utf-8"))["rows"]
    return rows


@pytest.mark.parametrize("shape", ["8x8x4", "16x8x4", "16x8x8", "16x8x16"])
def test_products_of_doubles_take_what_was_measured(shape: str) -> None:
    rows = [row for row in recorded("h200_dmma.json") if row["shape"] == shape and not row["dfma"]]
    rate = next(row["each"] for row in rows if row["chains"] == 8 and row["warps"] == 16)
    alone = next(row["cycles"] for row in rows if row["chains"] == 1 and row["warps"] == 1)
    i = read_instruction(f"DMMA.{shape} R4, R8, R12, R4", 0, 0)
    kind = instruction_kind(i)
    unit, cycles = _unit(i, kind, MODEL.sm)
    assert unit is Unit.FP64
    assert cycles == pytest.approx(rate, rel=0.02)
    assert _latency(i, kind, MODEL.sm) + 4 == pytest.approx(alone, abs=1.5), "4 for its scoreboard"
    m, n, k = (int(extent) for extent in shape.split("x"))
    assert tensor_flops(i) == 2 * m * n * k


def cycles_of(payload: Any, loads: int = 64) -> float:
    """Cycles of an SM for one load of four bytes by its only warp, after so many of them."""
    row = Row(0, Kind.GLOBAL_LOAD, Unit.MIO, 2, 2, 0, -1, (), 0, 0, 0, 0, 0.0, 4, 8, 0, False, 1, 0, "LD")
    code = [row._replace(position=n, following=n + 1) for n in range(loads)]
    end = Row(loads, Kind.EXIT, Unit.NONE, 1, 1, -1, -1, (0,), 0, 0, 0, 0, 0.0, 0, 0, 0, False, 0, 0, "EXIT")
    stream = Stream(0, 0, tuple(range(loads + 1)), (*[payload] * loads, None))
    return Sm([*code, end], [stream], MODEL.sm, Memory()).run().cycles / loads


def test_a_load_of_shared_memory_by_a_generic_address_takes_its_wavefronts() -> None:
    """And no lines of L1, of which it touches none: the payload of such an access is their number."""
    out = [data_cycles_generic(waves) for waves in (1, 2, 8)]
    assert out == [1, 2, 8]
    assert cycles_of(8) == pytest.approx(8, rel=0.1)
    assert cycles_of(1) < 5, "as long as its addresses take"


def data_cycles_generic(waves: int) -> float:
    path = MemoryPath(1, MODEL.sm, Memory(), Outcome())
    row = Row(0, Kind.GLOBAL_LOAD, Unit.MIO, 2, 1, 0, -1, (), 0, 0, 0, 0, 0.0, 4, 8, 0, False, 1, 0, "LD")
    path.generic_access(0, row, waves, 0.0)
    return path.out.data_cycles
