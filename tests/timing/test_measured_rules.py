"""Rules of the time model against the micro-benchmarks that they come from."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gemmsmith.gpus import gpu_named
from gemmsmith.sim.sass.reader import read_instruction
from gemmsmith.sim.timing.memory_path import Memory, MemoryPath
from gemmsmith.sim.timing.outcome import Outcome
from gemmsmith.sim.timing.parameters import parameters_of
from gemmsmith.sim.timing.sm import Sm
from gemmsmith.sim.timing.streams import Stream
from gemmsmith.sim.timing.table import (
    Kind,
    Row,
    Unit,
    _latency,
    _number,
    _unit,
    instruction_kind,
    rows_of,
    tensor_flops,
)

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
    i = read_instruction(f"{how} [R2], desc[UR4][R4.64]", 0, 0)
    assert _number(i, instruction_kind(i)) == past


@pytest.mark.parametrize(("ways", "count"), [(8, 8), (8, 16), (32, 4), (32, 8), (32, 16)])
def test_issue_stops_when_as_many_accesses_wait_as_measured(ways: int, count: int) -> None:
    """Four warps on each sub-core, each with so many loads of shared memory that take ``ways`` cycles."""
    measured = next(
        row["issued"] for row in recorded("h200_memory_queue.json") if row["what"] == "shared load"
        and (row["words"], row["ways"], row["cores"], row["warps"], row["count"]) == (1, ways, 4, 4, count)
    )  # fmt: skip
    row = Row(0, Kind.SHARED_LOAD, Unit.MIO, 2, 4, 0, -1, (), 0, 0, 0, 0, 0.0, 4, 4, 0, False, 1, 0, "LDS")
    code = [row._replace(position=n, following=n + 1) for n in range(count)]
    end = Row(count, Kind.EXIT, Unit.NONE, 1, 1, -1, -1, (), 0, 0, 0, 0, 0.0, 0, 0, 0, False, 0, 0, "EXIT")
    streams = [Stream(0, warp, tuple(range(count + 1)), (*[ways] * count, None)) for warp in range(16)]
    assert Sm([*code, end], streams, MODEL.sm, Memory()).run().cycles == pytest.approx(measured, rel=0.03, abs=ways + 8)


@pytest.mark.parametrize(
    ("text", "hold"),
    [
        ("HMMA.16816.F32 R4, R8, R12, R4", 6),
        ("HMMA.16816.F16 R4, R8, R12, R4", 5),
        ("LOP3.LUT R4, R4, R5, R6, 0x3c, !PT", 0),
    ],
)
def test_how_long_a_product_stops_issue(text: str, hold: int) -> None:
    """6.2 cycles a product alone, 8.1 with one LOP3 beside it, which alone takes one (h200_hmma_registers.json)."""
    i = read_instruction(text, 0, 0)
    row = Row(0, Kind.PLAIN, Unit.NONE, 0, 1, -1, -1, (), 3, 3, 3, 3, 0.0, 0, 0, 0, False, 0, 0, i.name)
    program: Any = SimpleNamespace(instructions=[i], fact=lambda _: [row])
    (made,) = rows_of(program, MODEL.sm)
    assert made is not None
    assert made.hold == pytest.approx(hold, abs=0.01)


def products_and_others(beside: int) -> float:
    """Cycles of a sub-core for each product, with so many instructions beside it that read one register."""
    product = Row(0, Kind.PLAIN, Unit.TENSOR, 6.0, 1, -1, -1, (), 3, 3, 3, 3, 0.0, 0, 0, 0, False, 1, 0, "HMMA", 6.0)
    other = product._replace(unit=Unit.ALU, busy=2.0, even=1, odd=0, even_alone=1, odd_alone=0, name="LOP3", hold=0.0)
    end = Row(0, Kind.EXIT, Unit.NONE, 1, 1, -1, -1, (), 0, 0, 0, 0, 0.0, 0, 0, 0, False, 0, 0, "EXIT")
    code = [*[each for _ in range(32) for each in (product, *[other] * beside)], end]
    rows = [row._replace(position=n, following=n + 1) for n, row in enumerate(code)]
    streams = [Stream(0, warp, tuple(range(len(rows))), (None,) * len(rows)) for warp in range(16)]
    return Sm(rows, streams, MODEL.sm, Memory()).run().cycles / 32 / 4


@pytest.mark.parametrize("beside", [0, 1, 2])
def test_products_beside_other_instructions_take_what_was_measured(beside: int) -> None:
    found = [row["cycles"] for row in recorded("h200_hmma_registers.json") if row["sums"] == "fp32"
             and row["what"] in ("nothing", "lop3") and (row["beside"], row["warps"]) == (beside, 16)]  # fmt: skip
    assert products_and_others(beside) == pytest.approx(min(found), rel=0.15)


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
