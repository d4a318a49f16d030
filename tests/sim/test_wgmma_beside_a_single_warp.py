"""wgmma in blocks of a warpgroup and one warp more, which loads in many kernels: products of the warpgroup are right,
and by the warp they are no products of a warpgroup."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_launch import run

from gemmsmith.errors import GemmsmithError
from gemmsmith.sim.device import SimDevice

# Ones everywhere, so each of 64 x 8 outputs is 16. Threads from FIRST to FIRST + 127 multiply.
_KERNEL = """
extern "C" __global__ void k(float* out) {
    __shared__ __align__(1024) unsigned short ones[64 * 16 + 8 * 16];
    for (int i = threadIdx.x; i < 64 * 16 + 8 * 16; i += blockDim.x) ones[i] = 0x3F80;  // bf16
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x < FIRST || threadIdx.x >= FIRST + 128) return;
    const unsigned long long base = ((unsigned)__cvta_generic_to_shared(ones) & 0x3FFFF) >> 4;
    const unsigned long long a = base | 8ull << 16 | 16ull << 32, b = (base + 128) | 8ull << 16 | 16ull << 32;
    float d[4] = {};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory");
    asm volatile("wgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i];
}
"""


def _outputs(first: int) -> np.ndarray:
    source, device = _KERNEL.replace("FIRST", str(first)), SimDevice("sm_90a")
    return run(source, np.zeros(160 * 4, np.float32), block=160, device=device, arch="sm_90a")[0]


def test_the_warpgroup_multiplies() -> None:
    found = _outputs(0)
    assert (found[:512] == 16).all()
    assert (found[512:] == 0).all()


def test_a_single_warp_does_not() -> None:
    with pytest.raises(GemmsmithError, match="wgmma by the last 32 threads of a block of 160"):
        _outputs(128)
