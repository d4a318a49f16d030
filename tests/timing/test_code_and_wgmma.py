"""The cycle model on hand-made streams: code that branches fetch, and instructions beside wgmma."""

from __future__ import annotations

import pytest
from test_sm import MODEL, end, ffma, row, run

from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.gpus import gpu_named
from gemmsmith.ladder.registry import rung_named
from gemmsmith.sim.timing.outcome import NO_INSTRUCTION, Outcome
from gemmsmith.sim.timing.streams import Stream
from gemmsmith.sim.timing.table import Kind, Row, Unit
from gemmsmith.sim.timing.waits import far_jumps

ROUNDS = 20


def looped(body: int, warps: int = 1) -> Outcome:
    """A loop of FFMA, with a branch at its end."""
    code = [*(ffma(n) for n in range(body)), row(body, jumps=True, stall=1), end(body + 1)]
    places = (*[*range(body + 1)] * ROUNDS, body + 1)
    streams = [Stream(0, w, places, (None,) * len(places)) for w in range(warps)]
    return run(code, streams=streams)


@pytest.mark.parametrize(("body", "longer"), [(64, 10), (256, 10), (512, 22), (1024, 22)])
def test_the_start_of_a_long_loop_is_fetched_anew(body: int, longer: int) -> None:
    """As measured: a loop whose code is near takes 10 cycles from its branch on, another 22."""
    found = looped(body)
    assert found.cycles / ROUNDS == pytest.approx(body + longer, abs=1.5)
    assert (sum(t[NO_INSTRUCTION] for t in found.stalls.values()) > 0) == (longer == 22)


def test_one_warp_fetches_for_those_of_its_sub_core() -> None:
    alone, both = looped(512, 4), looped(512, 8)
    assert both.cycles == pytest.approx(2 * 512 * ROUNDS, rel=0.03), "while one waits the other issues"
    assert alone.cycles > 1.03 * 512 * ROUNDS


def test_code_ahead_is_fetched_unless_it_follows_what_was_executed() -> None:
    code = [row(n, jumps=n in (10, 100)) for n in (*range(11), 13, *range(100, 101), 400)]
    jumps = far_jumps(code, 384)
    assert [code[at].position for at in jumps] == [100], "instruction 13 is in the line after that of 10"


def test_a_jump_back_to_what_was_just_executed_is_near() -> None:
    code = [row(n, jumps=n == 49) for n in (*range(50), *range(50))]
    assert not far_jumps(code, 384)
    assert far_jumps(code, 40) == {49}


def hgmma(position: int, beside: float) -> Row:
    return row(position, Kind.GMMA, Unit.TENSOR, busy=64, beside=beside)


def beside(kind: Row, slower: float) -> float:
    """Cycles of an instruction of one warp while another of its sub-core has issued products for a long time."""
    products, many = 40, 300
    code = [*(hgmma(n, slower) for n in range(products)), *(kind._replace(position=100 + n) for n in range(many)),
            end(500)]  # fmt: skip
    rows: list[Row | None] = [None] * 501
    for each in code:
        rows[each.position] = each
    multiplies = (*range(products), 500)
    others = (*range(100, 100 + many), 500)
    streams = [Stream(0, w, multiplies if w < 4 else others, (None,) * (len(multiplies if w < 4 else others)))
               for w in range(8)]  # fmt: skip
    found = run(code, streams=streams)
    stalls = sum(sum(found.stalls[100 + n]) for n in range(many))
    return stalls / many / 4


def test_alu_and_fma_are_slower_beside_wgmma() -> None:
    alu = row(0, unit=Unit.ALU, busy=MODEL.alu)
    assert beside(alu, 0.0) == pytest.approx(2, rel=0.1)
    assert beside(alu, MODEL.gmma_alu) == pytest.approx(MODEL.gmma_alu, rel=0.1)
    assert beside(ffma(0), 0.0) == pytest.approx(1, rel=0.1)
    assert beside(ffma(0), MODEL.gmma_alu) == pytest.approx(2, rel=0.1), "one half of the FMA pipe is left"


def test_persistent_blocks_with_many_tiles_are_sampled_with_four() -> None:
    spec, gpu = rung_named("fp32_wgmma_registers"), gpu_named("H200")
    found = Predictor(spec, spec.config(), spec.problem(4096, 4096, 4096), gpu)
    assert (found.rows, found.longer) == (1024, 4.0)  # 2,048 tiles on 132 SMs: 16 each; 512: 4 each
    few = Predictor(spec, spec.config(), spec.problem(1024, 2048, 4096), gpu)
    assert (few.rows, few.longer) == (1024, 1.0)
