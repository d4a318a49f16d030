"""When the warps of one block do what, in cycles: what views draw."""

from __future__ import annotations

import pytest

from gemmsmith.errors import UsageError
from gemmsmith.explain.timing.cycles import block_cycles
from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.gpus import gpu_named
from gemmsmith.ladder.registry import rung_named
from gemmsmith.trace.launch_trace import Kind

H200 = gpu_named("H200")


def test_the_warps_of_a_block_in_cycles() -> None:
    spec = rung_named("shared_tile")
    problem = spec.problem(64, 64, 64)
    found = block_cycles(spec, spec.config(), problem, H200, block=3)
    assert (found.block, found.k, len(found.warps)) == (3, 64, 32)
    whole = Predictor(spec, spec.config(), problem, H200).predict()
    assert found.cycles <= 1.02 * whole.main.cycles, "its lines come from DRAM at other times than those of block 0"
    for warp in found.warps:
        assert all(span.since <= span.start < span.end for span in warp.spans)
        assert all(a.end == b.since for a, b in zip(warp.spans, warp.spans[1:], strict=False))
        loads = [span for span in warp.spans if span.kind is Kind.LOAD_GLOBAL]
        stores = [span for span in warp.spans if span.kind is Kind.STORE_SHARED]
        # What is stored was loaded before: the store of B waits until both loads have come back.
        assert stores[1].start >= loads[0].landed > loads[0].end
        assert stores[1].reason == "long_scoreboard"
        assert sum(span.kind is Kind.BARRIER for span in warp.spans) == 4  # two k-tiles of 32
    assert sum(span.count for span in found.warps[0].spans) > 200


def test_a_block_that_is_not_there() -> None:
    spec = rung_named("naive")
    with pytest.raises(UsageError, match="no block 99"):
        block_cycles(spec, spec.config(), spec.problem(64, 64, 64), H200, block=99)
