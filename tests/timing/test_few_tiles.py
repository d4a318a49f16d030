"""Persistent blocks are sampled with few tiles, and the end of a launch takes time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.gpus import gpu_named
from gemmsmith.ladder.registry import rung_named
from gemmsmith.sim.timing.parameters import parameters_of

H200 = gpu_named("H200")


def predictor(name: str, m: int, n: int, k: int) -> Predictor:
    spec = rung_named(name)
    return Predictor(spec, spec.config(), spec.problem(m, n, k), H200)


def test_persistent_blocks_with_many_tiles_are_sampled_with_four() -> None:
    found = predictor("fp32_wgmma_registers", 4096, 4096, 4096)
    assert (found.rows, found.longer) == (1024, 4.0)  # 2,048 tiles on 132 SMs: 16 each; 512: 4 each
    few = predictor("fp32_wgmma_registers", 1024, 2048, 4096)
    assert (few.rows, few.longer) == (1024, 1.0)
    shared = predictor("wgmma_stream_k", 8192, 8192, 1024)  # its blocks share tiles
    assert (shared.rows, shared.longer) == (8192, 1.0)
    assert predictor("padded", 8192, 8192, 1024).longer == 1.0


def test_all_tiles_take_as_long_as_four_each() -> None:
    """The prediction from four tiles, against one that executes all eight, at a K that is executed whole."""
    few = predictor("wgmma_persistent", 4096, 8192, 512)
    assert few.longer == 2.0
    every = predictor("wgmma_persistent", 4096, 8192, 512)
    every.rows, every.longer = 4096, 1.0
    assert few.predict(mhz=1500).main.cycles == pytest.approx(every.predict(mhz=1500).main.cycles, rel=0.1)


def test_a_launch_ends_when_its_stores_have_been_written() -> None:
    spec = rung_named("shared_tile")
    times = [Predictor(spec, spec.config(), spec.problem(64, 64, 32), H200, replace(parameters_of(H200), drain_us=us))
             .predict(mhz=1980).us for us in (0.0, 0.23)]  # fmt: skip
    assert times[1] - times[0] == pytest.approx(0.23)
