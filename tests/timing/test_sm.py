"""The cycle model on hand-made streams whose cycles are known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gemmsmith.errors import SimulationError
from gemmsmith.sim.timing.memory_path import Memory
from gemmsmith.sim.timing.outcome import BARRIER, DISPATCH, LONG, MATH, MEMBAR, NOT_SELECTED, REASONS, Outcome
from gemmsmith.sim.timing.parameters import SmParameters
from gemmsmith.sim.timing.sm import Sm
from gemmsmith.sim.timing.streams import Stream
from gemmsmith.sim.timing.table import Kind, Row, Unit

MODEL = SmParameters()


def row(position: int, kind: Kind = Kind.PLAIN, unit: Unit = Unit.NONE, **given: object) -> Row:
    """An instruction that issues and does nothing, but for what is given."""
    plain = Row(position, kind, unit, 1, 1, -1, -1, (), 0, 0, 0, 0, 0.0, 0, 0, 0, False, position + 1, 0, "TEST")
    return plain._replace(**given)  # type: ignore[arg-type]


def ffma(position: int, stall: int = 1, even: int = 0, odd: int = 0) -> Row:
    return row(position, unit=Unit.FMA, busy=MODEL.fma, stall=stall, even=even, odd=odd, even_alone=even, odd_alone=odd)


def lds(position: int, board: int = 0, **given: object) -> Row:
    return row(position, Kind.SHARED_LOAD, Unit.MIO, busy=2, write=board, result_bytes=4, operand_bytes=4, **given)


def end(position: int, **given: object) -> Row:
    return row(position, Kind.EXIT, **given)


def run(
    code: list[Row], warps: int = 1, payloads: dict[int, object] | None = None, model: SmParameters = MODEL,
    memory: Memory | None = None, streams: list[Stream] | None = None,
) -> Outcome:  # fmt: skip
    paid = tuple((payloads or {}).get(each.position) for each in code)
    places = tuple(each.position for each in code)
    rows: list[Row | None] = [None] * (max(places) + 1)
    for each in code:
        rows[each.position] = each
    made = streams or [Stream(0, w, places, paid) for w in range(warps)]
    return Sm(rows, made, model, memory or Memory()).run()


def test_a_chain_takes_its_latency_for_each_instruction() -> None:
    found = run([*(ffma(n, stall=4) for n in range(100)), end(100)])
    assert found.cycles == pytest.approx(4 * 100 + 1, abs=2)


def test_independent_multiply_adds_issue_one_a_cycle_and_sub_core() -> None:
    found = run([*(ffma(n) for n in range(200)), end(200)], warps=8)  # two warps on each sub-core
    assert found.cycles == pytest.approx(2 * 200, rel=0.02)
    assert found.busy["FMA pipe"] > 0.97


def test_half_the_lanes_take_twice_as_long() -> None:
    code = [*(ffma(n) for n in range(200)), end(200)]
    found = run(code, warps=4, model=replace(MODEL, fma_halves=1))
    assert found.cycles == pytest.approx(2 * 200, rel=0.02)
    assert sum(t[MATH] for t in found.stalls.values()) > 0


def test_reads_from_one_register_bank_stop_issue() -> None:
    spread = run([*(ffma(n, even=1, odd=1) for n in range(100)), end(100)])
    clashing = run([*(ffma(n, even=2) for n in range(100)), end(100)])
    taking_turns = run([*(ffma(n, even=2 * (n % 2), odd=2 * (1 - n % 2)) for n in range(100)), end(100)])
    assert spread.cycles == pytest.approx(100, abs=3)
    assert clashing.cycles == pytest.approx(200, abs=4)
    assert taking_turns.cycles == pytest.approx(100, abs=5), "each bank has two cycles for two reads"


@pytest.mark.parametrize(("waves", "width", "latency"), [(1, 4, 23), (2, 8, 26), (4, 16, 32)])
def test_the_latency_of_shared_loads_is_the_measured_one(waves: int, width: int, latency: int) -> None:
    code = [lds(n, wait=(0,) if n else ()) for n in range(50)]
    code = [each._replace(result_bytes=width) for each in code] + [end(50, wait=(0,))]
    found = run(code, payloads=dict.fromkeys(range(50), waves))
    assert found.cycles / 50 == pytest.approx(latency, abs=1)


def test_bank_conflicts_bound_shared_loads() -> None:
    code = [*(lds(n) for n in range(40)), end(40, wait=(0,))]
    conflicting = run(code, warps=8, payloads=dict.fromkeys(range(40), 8))
    assert conflicting.cycles == pytest.approx(8 * 8 * 40, rel=0.05)
    without = run(code, warps=8, payloads=dict.fromkeys(range(40), 8), memory=Memory(conflicts=False))
    assert without.cycles == pytest.approx(8 * 40, rel=0.15)
    assert conflicting.busy["shared memory and L1"] > 0.95


def test_operands_of_the_reuse_cache_are_lost_to_another_warp() -> None:
    kept = [ffma(n, stall=4)._replace(even_alone=3) for n in range(100)]
    alone, pair = run([*kept, end(100)], warps=4), run([*kept, end(100)], warps=8)
    assert alone.cycles == pytest.approx(400, abs=8), "one warp on each sub-core: its operands stay"
    assert pair.cycles == pytest.approx(3 * 200, rel=0.05), "two take turns: every operand is read again"


def test_a_warp_that_could_issue_waits_for_others_or_for_register_banks() -> None:
    plain = run([*(ffma(n) for n in range(100)), end(100)], warps=8)
    total = [sum(tally[n] for tally in plain.stalls.values()) for n in range(len(REASONS))]
    assert total[NOT_SELECTED] == pytest.approx(4 * 100, rel=0.05), "the second warp, while the first issues"
    assert total[DISPATCH] == total[MATH] == 0
    banks = run([*(ffma(n, even=3) for n in range(100)), end(100)], warps=4)
    total = [sum(tally[n] for tally in banks.stalls.values()) for n in range(len(REASONS))]
    assert total[DISPATCH] == pytest.approx(4 * 2 * 100, rel=0.05), "two of three cycles, on each sub-core"
    assert total[NOT_SELECTED] == 0


def test_a_fence_beyond_the_block_waits_for_l2() -> None:
    fence = row(0, Kind.FENCE)
    gpu, block = run([fence._replace(number=1), end(1)]), run([fence, end(1)])
    assert gpu.cycles == pytest.approx(MODEL.fence, abs=4)
    assert gpu.stalls[1][MEMBAR] == pytest.approx(MODEL.fence, abs=4)
    assert block.cycles < 30


def test_a_fence_waits_until_stores_before_it_have_gone_out() -> None:
    store = row(0, Kind.GLOBAL_STORE, Unit.MIO, busy=2, operand_bytes=24)
    lines = tuple((line, 15) for line in range(4))  # 512 bytes
    stores = [store._replace(position=n) for n in range(100)]
    code = [*stores, row(100, Kind.FENCE, number=1), end(101)]
    slower = replace(MODEL, store_bytes_cycle=16.0)  # many SMs at work: they leave half as fast as they are issued
    found = run(code, payloads=dict.fromkeys(range(100), lines), model=slower)
    out = 100 * 512 / slower.store_bytes_cycle
    assert out > 2 * MODEL.fence
    assert found.cycles == pytest.approx(out + MODEL.l2_latency, rel=0.05)


def test_what_other_blocks_send_is_there_when_they_have_sent_it() -> None:
    load = row(0, Kind.GLOBAL_LOAD, Unit.MIO, busy=2, write=1, result_bytes=4, operand_bytes=8)
    code, payload = [load, end(1, wait=(1,))], {0: ((7, 15),)}
    late = run(code, payloads=payload, memory=Memory(cold=True, near=(7, 7), near_from=5000.0))
    early = run(code, payloads=payload, memory=Memory(cold=True, near=(7, 7)))
    other = run(code, payloads=payload, memory=Memory(cold=True, near=(8, 8), near_from=5000.0))
    assert late.cycles == pytest.approx(5000 + MODEL.l2_latency, rel=0.02)
    assert early.cycles == pytest.approx(other.cycles - MODEL.dram_latency, abs=10), "it is in L2, not in DRAM"


def test_a_barrier_waits_for_the_slowest_warp() -> None:
    bar = row(90, Kind.BARRIER)
    slow = [*(ffma(n, stall=10) for n in range(50)), bar, end(91)]
    rows: list[Row | None] = [None] * 92
    for each in slow:
        rows[each.position] = each
    streams = [Stream(0, 0, tuple(r.position for r in slow), (None,) * len(slow)), Stream(0, 1, (90, 91), (None, None))]
    found = Sm(rows, streams, MODEL, Memory()).run()
    assert found.cycles == pytest.approx(500 + MODEL.barrier + MODEL.barrier_warp, abs=4)
    assert found.stalls[91][BARRIER] == pytest.approx(500, rel=0.1), "the warp that came first waited"


def test_a_miss_takes_the_way_to_l2_and_a_cold_one_that_to_dram() -> None:
    load = row(0, Kind.GLOBAL_LOAD, Unit.MIO, busy=2, write=1, result_bytes=4, operand_bytes=8)
    code = [load, load._replace(position=1, wait=(1,)), end(2, wait=(1,))]
    same = {0: ((7, 15),), 1: ((7, 15),)}
    other = {0: ((7, 15),), 1: ((8, 15),)}
    hit, miss = run(code, payloads=same), run(code, payloads=other)
    cold = run(code, payloads=other, memory=Memory(cold=True), model=replace(MODEL, dram_spread=0.0))
    assert miss.cycles - hit.cycles == pytest.approx(MODEL.l2_latency, abs=8)
    assert cold.cycles - miss.cycles == pytest.approx(2 * MODEL.dram_latency, abs=16)
    assert miss.stalls[2][LONG] > 0.9 * MODEL.l2_latency
    assert (hit.l2_bytes, miss.l2_bytes) == (128, 256)


def test_a_scattered_load_takes_a_cycle_for_each_line() -> None:
    load = row(0, Kind.GLOBAL_LOAD, Unit.MIO, busy=2, write=1, result_bytes=4, operand_bytes=8)
    lines = tuple((n, 1) for n in range(32))
    code = [*(load._replace(position=n) for n in range(60)), end(60, wait=(1,))]
    found = run(code, warps=4, payloads=dict.fromkeys(range(60), lines))
    assert found.cycles == pytest.approx(32 * 4 * 60, rel=0.1)
    assert found.busy["L1 tags"] > 0.9


def test_copies_are_waited_for_by_group() -> None:
    copy = row(0, Kind.COPY, Unit.MIO, busy=2, operand_bytes=12)
    commit, wait = row(1, Kind.COMMIT), row(2, Kind.COPY_WAIT)
    code = [copy, commit, wait, end(3)]
    payload = {0: (((1, 15),), 4)}
    one_left = run([copy, commit, wait._replace(number=1), end(3)], payloads=payload)
    none_left = run(code, payloads=payload)
    assert one_left.cycles < 20
    assert none_left.cycles > MODEL.l2_latency


def test_wgmma_goes_at_its_rate_and_ends_after_its_latency() -> None:
    product = row(0, Kind.GMMA, Unit.TENSOR, busy=64)
    code = [*(product._replace(position=n, number=int(n == 15)) for n in range(16)), row(16, Kind.GMMA_WAIT), end(17)]
    found = run(code, warps=4)
    assert found.cycles == pytest.approx(16 * 64 + MODEL.gmma_latency, rel=0.03)


def test_tma_completes_the_phase_that_a_warp_waits_for() -> None:
    init = row(0, Kind.SYNCS)
    arrive, load, wait = row(1, Kind.SYNCS), row(2, Kind.TMA), row(3, Kind.SYNCS, write=0)
    code = [init, arrive, load, wait, end(4, wait=(0,))]
    arrived, loaded = ("arrive", ((64, 1),), 4096), ("tma", (64,), 4096, (0, 0))
    paid = {0: ("init", 64, 1), 1: arrived, 2: loaded, 3: ("wait", 64, 0, True)}
    found = run(code, payloads=paid)
    assert found.cycles == pytest.approx(MODEL.l2_latency + MODEL.tma_latency + 4096 / MODEL.l2_bytes_cycle, rel=0.15)


def test_warps_that_wait_for_each_other_for_ever_are_reported() -> None:
    code = [row(0, Kind.SYNCS), row(1, Kind.SYNCS, write=0), end(2, wait=(0,))]
    with pytest.raises(SimulationError, match="no warp that can go on"):
        run(code, payloads={0: ("init", 64, 1), 1: ("wait", 64, 0, True)})


def test_the_time_of_a_warp_is_accounted_for() -> None:
    found = run([*(lds(n, wait=(0,)) for n in range(20)), end(20, wait=(0,))], payloads=dict.fromkeys(range(20), 1))
    total = sum(sum(tally) for tally in found.stalls.values())
    assert total == pytest.approx(found.cycles, abs=3)
    assert len(REASONS) == len(next(iter(found.stalls.values())))


def test_stores_by_tma_go_out_at_their_own_rate() -> None:
    """A wait for their groups lasts until the last has been read, which is as it goes out."""
    stores = [row(n, Kind.TMA) for n in range(4)]
    code = [*stores, row(4, Kind.COMMIT), row(5, Kind.COPY_WAIT), end(6)]
    paid: dict[int, object] = dict.fromkeys(range(4), ("store", 8192))
    assert run(code, payloads=paid).cycles == pytest.approx(4 * 8192 / 32 + MODEL.tma_store_latency, rel=0.02)
    slower = run(code, payloads=paid, model=replace(MODEL, tma_store_bytes_cycle=16.0))
    assert slower.cycles == pytest.approx(4 * 8192 / 16 + MODEL.tma_store_latency, rel=0.02)
