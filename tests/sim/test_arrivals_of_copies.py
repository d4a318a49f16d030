"""Copies of threads that arrive at mbarriers, in any order; hangs that name their cause and all who wait."""

from __future__ import annotations

import numpy as np
import pytest

import gemmsmith
from gemmsmith.errors import SimulationError

HELPERS = r"""
typedef unsigned long long Barrier;
__device__ inline unsigned shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ inline void init(Barrier* b, int n) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared(b)), "r"(n) : "memory");
}
__device__ inline void wait(Barrier* b, int parity) {
    asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra L; }"
                 :: "r"(shared(b)), "r"(parity) : "memory");
}
"""
COPIES = (
    HELPERS
    + r"""
// Warp 0 fills four stages; warp 1 reads them.
extern "C" __global__ void staged(const int* in, int* out) {
    __shared__ int stages[4][32];
    __shared__ Barrier full[4];
    if (threadIdx.x < 4) init(&full[threadIdx.x], ARRIVALS);
    __syncthreads();
    int lane = threadIdx.x % 32;
    if (threadIdx.x < 32)
        for (int s = 0; s < 4; ++s) {
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                         :: "r"(shared(&stages[s][lane])), "l"(in + s * 32 + lane) : "memory");
            asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(shared(&full[s])) : "memory");
            if (s == WAITS_AFTER) asm volatile("cp.async.wait_all;" ::: "memory");
        }
    else
        for (int s = 0; s < 4; ++s) {
            wait(&full[READ_AFTER], 0);
            out[s * 32 + lane] = stages[s][31 - lane];
        }
}
"""
)
HANGS = (
    HELPERS
    + r"""
// Thread 0 waits for bytes that never come, thread 32 for thread 0.
extern "C" __global__ void hangs(int* out) {
    __shared__ Barrier bytes, done;
    if (threadIdx.x == 0) {
        init(&bytes, 1);
        init(&done, 1);
    }
    __syncthreads();
    if (threadIdx.x == 32) wait(&done, 0);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 48;" :: "r"(shared(&bytes)) : "memory");
        wait(&bytes, 0);
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared(&done)) : "memory");
    }
    out[threadIdx.x] = 1;
}
"""
)
SCHEDULES = ("lockstep", "in_order", "reversed", "random", "starved")
IN = np.arange(128, dtype=np.int32)


def staged(schedule: str, arrivals: int = 32, read_after: str = "s", waits_after: int = -1) -> gemmsmith.LaunchResult:
    defines = {"ARRIVALS": arrivals, "READ_AFTER": read_after, "WAITS_AFTER": waits_after}
    return gemmsmith.launch(COPIES, "staged", grid=1, block=64, args=[IN, np.zeros(128, np.int32)], schedule=schedule,
                            defines=defines, arch="sm_90")  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_stages_may_arrive_in_any_order(schedule: str) -> None:
    result = staged(schedule)
    assert not result.hazards
    assert np.array_equal(result["out"].reshape(4, 32), IN.reshape(4, 32)[:, ::-1])
    assert not staged(schedule, read_after="3").hazards  # the last arrival covers all copies before it


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("waits_after", [0, 2, 3])
def test_the_copying_threads_may_wait_for_the_copies_as_well(schedule: str, waits_after: int) -> None:
    result = staged(schedule, waits_after=waits_after)
    assert not result.hazards
    assert np.array_equal(result["out"].reshape(4, 32), IN.reshape(4, 32)[:, ::-1])
    assert staged(schedule, read_after="0", waits_after=waits_after).hazards


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_stage_is_read_after_the_arrival_of_another(schedule: str) -> None:
    assert staged(schedule, read_after="0").hazards


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_more_arrivals_than_a_phase_expects_is_no_crash(schedule: str) -> None:
    """Half of the arrivals end the first phase, the others the second."""
    try:
        found = str(staged(schedule, arrivals=16).hazards)
    except SimulationError as error:
        found = str(error)
    assert "race" in found or "mbarrier" in found


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_hang_names_the_bytes_that_never_come_and_who_else_waits(schedule: str) -> None:
    with pytest.raises(SimulationError) as caught:
        gemmsmith.launch(HANGS, "hangs", grid=1, block=64, args=[np.zeros(64, np.int32)], schedule=schedule)
    said = str(caught.value)
    assert "never completes: phase 0 of the mbarrier lacks 0 arrivals and 48 bytes" in said
    assert "thread (0,0,0) waits; block (0,0,0), thread (32,0,0) waits at" in said
    assert "lacks 1 arrivals (of 1 arrivals" in said


def test_a_helper_of_the_same_file_is_shown_with_the_line_that_calls_it() -> None:
    line = HANGS[: HANGS.index("wait(&bytes, 0)")].count("\n") + 1
    with pytest.raises(SimulationError, match=rf"kernel\.cu:\d+ \(called at kernel\.cu:{line}\)"):
        gemmsmith.launch(HANGS, "hangs", grid=1, block=64, args=[np.zeros(64, np.int32)])
