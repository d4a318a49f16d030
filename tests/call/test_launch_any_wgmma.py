"""wgmma in users' kernels: mov copies of accumulators between one wgmma and the next are no mistake."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gemmsmith
from gemmsmith.call.launch import LaunchResult

PRODUCT = """    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, 1, 0;"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0; }"
        : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "l"(descriptor(a)), "l"(descriptor(b)));
"""
WAIT = '    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");\n'
KERNEL = f"""
#include <cuda_fp16.h>
__device__ unsigned long long descriptor(const void* p) {{
    unsigned at = (unsigned)__cvta_generic_to_shared(p);
    return (at & 0x3FFFF) >> 4 | 8ull << 16 | 16ull << 32;  // no swizzle
}}
__global__ void twice(float* out) {{
    __shared__ alignas(128) __half a[64 * 16], b[8 * 16];
    for (int i = threadIdx.x; i < 64 * 16; i += 128) a[i] = __float2half(1.0f);
    for (int i = threadIdx.x; i < 8 * 16; i += 128) b[i] = __float2half(2.0f);
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
{PRODUCT}{PRODUCT}    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
{WAIT}    out[threadIdx.x] = d0 + d1 + d2 + d3;
}}
"""


def launched(folder: Path, source: str, schedule: str) -> LaunchResult:
    path = folder / "twice.cu"
    path.write_text(source)
    return gemmsmith.launch(path, grid=1, block=128, args=[np.zeros(128, np.float32)], arch="sm_90a", schedule=schedule)


@pytest.mark.parametrize("schedule", ["lockstep", "reversed"])
def test_copies_of_accumulators_are_no_hazard(schedule: str, tmp_path: Path) -> None:
    result = launched(tmp_path, KERNEL, schedule)
    assert not result.hazards
    assert (result.by_name["out"] == 256).all()  # two products of 16 terms of 2, in four accumulators


@pytest.mark.parametrize("schedule", ["lockstep", "reversed"])
def test_accumulators_before_the_wait_are(schedule: str, tmp_path: Path) -> None:
    result = launched(tmp_path, KERNEL.replace(WAIT, ""), schedule)
    assert "wgmma.wait_group must come between" in str(result.hazards[0])
