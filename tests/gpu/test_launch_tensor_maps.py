"""On a GPU of sm_90: ``gemmsmith.launch`` with tensor maps gives the simulator's bytes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gemmsmith
from gemmsmith.run.cuda import cuda_device, gpu_available

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_available() or cuda_device().arch != "sm_90", reason="needs a GPU of sm_90"),
]

CODE = r"""
#include <cuda.h>
__device__ inline unsigned shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ inline void load(const CUtensorMap* map, void* to, unsigned long long* barrier, int bytes, int x, int y) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;\n"
                 "fence.proxy.async.shared::cta;" :: "r"(shared(barrier)) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared(barrier)), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(shared(to)), "l"(map), "r"(x), "r"(y), "r"(shared(barrier)) : "memory");
    int done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(shared(barrier)) : "memory");
}
__device__ inline void give(const unsigned* tile, unsigned* out, int bytes) {
    __syncthreads();
    for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) out[i] = tile[i];
}
extern "C" __global__ void by_value(const __grid_constant__ CUtensorMap map, unsigned* out, int x, int y, int bytes) {
    __shared__ alignas(1024) unsigned tile[4096];
    __shared__ unsigned long long barrier;
    if (threadIdx.x == 0) load(&map, tile, &barrier, bytes, x, y);
    give(tile, out, bytes);
}
extern "C" __global__ void by_pointer(const CUtensorMap* map, unsigned* out, int x, int y, int bytes) {
    __shared__ alignas(1024) unsigned tile[4096];
    __shared__ unsigned long long barrier;
    if (threadIdx.x == 0) load(map, tile, &barrier, bytes, x, y);
    give(tile, out, bytes);
}
extern "C" __global__ void through(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to) {
    __shared__ alignas(1024) unsigned tile[4096];
    __shared__ unsigned long long barrier;
    if (threadIdx.x == 0) {
        load(&from, tile, &barrier, 8 * 32 * 4, 0, 8 * blockIdx.x);
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];\n"
                     "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"
                     :: "l"(&to), "r"(0), "r"(8 * blockIdx.x), "r"(shared(tile)) : "memory");
    }
}
"""
PLANE = np.arange(40 * 64, dtype=np.float32).reshape(40, 64)
HALF = PLANE.astype(ml_dtypes.bfloat16)


def both(kernel: str, args: list[Any], grid: int = 1) -> tuple[Any, Any]:
    options = {"grid": grid, "block": 64, "args": args}
    return gemmsmith.launch(CODE, kernel, **options), gemmsmith.launch(CODE, kernel, device="gpu", **options)


@pytest.mark.parametrize("kernel", ["by_value", "by_pointer"])
@pytest.mark.parametrize(("array", "options", "place", "nbytes"), [
    (PLANE, {"box": (16, 32)}, (0, 0), 2048),
    (PLANE, {"box": (16, 32), "swizzle": 128}, (32, 8), 2048),
    (PLANE, {"box": (16, 16), "swizzle": 64}, (16, 4), 1024),
    (PLANE, {"box": (16, 8), "swizzle": 32}, (8, 0), 512),
    (PLANE, {"box": (16, 32), "fill": "nan"}, (48, 32), 2048),
    (PLANE, {"box": (16, 32)}, (-8, -4), 2048),
    (PLANE, {"box": (8, 32), "element_strides": (2, 1)}, (0, 0), 512),
    (PLANE[:, 16:48], {"box": (16, 32)}, (0, 8), 2048),
    (HALF, {"box": (32, 64), "swizzle": 128}, (0, 4), 4096),
    (HALF, {"box": (32, 64), "swizzle": 128}, (32, 16), 4096),
])  # fmt: skip
def test_a_box(kernel: str, array: Any, options: dict[str, Any], place: tuple[int, int], nbytes: int) -> None:
    args = [gemmsmith.tensor_map(array, **options), np.zeros(nbytes // 4, np.uint32), *place, nbytes]
    simulated, real = both(kernel, args)
    ours, theirs = simulated["out"], real["out"]
    if options.get("fill") == "nan":  # which of the two NaN TMA writes in a large box is not known
        ours, theirs = (np.where(np.isnan(x.view(np.float32)), np.uint32(1), x) for x in (ours, theirs))
    assert np.array_equal(ours, theirs)
    assert real["out"].any()


def test_a_box_that_does_not_begin_on_16_bytes(tmp_path: Path) -> None:
    """It ends the kernel, and with it the process's context; so it runs in a process of its own."""
    script = tmp_path / "astray.py"
    script.write_text(
        f"import numpy as np, gemmsmith\nCODE = {CODE!r}\n"
        "made = gemmsmith.tensor_map(np.zeros((40, 64), np.float32), box=(16, 32))\n"
        "gemmsmith.launch(CODE, 'by_value', grid=1, block=64, device='gpu', "
        "args=[made, np.zeros(512, np.uint32), 3, 0, 2048])\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=120)
    assert "CUDA_ERROR_ILLEGAL_INSTRUCTION" in done.stderr


def test_a_store() -> None:
    target = np.full_like(PLANE[:, :32], -1)
    args = [
        gemmsmith.tensor_map(PLANE, box=(8, 32), swizzle=128),
        gemmsmith.tensor_map(target, box=(8, 32), swizzle=128),
    ]
    simulated, real = both("through", args, grid=5)
    assert np.array_equal(real["to"], PLANE[:, :32])
    assert np.array_equal(simulated["to"], real["to"])
