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


def data_cycles(kind: Kind, payload: Any, number: int = 0) -> float:
    """Cycles of the data stage that an access takes in all."""
    path = MemoryPath(1, MODEL.sm, Memory(), Outcome())
    row = Row(0, kind, Unit.MIO, 2, 1, 0, -1, (), 0, 0, 0, 0, 0.0, 16, 12, number, False, 1, 0, "TEST")
    access = path.copy if kind is Kind.COPY else path.global_access
    access(0, row, payload, 0.0)
    return path.out.data_cycles + sum(amount for _, _, place, amount in path.events if place < 0)


def lines(count: int) -> tuple[tuple[int, int], ...]:
    """512 bytes in so many lines."""
    return tuple((line, {4: 15, 8: 3, 16: 1}[count]) for line in range(count))


@pytest.mark.parametrize(("width", "count"), [(128, 4), (64, 8), (32, 16)])
def test_a_copy_takes_the_data_stage_as_measured(width: int, count: int) -> None:
    """Whatever its wavefronts are in ncu, here 99."""
    found = [row for row in recorded("h200_copy_patterns.json") if row.get("from") == width and row["beside"]]
    past, through = (data_cycles(Kind.COPY, (lines(count), 99), number) for number in (1, 0))
    assert found
    for row in found:
        if row["to"] != "padded" or width > 32:  # 32 bytes to padded rows take 6.5, not 9.4
            assert past == pytest.approx(row["cg"], abs=0.15), row
        assert through == pytest.approx(row["ca"], abs=0.15), row


@pytest.mark.parametrize(("how", "past"), [("LDGSTS.E.BYPASS.128", 1), ("LDGSTS.E.128", 0)])
def test_whether_a_copy_goes_past_l1_is_read_from_its_name(how: str, past: int) -> None:
    from gemmsmith.sim.timing.table import _number

    i = read_instruction(f"{how} [R2], desc[UR4][R4.64]", 0, 0)
    assert _number(i, instruction_kind(i)) == past


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


def cycles_beside_products(others: int, hold: float) -> float:
    """Cycles of a sub-core for a product and so many FFMA after it, four warps that do nothing else."""
    code = [
        Row(0, Kind.PLAIN, Unit.TENSOR, 6.0, 1, -1, -1, (), 3, 3, 3, 3, 0.0, 0, 0, 0, False, 1, 0, "HMMA", hold),
        Row(1, Kind.PLAIN, Unit.FMA, 2.0, 1, -1, -1, (), 1, 1, 1, 1, 0.0, 0, 0, 0, False, 2, 0, "FFMA"),
        Row(2, Kind.EXIT, Unit.NONE, 0.0, 1, -1, -1, (), 0, 0, 0, 0, 0.0, 0, 0, 0, False, 3, 0, "EXIT"),
    ]
    times, warps = 64, 16
    positions = (0, *(1,) * others) * times + (2,)
    streams = [Stream(0, w, positions, (None,) * len(positions)) for w in range(warps)]
    return Sm(code, streams, MODEL.sm, Memory()).run().cycles / times / (warps / 4)


@pytest.mark.parametrize(("sums", "others"), [("fp32", 2), ("fp32", 4), ("fp16", 2), ("fp16", 4)])
def test_a_product_holds_dispatch_as_measured(sums: str, others: int) -> None:
    found = [row["cycles"] for row in recorded("h200_hmma_registers.json") if row["what"] == "ffma"
             and (row["sums"], row["beside"], row["warps"]) == (sums, others, 16)]  # fmt: skip
    assert found
    with_it, without = (cycles_beside_products(others, hold) for hold in (MODEL.sm.mma_dispatch - (sums == "fp16"), 0))
    for one in found:
        assert with_it == pytest.approx(one, rel=0.2)
        assert without < 0.8 * one
