"""Shared memory that no thread wrote: a fault where outputs depend on it, a race where a copy was to write it.

Each kernel computes an output again if its sum is not an ordinary number, so NaN and large numbers in that memory
change nothing. Only ordinary numbers do.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from certificate_kernels import spec_of
from ptx_only import compile_to_ptx

from gemmsmith.problem import Problem
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.schedule import schedule_named
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.meaning.readings import find_readings
from gemmsmith.verify.verdict import Verdict

KERNEL = """
#include <cuda_pipeline.h>
#define TILE 16
__global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float As[TILE][TILE];
    __shared__ float Bs[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        @LOAD@
        __syncthreads();
        for (int k = 0; k < TILE && k0 + k < K; ++k) sum += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    if (row >= M || col >= N) return;
    if (!(fabsf(sum) < 1e9f)) {
        sum = 0.0f;
        for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    }
    C[row * N + col] = sum;
}
void run(const float *A, const float *B, float *C, int M, int N, int K) {
    gemm<<<dim3((N + TILE - 1) / TILE, (M + TILE - 1) / TILE), dim3(TILE, TILE)>>>(A, B, C, M, N, K);
}
"""
# Rows past M and columns past N stay unwritten; their sums are not stored.
GUARDED = """if (row < M && k0 + tx < K) As[ty][tx] = A[row * K + k0 + tx];
        if (col < N && k0 + ty < K) Bs[ty][tx] = B[(k0 + ty) * N + col];"""
FORGOTTEN = GUARDED.replace("row < M &&", "row < M && tx < TILE - 1 &&")  # the last column of As
COPIED = """if (row < M && k0 + tx < K) __pipeline_memcpy_async(&As[ty][tx], &A[row * K + k0 + tx], 4);
        if (col < N && k0 + ty < K) __pipeline_memcpy_async(&Bs[ty][tx], &B[(k0 + ty) * N + col], 4);
        __pipeline_commit();"""
TWICE = GUARDED.replace("B[(k0 + ty) * N + col]", "2 * B[(k0 + ty) * N + col]")
WAITED = COPIED + " __pipeline_wait_prior(0);"


def verdict_on(folder: Path, load: str, schedule: str = "lockstep", late: bool = False) -> Verdict:
    spec = spec_of(folder, KERNEL.replace("@LOAD@", load))
    device = SimDevice(schedule=schedule_named(schedule, 1, late_copies=late), hazards=True)
    return verify_launch(device, spec, spec.config(), spec.problem(20, 24, 40), mode="float", compile_fn=compile_to_ptx)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("load", [GUARDED, WAITED], ids=["guarded", "waited"])
def test_what_no_output_depends_on_is_no_fault(tmp_path: Path, load: str, late: bool) -> None:
    assert verdict_on(tmp_path, load, late=late).trusted


def test_a_kernel_that_looks_for_nan_does_not_hide_it(tmp_path: Path) -> None:
    verdict = verdict_on(tmp_path, FORGOTTEN)
    assert not verdict.trusted
    assert "no thread has written" in str(verdict.reasons)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("schedule", ["lockstep", "reversed", "random"])
def test_a_copy_that_nobody_waits_for_is_a_race(tmp_path: Path, schedule: str, late: bool) -> None:
    verdict = verdict_on(tmp_path, COPIED, schedule, late)
    assert not verdict.trusted
    assert verdict.hazards


def test_another_mistake_is_told_before_what_no_output_depends_on(tmp_path: Path) -> None:
    verdict = verdict_on(tmp_path, TWICE)
    assert not verdict.trusted
    assert "no thread has written" not in str(verdict.reasons)
    assert verdict.wrong == verdict.total


@pytest.mark.parametrize(("load", "found"), [(GUARDED, 1), (FORGOTTEN, 0)], ids=["guarded", "forgotten"])
def test_what_no_output_depends_on_hides_no_meaning(tmp_path: Path, load: str, found: int) -> None:
    plain = KERNEL.replace("!(fabsf(sum) < 1e9f)", "false")
    spec = spec_of(tmp_path, plain.replace("@LOAD@", load))
    readings = find_readings(SimDevice(), spec, spec.config(), spec.signature, (20, 24, 40), compile_to_ptx)
    assert len(readings) == found


def test_only_nan_shows_what_is_multiplied_by_zero(tmp_path: Path) -> None:
    """The tail of A is zero, that of B unwritten: finite numbers there change nothing, NaN does."""
    whole = KERNEL.replace("k < TILE && k0 + k < K", "k < TILE").replace("!(fabsf(sum) < 1e9f)", "false")
    load = GUARDED.replace("if (row < M && k0 + tx < K) As[ty][tx] = A[row * K + k0 + tx];",
                           "As[ty][tx] = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0.0f;")  # fmt: skip
    spec = spec_of(tmp_path, whole.replace("@LOAD@", load))
    verdict = verify_launch(SimDevice(hazards=True), spec, spec.config(), Problem(16, 16, 9), compile_fn=compile_to_ptx)
    assert not verdict.ok
    assert "uninitialised" in verdict.reasons[0]
