"""GPUs that are not the H200: what their SMs share of DRAM and L2, and published measurements of their SM."""

from __future__ import annotations

import math

import pytest

from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.explain.timing.prediction import Changes
from gemmsmith.gpus import gpu_named
from gemmsmith.ladder.registry import rung_named
from gemmsmith.sim.timing.memory_path import Memory
from gemmsmith.sim.timing.parameters import SmParameters, parameters_of
from gemmsmith.sim.timing.streams import Stream
from gemmsmith.sim.timing.table import Kind, Row, Unit
from gemmsmith.sim.timing.watched import WatchedSm

A6000 = parameters_of(gpu_named("RTX A6000")).sm


def predictor(rung: str, size: int, gpu: str) -> Predictor:
    spec = rung_named(rung)
    return Predictor(spec, spec.config(), spec.problem(size, size, size), gpu_named(gpu))


def bus(gpu: str) -> float:
    """Bytes a cycle that an SM gets of DRAM if all take as much."""
    found = gpu_named(gpu)
    return found.dram_gbs * parameters_of(found).dram_share * 1e3 / (found.sms * found.boost_mhz)


def test_a_row_that_all_blocks_read_crosses_the_bus_of_dram_once() -> None:
    """An SM of an RTX 4090 has 2.9 bytes a cycle of it. Blocks of 32 x 32 that run together share a row of A, and L2
    keeps B, so DRAM gives 1 of 256 bytes; where L2 is too small for B (A6000), half of them."""
    much = predictor("shared_tile", 4096, "RTX 4090")
    assert much.resident == 1
    assert 1 / 256 < much.rates.from_dram(1) < 1 / 100, "the first round reads B as well"
    assert much.rates.sm(1, apart=False).dram_sm_bytes_cycle == much.model.sm.dram_sm_bytes_cycle
    small = predictor("shared_tile", 4096, "RTX A6000")
    assert small.rates.from_dram(1) == pytest.approx(0.5, abs=0.05)
    assert small.rates.sm(1, apart=False).dram_sm_bytes_cycle == pytest.approx(2 * bus("RTX A6000"), rel=0.1)


def test_blocks_that_read_a_new_row_wait_for_dram_but_do_not_fill_its_bus() -> None:
    found = predictor("shared_tile", 4096, "RTX 4090")
    assert 1.0 < found.predict().us / found.predict(Changes(cold=False)).us < 1.2


@pytest.mark.parametrize(("size", "blocks"), [(128, 1), (512, 16)])
def test_sms_without_work_leave_dram_and_l2_to_the_others(size: int, blocks: int) -> None:
    found = predictor("warp_tile", size, "RTX 4090")
    assert found.blocks == blocks
    sm = found.rates.sm(1, apart=False)
    most = bus("RTX 4090") * 128 / blocks / found.rates.from_dram(1)
    assert sm.dram_sm_bytes_cycle == pytest.approx(min(found.model.sm.dram_sm_bytes_cycle, most))
    assert sm.dram_sm_bytes_cycle > 10 * bus("RTX 4090")
    assert sm.l2_bytes_cycle == found.model.sm.l2_alone_bytes_cycle


def test_l2_that_is_not_two_halves_keeps_more() -> None:
    shares = {name: parameters_of(gpu_named(name)).l2_kept for name in ("H200", "A100", "RTX A6000", "RTX 4090")}
    assert shares == {"H200": 0.25, "A100": 0.25, "RTX A6000": 0.5, "RTX 4090": 0.5}
    later = predictor("padded", 2048, "RTX 4090")
    assert later._warm(), "34 of 75 MB"


def loads(count: int, width: int, sub_cores: int, model: SmParameters, chained: bool = False) -> list[list[float]]:
    """When each of several loads of shared memory issues, on so many sub-cores, each with a warp.

    ``chained``: each waits for the one before.
    """
    code: list[Row | None] = [
        Row(n, Kind.SHARED_LOAD, Unit.MIO, model.mio_issue, 1, 0, -1, (0,) if chained and n else (), 0, 0, 0, 0, 0.0,
            width, 4, 0, False, n + 1, 0, "LDS")
        for n in range(count)
    ]  # fmt: skip
    code.append(Row(count, Kind.EXIT, Unit.NONE, 1, 1, -1, -1, (0,), 0, 0, 0, 0, 0.0, 0, 0, 0, False, 0, 0, "EXIT"))
    waves = math.ceil(width / 4)
    streams = [Stream(0, w, tuple(range(count + 1)), (*[waves] * count, None)) for w in range(sub_cores)]
    sm = WatchedSm(code, streams, model, Memory())
    sm.run()
    found: list[list[float]] = [[] for _ in streams]
    for issued in sm.log:
        if issued.row.position < count:
            found[issued.warp].append(issued.at)
    return found


@pytest.mark.parametrize(("width", "cycles"), [(4, 24), (8, 24), (16, 26)])
def test_a_shared_load_of_ga102_takes_what_was_published(width: int, cycles: int) -> None:
    """arXiv 2503.20481, table 2 (RTX A6000): 24, 24 and 26 cycles. An H200 has 23, 26 and 32."""
    (issued,) = loads(20, width, 1, A6000, chained=True)
    assert issued[-1] - issued[-2] == pytest.approx(cycles, abs=1)


def test_memory_instructions_of_ga102_issue_as_published() -> None:
    """arXiv 2503.20481, table 1: each sub-core issues five in successive cycles, then the SM takes one in two."""
    for one in loads(40, 4, 4, A6000):
        assert [b - a for a, b in zip(one[:5], one[1:5], strict=False)] == [1] * 4
        assert one[-1] - one[-2] == 8
        assert 115 < one[20] < 140, "133 to 139 there; about 96 with a queue of eight"


@pytest.mark.parametrize(("gpu", "different", "same"), [("RTX A6000", 16.7, 16.7), ("RTX 4090", 14.7, 16.1)])
def test_l2_gives_all_sms_together_what_was_published(gpu: str, different: float, same: float) -> None:
    """gpu-benches: 2,430 GB/s of an A40 and 5,200 to 5,700 of an L40, by their SMs and clocks."""
    sm = parameters_of(gpu_named(gpu)).sm
    assert (sm.l2_bytes_cycle, sm.l2_same_bytes_cycle) == (different, same)
