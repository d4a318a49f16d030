"""Tensor maps that a kernel changes with tensormap.replace, in shared and in global memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gemmsmith
from gemmsmith.errors import SimulationError

_KERNEL = """
#include <cuda.h>
#include <cstdint>
__device__ inline unsigned shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void changed(const __grid_constant__ CUtensorMap map, CUtensorMap* room, const float* other,
                                   float* out, int x, int y, int bytes) {
    __shared__ alignas(1024) float tile[1024];
    __shared__ alignas(128) CUtensorMap own;
    __shared__ unsigned long long barrier;
    if (threadIdx.x == 0) own = map;
    __syncwarp();
    if (threadIdx.x == 0) {
        unsigned at = shared(&own);
        CHANGES
    }
    __syncwarp();
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
                 " [%0], [%1], 128;"
                 :: "l"(room), "r"(shared(&own)) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(room) : "memory");
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared(&barrier)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(shared(&barrier)), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(shared(tile)), "l"(room), "r"(x), "r"(y), "r"(shared(&barrier)) : "memory");
    }
    __syncthreads();
    int done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(shared(&barrier)) : "memory");
    for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) out[i] = tile[i];
}
"""
PLANE = np.arange(20 * 64, dtype=np.float32).reshape(20, 64)
OTHER = -np.arange(1, 1 + 10 * 32, dtype=np.float32).reshape(10, 32)


def replaced(field: str, *values: str, wide: bool = False) -> str:
    """One tensormap.replace: a dimension, and the new value."""
    constraint = "l" if wide else "r"
    inputs = ", ".join(f'"{constraint}"({value})' for value in values[-1:])
    ordinal = f"{values[0]}, " if len(values) > 1 else ""
    return (f'asm volatile("tensormap.replace.tile.{field}.shared::cta.b1024.b{64 if wide else 32} [%0], {ordinal}%1;" '
            f':: "r"(at), {inputs} : "memory");')  # fmt: skip


def immediate(field: str, value: int) -> str:
    return (f'asm volatile("tensormap.replace.tile.{field}.shared::cta.b1024.b32 [%0], {value};" :: "r"(at) '
            ': "memory");')  # fmt: skip


def run(changes: str, x: int, y: int, rows: int, columns: int, **options: Any) -> Any:
    nbytes = rows * columns * 4
    made = gemmsmith.tensor_map(PLANE, **{"box": (4, 32), **options})
    result = gemmsmith.launch(_KERNEL.replace("CHANGES", changes), "changed", grid=1, block=32, check=True, args=[
        made, np.zeros(128, np.uint8), OTHER, np.zeros(rows * columns, np.float32), x, y, nbytes])  # fmt: skip
    return result["out"].reshape(rows, columns)


def test_another_tensor() -> None:
    changes = replaced("global_address", "other", wide=True) + replaced("global_dim", "0", "32")
    changes += replaced("global_dim", "1", "10") + replaced("global_stride", "0", "128ull", wide=True)
    found = run(changes, 16, 8, 4, 32)
    assert np.array_equal(found[:2, :16], OTHER[8:, 16:])
    assert not found[2:].any()
    assert not found[:, 16:].any()


def test_box_fill_and_swizzle() -> None:
    assert np.array_equal(
        run(replaced("box_dim", "0", "16") + replaced("box_dim", "1", "2"), 4, 1, 2, 16), PLANE[1:3, 4:20]
    )
    assert np.isnan(run(immediate("fill_mode", 1), 64, 0, 4, 32)).all()
    plain, moved = run("", 0, 0, 4, 32), run(immediate("swizzle_mode", 3), 0, 0, 4, 32)
    assert np.array_equal(moved.reshape(4, 8, 4)[1, 1], plain.reshape(4, 8, 4)[1, 0])


def test_element_stride_type_and_interleave() -> None:
    assert np.array_equal(run(replaced("element_stride", "1", "2"), 0, 1, 2, 32), PLANE[1:5:2, :32])
    assert np.array_equal(run(immediate("elemtype", 2), 0, 1, 4, 32), PLANE[1:5, :32])
    assert np.array_equal(run(immediate("interleave_layout", 0), 0, 1, 4, 32), PLANE[1:5, :32])
    assert np.array_equal(run(replaced("rank", "1"), 0, 1, 4, 32), PLANE[1:5, :32])  # the rank less one


def test_what_no_map_has_is_a_fault() -> None:
    with pytest.raises(SimulationError, match="dimension 4 in a map that has 2"):
        run(replaced("box_dim", "4", "16"), 0, 0, 4, 32)
    with pytest.raises(SimulationError, match="no tensor map is there"):
        run("((int*)&own)[0] = 7; " + replaced("box_dim", "0", "16"), 0, 0, 4, 32)
