"""The end of a producer as CUTLASS and CuTe DSL have it: it waits for what the cluster's consumers release, then ends.

No barrier of the cluster follows: the waits say that no arrival is under way any longer. And: registers at launch as
ptxas chooses them, and stores that every lane of a warp issues.
"""

from __future__ import annotations

import numpy as np
import pytest

import gemmsmith
from gemmsmith.sim.ptx.reader import registers_at_launch

TAIL = """
#include <cuda/std/cstdint>
extern "C" __global__ void __cluster_dims__(2, 1, 1) tail(int* out) {
    __shared__ uint64_t empty[2];
    unsigned at = (unsigned)__cvta_generic_to_shared(empty), block;
    asm("mov.u32 %0, %cluster_ctarank;" : "=r"(block));
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; ++i) asm volatile("mbarrier.init.shared.b64 [%0], 2;" :: "r"(at + 8 * i));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("barrier.cluster.arrive.relaxed;\\nbarrier.cluster.wait;" ::: "memory");
    if (threadIdx.x >= 32) {             // a consumer: lane 0 releases stages of block 0, lane 1 those of block 1
        if (threadIdx.x - 32 < 2)
            for (int i = 0; i < 2; ++i) {
                unsigned there;
                asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                             : "=r"(there) : "r"(at + 8 * i), "r"(threadIdx.x & 1));
                asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(there) : "memory");
            }
    } else if (threadIdx.x == 0) {       // the producer
        for (int i = 0; i < WAITS; ++i)
            asm volatile("{ .reg .pred p;\\nAGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], 0;\\n@!p bra AGAIN; }"
                         :: "r"(at + 8 * i) : "memory");
        out[blockIdx.x] = block;
    }
}
"""


def _hazards(waits: int, schedule: str) -> list[str]:
    result = gemmsmith.launch(TAIL, grid=2, block=64, args=[np.zeros(2, np.int32)], arch="sm_90a",
                              defines={"WAITS": waits}, schedule=schedule, hazards=True)  # fmt: skip
    assert result["out"].tolist() == [0, 1]
    return [str(hazard) for hazard in result.hazards]


@pytest.mark.parametrize("schedule", ["lockstep", "in_order", "reversed", "random", "starved"])
def test_a_producer_that_has_waited_for_all_stages_may_end(schedule: str) -> None:
    assert not _hazards(2, schedule)


@pytest.mark.parametrize("schedule", ["lockstep", "reversed"])
def test_a_stage_that_nobody_waited_for_is_an_arrival_at_an_ended_block(schedule: str) -> None:
    assert any("access-of-ended-block" in hazard for hazard in _hazards(1, schedule))


def _ptx(bounds: str, *asked: int) -> str:
    counts = "\n".join(f"setmaxnreg.inc.sync.aligned.u32 {count};" for count in asked)
    return f".visible .entry k()\n{bounds}\n{{\nsetmaxnreg.dec.sync.aligned.u32 24;\n{counts}\nret;\n}}\n" \
           ".visible .entry other()\n.maxnreg 32\n{\nsetmaxnreg.inc.sync.aligned.u32 80;\n}\n"  # fmt: skip


@pytest.mark.parametrize(
    ("bounds", "asked", "registers"),
    [  # what ptxas 12.9 reports
        (".reqntid 256, 1, 1\n.minnctapersm 1", (232,), 232), (".reqntid 384, 1, 1\n.minnctapersm 1", (240,), 168),
        (".reqntid 384, 1, 1\n.minnctapersm 1", (160, 120), 160), (".maxntid 512\n.minnctapersm 1", (160,), 128),
        (".reqntid 256\n.minnctapersm 1", (), 256), (".reqntid 384\n.maxnreg 168", (120,), 120),
        (".maxnreg 168", (240,), 168), (".reqntid 256", (208,), 0), ("", (208,), 0),
    ],
)  # fmt: skip
def test_registers_with_which_a_block_starts(bounds: str, asked: tuple[int, ...], registers: int) -> None:
    assert registers_at_launch(_ptx(bounds, *asked), "k") == registers


STORE = """
#include <cuda.h>
extern "C" __global__ void store(const __grid_constant__ CUtensorMap map, int lanes) {
    __shared__ alignas(128) float box[64];
    box[threadIdx.x] = threadIdx.x; box[threadIdx.x + 32] = threadIdx.x + 32;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (threadIdx.x < lanes) {
        asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%0, {%1}], [%2];\\n"
                     "cp.async.bulk.commit_group;\\ncp.async.bulk.wait_group 0;"
                     :: "l"(&map), "r"(0), "r"((unsigned)__cvta_generic_to_shared(box)) : "memory");
    }
}
"""


@pytest.mark.parametrize("lanes", [1, 32])
def test_a_store_by_all_lanes_of_a_warp_is_one_request(lanes: int) -> None:
    out = np.zeros(64, np.float32)
    box = gemmsmith.tensor_map(out, box=(64,))
    result = gemmsmith.launch(STORE, grid=1, block=32, args=[box, lanes], arch="sm_90a", count=True)
    assert np.array_equal(result["map"], np.arange(64, dtype=np.float32))
    assert not result.hazards
    assert result.counters is not None
    assert sum(copies.requests for copies in result.counters.raw.copies.values()) == 1
