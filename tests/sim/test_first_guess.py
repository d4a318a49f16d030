"""Loops of compare-and-swap begin with a plain read, which is no race; other plain reads of what atomics change are."""

from __future__ import annotations

import numpy as np
import pytest

import gemmsmith

LOOP = """
__device__ void raise_to(int* address, int value) {
    int old = *address, seen;
    do {
        seen = old;
        if (seen >= value) break;
        old = atomicCAS(address, seen, value);
    } while (old != seen);
}
"""
LARGEST = (
    LOOP
    + """
__global__ void largest(const int* x, int* out) {
    raise_to(out, x[blockIdx.x * blockDim.x + threadIdx.x]);
}
"""
)
# The value is read once more, and stored: what it is depends on the order of blocks.
STORED = LARGEST.replace("raise_to(out, x", "out[1 + blockIdx.x] = *out; raise_to(out, x")
# The read is of a neighbour of what is swapped.
BESIDE = LARGEST.replace("int old = *address, seen", "int old = address[1], seen").replace(
    "raise_to(out, x[", "raise_to(out + blockIdx.x, x["
)
# A plain store races with the swaps of other blocks.
WRITTEN = LARGEST.replace(
    "old = atomicCAS(address, seen, value);", "{ atomicCAS(address, seen, value); *address = value; old = seen; }"
)
SHARED = (
    LOOP
    + """
__global__ void largest(const int* x, int* out) {
    __shared__ int most;
    if (threadIdx.x == 0) most = -9999;
    __syncthreads();
    raise_to(&most, x[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) atomicMax(out, most);
}
"""
)


def _hazards(source: str, size: int = 1) -> tuple[int, int]:
    x = np.random.default_rng(3).integers(-999, 999, 256).astype(np.int32)
    result = gemmsmith.launch(source, "largest", grid=4, block=64, args=[x, np.full(size, -9999, np.int32)])
    return len(result.hazards), int(result["out"][0]) - int(x.max())


@pytest.mark.parametrize("source", [LARGEST, SHARED], ids=["global", "shared"])
def test_the_loop_of_the_guide_has_no_race(source: str) -> None:
    assert _hazards(source) == (0, 0)


@pytest.mark.parametrize("source", [STORED, BESIDE, WRITTEN], ids=["stored", "beside", "written"])
def test_other_plain_accesses_race(source: str) -> None:
    assert _hazards(source, 8)[0] > 0
