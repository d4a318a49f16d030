"""GPUs that are not the H200: what their SMs share of DRAM and L2, and published measurements of their SM."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

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


def test_what_blocks_share_crosses_the_bus_of_dram_once() -> None:
    """Blocks of 32 x 32 that run together share a row of A. L2 of an RTX 4090 keeps B, that of an A6000 does not: each
    of its blocks reads its columns anew."""
    operand = 4096 * 4096 * 4
    kept, anew = (predictor("shared_tile", 4096, gpu) for gpu in ("RTX 4090", "RTX A6000"))
    assert (kept.resident, anew.resident) == (1, 1)
    assert kept.rates.read_bytes() == pytest.approx(2 * operand, rel=0.02)
    assert anew.rates.read_bytes() == pytest.approx(128 * operand, rel=0.05)


def test_the_bus_of_dram_bounds_a_launch_but_does_not_hold_each_step_up() -> None:
    """An SM of an RTX 4090 has 2.9 bytes a cycle of it, where a block gets 8 KB for each k-tile, most of them of L2."""
    found = predictor("shared_tile", 4096, "RTX 4090")
    assert 1.0 < found.predict().us / found.predict(Changes(cold=False)).us < 1.2
    far = predictor("shared_tile", 4096, "RTX A6000")
    slow = Predictor(far.spec, far.plan.kernel.config, far.problem, replace(far.gpu, dram_gbs=50.0))
    needed = (slow.rates.read_bytes() + 4096 * 4096 * 4) / (50.0 * slow.model.dram_share * 1e3)
    now = slow.predict()
    assert now.bound == "DRAM"
    assert now.us == pytest.approx(needed, rel=0.01)


@pytest.mark.parametrize(("size", "blocks"), [(128, 1), (512, 16)])
def test_sms_without_work_leave_dram_and_l2_to_the_others(size: int, blocks: int) -> None:
    found = predictor("warp_tile", size, "RTX 4090")
    assert found.blocks == blocks
    sm = found.rates.sm(1, apart=False)
    assert sm.dram_sm_bytes_cycle == found.model.sm.dram_sm_bytes_cycle
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
        assert [b - a for a, b in pairwise(one[:5])] == [1] * 4
        assert one[-1] - one[-2] == 8
        assert 115 < one[20] < 140, "133 to 139 there; about 96 with a queue of eight"


@pytest.mark.parametrize(("gpu", "different", "same"), [("RTX A6000", 16.7, 16.7), ("RTX 4090", 14.7, 16.1)])
def test_l2_gives_all_sms_together_what_was_published(gpu: str, different: float, same: float) -> None:
    """gpu-benches: 2,430 GB/s of an A40 and 5,200 to 5,700 of an L40, by their SMs and clocks."""
    sm = parameters_of(gpu_named(gpu)).sm
    assert (sm.l2_bytes_cycle, sm.l2_same_bytes_cycle) == (different, same)
