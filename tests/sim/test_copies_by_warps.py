"""Bulk copies that all lanes of a warp issue are made together: results and hazards are those of one after another."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cuda_launch import run
from ptx_launch import scheduled

from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.instructions import bulk_copy
from gemmsmith.sim.races.hazards import HazardError

SOURCE = r"""
extern "C" __global__ void k(const float4* in, float* out, int skew) {
    __shared__ alignas(128) float4 tile[2][64];
    __shared__ alignas(8) unsigned long long full[2];
    unsigned t = threadIdx.x, here = (unsigned)__cvta_generic_to_shared(tile);
    unsigned bar = (unsigned)__cvta_generic_to_shared(full);
    if (t == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(bar));
        asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(bar + 8));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    float sum = 0;
    for (int round = 0; round < 3; ++round) {
        unsigned stage = STAGE, at = bar + 8 * stage;
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];"
                     :: "r"(here + 1024 * stage + 16 * (TO)), "l"(in + 64 * round + t + skew), "r"(at) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], EXPECTED;" :: "r"(at) : "memory");
        WAIT
        sum += tile[stage][(t + 17) % 64].y;
        BARRIER
    }
    out[t] = sum;
}
"""
WAITS = r"""{
            unsigned done = 0;
            while (!done) asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2;"
                                       "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at), "r"(PARITY) : "memory");
        }"""
RIGHT = {"STAGE": "round & 1", "TO": "t", "EXPECTED": "16", "WAIT": WAITS, "PARITY": "(round >> 1) & 1",
         "BARRIER": "__syncthreads();"}  # fmt: skip
CASES = {
    "right": {},
    "no wait": {"WAIT": ""},
    "wrong parity": {"PARITY": "((round >> 1) & 1) ^ 1"},
    "a stage that is still read": {"STAGE": "0", "PARITY": "round & 1", "BARRIER": ""},
    "two lanes to one place": {"TO": "t & ~1u"},
    "fewer bytes than expected": {"EXPECTED": "32"},
    "beyond the array": {"TO": "t + 70"},
}
ORDERS = ("lockstep", "in_order", "reversed")


def outcome(changes: dict[str, str], order: str, skew: int = 0) -> tuple[list[float], list[str]]:
    source = SOURCE
    for word, text in {**RIGHT, **changes}.items():
        source = source.replace(word, text)
    data = np.random.default_rng(5).normal(size=(192, 4)).astype(np.float32)
    device = SimDevice(schedule=scheduled((order, 0)), hazards=True)
    try:
        found = run(source, data, np.zeros(64, np.float32), np.int32(skew), block=64, device=device)[1]
    except HazardError as error:
        return [], [str(hazard) for hazard in error.hazards]
    except Exception as error:
        return [], [f"{type(error).__name__}: {error}"]
    return found.tolist(), []


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", CASES)
def test_hazards_are_those_of_one_copy_after_another(case: str, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    together = outcome(CASES[case], order)
    monkeypatch.setattr(bulk_copy, "_copy_by_warps", lambda *_: False)
    alone = outcome(CASES[case], order)
    if order == "reversed":  # the newest copy lands first, and that is a warp's: another pair of threads stands for all
        together, alone = (
            (found, [re.sub(r"\([\d,]+\)|0x\w+", "", text) for text in texts]) for found, texts in (together, alone)
        )
    assert together == alone
    assert (together[1] == []) == (case == "right")


def test_a_fault_names_the_lane_that_is_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    together = outcome({}, "lockstep", skew=40)  # the last lanes read past the end
    monkeypatch.setattr(bulk_copy, "_copy_by_warps", lambda *_: False)
    assert together == outcome({}, "lockstep", skew=40)
    assert "out-of-bounds" in together[1][0]


def test_a_warp_is_one_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = []
    load = bulk_copy.BulkCopies.load
    monkeypatch.setattr(bulk_copy.BulkCopies, "load", lambda self, copy: (loads.append(copy), load(self, copy))[1])
    assert outcome({}, "lockstep")[1] == []
    assert [copy.parts for copy in loads] == [32] * 6
