"""Rules of the time model against the micro-benchmarks that they come from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.gpus import gpu_named
from gemmsmith.ladder.registry import rung_named
from gemmsmith.sim.sass.reader import read_instruction
from gemmsmith.sim.timing.memory_path import Memory, MemoryPath
from gemmsmith.sim.timing.outcome import Outcome
from gemmsmith.sim.timing.parameters import SmParameters, parameters_of
from gemmsmith.sim.timing.sm import Sm
from gemmsmith.sim.timing.streams import Stream
from gemmsmith.sim.timing.table import (
    Kind,
    Row,
    Unit,
    _latency,
    _unit,
    instruction_kind,
    rows_of,
    stall_of,
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


def cycles_beside_wgmma(model: SmParameters, others: int, products: int = 64) -> float:
    """Cycles of an SM until one warp of each sub-core has executed so many FADD, and another its products."""
    code = [
        Row(0, Kind.GMMA, Unit.TENSOR, 32.0, 1, -1, -1, (), 0, 0, 0, 0, 0.0, 0, 0, 0, False, 1, 0, "HGMMA"),
        Row(1, Kind.PLAIN, Unit.FMA, 2.0, 1, -1, -1, (), 1, 1, 1, 1, 0.0, 0, 0, 0, False, 2, 0, "FADD"),
        Row(2, Kind.EXIT, Unit.NONE, 0.0, 1, -1, -1, (), 0, 0, 0, 0, 0.0, 0, 0, 0, False, 3, 0, "EXIT"),
    ]
    streams = []
    for w in range(8):
        positions = ((0,) * products if w < 4 else (1,) * others) + (2,)
        streams.append(Stream(0, w, positions, (None,) * len(positions)))
    return Sm(code, streams, model, Memory()).run().cycles


def test_beside_wgmma_half_of_the_fma_pipe_is_left() -> None:
    """FADD that end after the products: those beside them take twice as long as those after."""
    rows = [row["cycles"] for row in recorded("h200_wgmma_columns.json")
            if row["kind"] == "FADD 2" and row["n"] == 0]  # fmt: skip
    alone = rows[0]
    products, others = 64, 2000
    during = 32 * products
    expected = during + (others - during / 2) * alone
    assert cycles_beside_wgmma(MODEL.sm, others, products) == pytest.approx(expected, rel=0.06)
    whole = cycles_beside_wgmma(replace(MODEL.sm, gmma_fma_halves=2), others, products)
    assert whole > 1.2 * expected, "with both halves FADD leave no cycle in which a product could be issued"


def issued_by_one_warp(*texts: str, times: int = 60) -> float:
    """Cycles of one warp that issues these instructions in turn, each as soon as its unit can take it."""
    made = [read_instruction(text, 0, 0) for text in texts]
    code = []
    for n in range(times * len(made)):
        i = made[n % len(made)]
        kind = instruction_kind(i)
        unit, busy = _unit(i, kind, MODEL.sm)
        code.append(Row(n, kind, unit, busy, 1, -1, -1, (), 0, 0, 0, 0, 0.0, 0, 0, 0, False, n + 1, 0, i.opcode))
    code.append(code[0]._replace(position=len(code), kind=Kind.EXIT, unit=Unit.NONE, busy=1))
    places = tuple(row.position for row in code)
    return Sm(code, [Stream(0, 0, places, (None,) * len(code))], MODEL.sm, Memory()).run().cycles / times


@pytest.mark.parametrize(
    ("what", "texts", "products"),
    [
        ("tile", ("HFMA2 R4, R8.H0_H0, R9, R4",), 1),
        ("chain", ("HFMA2 R4, R4, R8, R9", "HFMA2.MMA R5, R5, R8, R9"), 2),
        ("sums", ("HADD2 R4, R4, R8", "HFMA2.MMA R5, R5, R8, R9"), 2),
        ("scale", ("HMUL2 R4, R4, R8", "HFMA2.MMA R5, R5, R8, -RZ"), 2),
        ("mixed", ("HFMA2 R4, R8.H0_H0, R9, R4", "FFMA R5, R10, R11, R5"), 1),
    ],
    ids=["tile", "chain", "sums", "scale", "mixed"],
)
def test_products_of_pairs_issue_as_measured(what: str, texts: tuple[str, ...], products: int) -> None:
    """The benchmark has register banks and a loop besides, a tenth and more of its cycles."""
    rows = [row for row in recorded("h200_half_products.json") if row["what"] == what]
    measured = next(row["cycles"] for row in rows if row["warps"] == 16)
    assert issued_by_one_warp(*texts) / products == pytest.approx(measured, rel=0.13)


def test_a_product_of_pairs_waits_for_both_halves_of_the_fma_pipe() -> None:
    """As two FFMA take one half each, and it takes both (``mixed``): 4 cycles with one FFMA, 5 with two."""
    pair, single = "HADD2 R4, R4, R8", "FFMA R5, R10, R11, R5"
    assert issued_by_one_warp(pair, single) == pytest.approx(4, abs=0.1)
    assert issued_by_one_warp(pair, single, single) == pytest.approx(5, abs=0.1)
    assert issued_by_one_warp(pair, pair, single, single) == pytest.approx(7, abs=0.1)


def launches(kernel: str, pdl: bool) -> list[dict[str, Any]]:
    """Products of a rung with cold operands, with PDL or without."""
    record = json.loads((RESULTS / "h200_dependent_launches.json").read_text(encoding="utf-8"))
    return [row for row in record["products"] if (row["kernel"], row["pdl"], row["cold"]) == (kernel, pdl, True)]


def test_a_dependent_launch_goes_on_as_soon_after_the_one_before_it_as_measured() -> None:
    for kernel in ("fp32_wgmma_registers", "fp32_wgmma_bf16x6"):
        for row in launches(kernel, pdl=True):
            before, after = row["launches"]
            assert (after["waited"][0] - before["end"][2]) / 1e3 == pytest.approx(MODEL.dependent_us, abs=0.06)


def test_launches_before_a_kernel_take_what_was_measured() -> None:
    for row in launches("fp32_tensor_fp16x3", pdl=True):
        spec = rung_named(row["kernel"])
        predictor = Predictor(spec, spec.config(), spec.problem(row["m"], row["n"], row["k"]), gpu_named("H200"))
        clear, split = (predictor._prologue(each, 1980.0).us for each in predictor.plan.prologue)
        *_, last, returned, kernel = row["launches"]
        measured = row["stamped_us"] + last["end"][2] / 1e3
        assert clear + split == pytest.approx(measured, rel=0.05)
        gap = MODEL.launch_us + MODEL.drain_us
        assert MODEL.returned_us + gap == pytest.approx((kernel["begin"][0] - last["end"][2]) / 1e3, rel=0.08)
        assert returned["kernel"] == "fp32_tensor_bf16x6"


def bulk_copies(size: int, warps: int, busy: int = 1) -> float:
    """Cycles of an SM for one bulk copy, issued by every lane of so many warps."""
    given = {"size": size, "warps": warps, "busy": busy, "lanes": 32, "apart": 0, "same": 0}
    rows = [row for row in recorded("h200_bulk_copies.json") if given.items() <= row.items()]
    return float(rows[0]["cycles"])


@pytest.mark.parametrize("size", [16, 128, 512])
def test_a_warp_whose_lanes_copy_in_turn_takes_what_was_measured(size: int) -> None:
    counts = {"ELECT P2, URZ, PT": 13, "R2UR UR10, R18": 2, "R2UR UR11, R19": 2, "R2UR UR12, R16": 2,
              "PLOP3.LUT P0, PT, P2, PT, PT, 0x8, 0x0": 2, "PLOP3.LUT P2, PT, PT, PT, PT, 0x8, 0x0": 9,
              "UBLKCP.S.G [UR12], [UR10], UR8": 2, "BRA.U.ANY `(.L_x_4)": 5}  # fmt: skip
    loop = sum(stall_of(read_instruction(text, 0, 0), count, MODEL.sm) for text, count in counts.items())
    assert loop == pytest.approx(bulk_copies(size, warps=1), rel=0.02)


@pytest.mark.parametrize("banks", [2, 0])
def test_rows_have_their_costs_with_and_without_register_banks(banks: int) -> None:
    texts = ("BRA.U.ANY `(.L_x_4)", "HMMA.16816.F32 R4, R8, R12, R4")
    made = [read_instruction(text, 0, 0) for text in texts]
    costs = (Unit.NONE, 1, 5, -1, -1, (), 2, 1, 2, 1, 0.0, 0, 0, 0, False, 0, 0)
    plain = [Row(n, instruction_kind(i), *costs, i.opcode) for n, i in enumerate(made)]
    program: Any = SimpleNamespace(instructions=made, fact=lambda _: plain)
    branch, product = rows_of(program, replace(MODEL.sm, register_banks=banks))
    assert branch is not None
    assert product is not None
    assert (branch.stall, product.stall) == (MODEL.sm.branch_any, 5)
    assert product.hold > 0 == branch.hold
    assert (product.even, product.odd_alone) == ((2, 1) if banks else (0, 0))


@pytest.mark.parametrize("size", [16, 128, 2048, 4096])
def test_bulk_copies_follow_one_another_as_measured(size: int) -> None:
    """Of eight warps: by their number up to 512 bytes, by their bytes from 2 KB on."""
    path = MemoryPath(1, replace(MODEL.sm, l2_tma_bytes_cycle=MODEL.sm.tma_bytes_cycle), Memory(), Outcome())
    for _ in range(100):
        path.tma(0, ("bulk", (64,), size, (0,)), 0.0)
    last = max(when for when, *_ in path.events)
    first = min(when for when, *_ in path.events)
    assert (last - first) / 99 == pytest.approx(bulk_copies(size, warps=8), rel=0.02)


def burst(segment: int, kilobytes: int, cold: bool) -> float:
    """When the last line of a burst arrives that eight warps load, 16 bytes a lane, ``segment`` bytes of each row."""
    path = MemoryPath(1, replace(MODEL.sm, l2_bytes_cycle=MODEL.sm.l2_same_bytes_cycle), Memory(cold), Outcome())
    row = Row(0, Kind.GLOBAL_LOAD, Unit.MIO, 2, 1, 0, -1, (), 0, 0, 0, 0, 0.0, 8, 16, 0, False, 1, 0, "TEST")
    rows, last = 512 // segment, 0.0
    for n in range(2 * kilobytes):
        touched = []
        for r in range(rows):
            count = max(1, segment // 128)
            touched += [(16 * (n * rows + r) + i, (1 << min(4, segment // 32)) - 1) for i in range(count)]
        last = max(last, path.global_access(n % 4, row, tuple(touched), 2.0 * (n // 4)))
    return last


@pytest.mark.parametrize("segment", [64, 128])
@pytest.mark.parametrize("kilobytes", [4, 16])
def test_a_burst_from_dram_takes_what_was_measured(segment: int, kilobytes: int) -> None:
    """Twelve blocks read the same, all SMs at work; about 40 cycles are the barrier and the clock.

    Rows of 512 bytes come 13 to 22 % sooner than in the model, in which their lines are as different as others.
    """
    rows = [row for row in recorded("h200_fetch_bursts.json") if row["what"] == "burst" and row["blocks"] == 132]
    found = [row["cycles"] for row in rows if row["sharers"] == 12 and row["segment"] == segment and row["cold"]
             and row["kilobytes"] == kilobytes]  # fmt: skip
    assert found
    assert burst(segment, kilobytes, True) + 40 == pytest.approx(sum(found) / len(found), rel=0.12)


def test_dram_gives_two_sectors_at_a_time() -> None:
    path = MemoryPath(1, MODEL.sm, Memory(cold=True), Outcome())
    near = [path._fetched_before(line, sectors) for line, sectors in ((7, 1), (7, 2), (7, 4), (7, 12), (7, 15), (8, 2))]
    assert near == [False, True, False, True, True, False]
    assert not MemoryPath(1, MODEL.sm, Memory(), Outcome())._fetched_before(7, 1), "nothing is cold"


def test_lines_of_dram_take_different_times_and_380_cycles_on_average() -> None:
    def latency(line: int, cold: bool) -> float:
        return MemoryPath(1, MODEL.sm, Memory(cold), Outcome())._from_l2(0, 32, 0.0, line)

    late = [latency(line, True) - latency(line, False) for line in range(1000)]
    assert sum(late) / len(late) == pytest.approx(MODEL.sm.dram_latency, abs=10)
    assert max(late) - min(late) == pytest.approx(2 * MODEL.sm.dram_spread, rel=0.02)
