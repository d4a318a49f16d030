"""Flags and counters in the shared memory of another block of the cluster, by loads and stores of cluster scope."""

from __future__ import annotations

import numpy as np
import pytest

import gemmsmith

SCHEDULES = ["lockstep", "in_order", "reversed", "random", "starved"]
KERNEL = """
extern "C" __global__ void __cluster_dims__(2, 1, 1) handed_over(int* out) {
    __shared__ int data[64], ready;
    unsigned rank, here = (unsigned)__cvta_generic_to_shared(&ready), there, place;
    asm("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) ready = 0;
    asm volatile("barrier.cluster.arrive;\\nbarrier.cluster.wait;" ::: "memory");
    asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(there) : "r"(here));
    place = (unsigned)__cvta_generic_to_shared(data + threadIdx.x);
    asm("mapa.shared::cluster.u32 %0, %0, 0;" : "+r"(place));
    if (rank == 1) {
        asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(place), "r"(threadIdx.x + 1) : "memory");
        asm volatile("RAISE" :: "r"(there) : "memory");
    } else {
        for (int seen = 0; seen < 64;) asm volatile("WAIT" : "=r"(seen) : "r"(here) : "memory");
        out[threadIdx.x] = data[63 - threadIdx.x];
    }
    asm volatile("barrier.cluster.arrive;\\nbarrier.cluster.wait;" ::: "memory");
}
"""


def hazards(raised: str, waited: str, schedule: str) -> list[str]:
    source = KERNEL.replace("RAISE", f"red.{raised}.shared::cluster.add.u32 [%0], 1;")
    source = source.replace("WAIT", f"ld.{waited}.shared.u32 %0, [%1];")
    result = gemmsmith.launch(source, grid=2, block=64, args=[np.zeros(64, np.int32)], arch="sm_90a",
                              schedule=schedule, hazards=True)  # fmt: skip
    assert result["out"].tolist() == list(range(64, 0, -1))
    return [str(hazard) for hazard in result.hazards]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("scope", ["cluster", "gpu"])
def test_a_counter_in_another_block_orders_what_was_written_there(scope: str, schedule: str) -> None:
    assert not hazards(f"release.{scope}", f"acquire.{scope}", schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("raised", "waited"),
    [
        ("relaxed.cluster", "acquire.cluster"),
        ("release.cluster", "relaxed.cluster"),
        ("release.cta", "acquire.cluster"),
        ("release.cluster", "acquire.cta"),
    ],
)
def test_a_counter_without_order_or_of_one_block_orders_nothing(raised: str, waited: str, schedule: str) -> None:
    found = hazards(raised, waited, schedule)
    assert any(hazard.startswith("read-after-write race on shared") for hazard in found)


ACROSS = """
extern "C" __global__ void __cluster_dims__(2, 1, 1) across(int* out, int* data, int* flag) {
    if (blockIdx.x == 3) {
        data[threadIdx.x] = threadIdx.x + 1;
        RELEASE
        __syncthreads();
        if (threadIdx.x == 0) asm volatile("st.ORDER.SCOPE.global.u32 [%0], 1;" :: "l"(flag) : "memory");
    }
    if (blockIdx.x == READER) {
        int seen = 0;
        if (threadIdx.x == 0)
            while (!seen) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        __syncthreads();
        out[threadIdx.x] = data[63 - threadIdx.x];
    }
}
"""


@pytest.mark.parametrize("fence", [False, True], ids=["release", "fence"])
@pytest.mark.parametrize(
    ("scope", "reader", "races"),
    [("cta", 2, True), ("cluster", 2, False), ("cluster", 0, True), ("gpu", 2, False), ("gpu", 0, False)],
)
def test_cluster_scope_counts_within_the_cluster(scope: str, reader: int, races: bool, fence: bool) -> None:
    source = ACROSS.replace("RELEASE", f'asm volatile("fence.acq_rel.{scope};" ::: "memory");' if fence else "")
    source = source.replace("ORDER.SCOPE", "relaxed.gpu" if fence else f"release.{scope}")
    arrays = [np.zeros(64, np.int32), np.zeros(64, np.int32), np.zeros(1, np.int32)]
    result = gemmsmith.launch(source.replace("READER", str(reader)), grid=4, block=64, args=arrays, arch="sm_90a",
                              hazards=True)  # fmt: skip
    assert bool(result.hazards) == races


PHASE = """
extern "C" __global__ void handed_on(int* out) {
    __shared__ int data[64];
    __shared__ unsigned long long full;
    unsigned at = (unsigned)__cvta_generic_to_shared(&full);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(at) : "memory");
    __syncthreads();
    data[threadIdx.x] = threadIdx.x + 1;
    FENCE
    asm volatile("{ .reg .b64 t; mbarrier.arriveARRIVE.shared.b64 t, [%0]; }" :: "r"(at) : "memory");
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parityWAIT.shared.b64 p, [%0], 0; @!p bra W; }"
                 :: "r"(at) : "memory");
    FENCE
    out[threadIdx.x] = data[63 - threadIdx.x];
}
"""


@pytest.mark.parametrize(
    ("arrive", "wait", "fence", "races"),
    [
        ("", "", "", False),
        (".release.cta", ".acquire.cta", "", False),
        (".relaxed.cta", ".acquire.cta", "", True),
        (".release.cta", ".relaxed.cta", "", True),
        (".relaxed.cta", ".relaxed.cta", "__threadfence_block();", False),
    ],
)
def test_a_relaxed_arrival_or_wait_orders_nothing(arrive: str, wait: str, fence: str, races: bool) -> None:
    source = PHASE.replace("ARRIVE", arrive).replace("WAIT", wait).replace("FENCE", fence)
    result = gemmsmith.launch(source, grid=1, block=64, args=[np.zeros(64, np.int32)], arch="sm_90a", hazards=True)
    assert bool(result.hazards) == races
