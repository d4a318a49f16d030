"""Tensor maps and clusters of a launch: what is copied, what is refused, and with which words."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gemmsmith
from gemmsmith.errors import DTypeError, GemmsmithError, SimulationError, UsageError
from gemmsmith.verify.launch_check import check_launch

CODE = """
#include <cuda.h>
#include <cstdint>
__device__ inline unsigned shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ inline void load(const void* map, void* to, int x, int y, unsigned long long* barrier, int bytes) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared(barrier)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(shared(barrier)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(shared(to)), "l"(map), "r"(x), "r"(y), "r"(shared(barrier)) : "memory");
}
__device__ inline void wait(unsigned long long* barrier) {
    int done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(shared(barrier)) : "memory");
}
extern "C" __global__ void box(const __grid_constant__ CUtensorMap map, unsigned* out, int x, int y, int bytes) {
    __shared__ alignas(1024) unsigned tile[1024];
    __shared__ unsigned long long barrier;
    if (threadIdx.x == 0) load(&map, tile, x, y, &barrier, bytes);
    __syncthreads();
    wait(&barrier);
    for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) out[i] = tile[i];
}
extern "C" __global__ void pointed(const CUtensorMap* map, unsigned* out, int x, int y, int bytes) {
    __shared__ alignas(1024) unsigned tile[1024];
    __shared__ unsigned long long barrier;
    if (threadIdx.x == 0) load(map, tile, x, y, &barrier, bytes);
    __syncthreads();
    wait(&barrier);
    for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) out[i] = tile[i];
}
extern "C" __global__ void copy(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to) {
    __shared__ alignas(1024) unsigned tile[1024];
    __shared__ unsigned long long barrier;
    int y = 8 * blockIdx.x;
    if (threadIdx.x == 0) {
        load(&from, tile, 0, y, &barrier, 8 * 32 * 4);
        wait(&barrier);
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                     :: "l"(&to), "r"(0), "r"(y), "r"(shared(tile)) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
extern "C" __global__ void ranks(int* out) {
    unsigned rank, size;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    out[blockIdx.x] = rank + 10 * size;
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) pairs(int* out) {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    out[blockIdx.x] = rank;
}
"""
PLANE = np.arange(20 * 64, dtype=np.float32).reshape(20, 64)


def boxed(array: Any, x: int, y: int, kernel: str = "box", **options: Any) -> Any:
    sides = options["box"]
    nbytes = int(np.prod(sides)) * array.itemsize
    out = np.zeros(nbytes // 4, np.uint32)
    result = gemmsmith.launch(CODE, kernel, grid=1, block=64,
                              args=[gemmsmith.tensor_map(array, **options), out, x, y, nbytes], check=True)  # fmt: skip
    return result["out"].view(array.dtype).reshape(sides)


@pytest.mark.parametrize("kernel", ["box", "pointed"])
def test_a_box_by_value_and_by_pointer(kernel: str) -> None:
    assert np.array_equal(boxed(PLANE, 16, 3, kernel, box=(4, 32)), PLANE[3:7, 16:48])


def test_outside_the_array_is_zero_or_nan() -> None:
    found = boxed(PLANE, 48, 18, box=(4, 32))
    assert np.array_equal(found[:2, :16], PLANE[18:, 48:])
    assert not found[2:].any()
    assert not found[:, 16:].any()
    found = boxed(PLANE, -16, 18, box=(4, 32), fill="nan")
    assert np.array_equal(found[:2, 16:], PLANE[18:, :16])
    assert np.isnan(found[:, :16]).all()


def test_a_swizzle_permutes_chunks_of_16_bytes() -> None:
    found = boxed(PLANE, 0, 0, box=(8, 32), swizzle=128).reshape(8, 8, 4)
    expected = PLANE[:8, :32].reshape(8, 8, 4)
    assert all(np.array_equal(found[row, chunk ^ row], expected[row, chunk]) for row in range(8) for chunk in range(8))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64,
                                   np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
                                   ml_dtypes.float8_e5m2, np.bool_])  # fmt: skip
def test_types(dtype: Any) -> None:
    values = (np.arange(20 * 64) % 2).astype(dtype).reshape(20, 64)
    assert np.array_equal(boxed(values, 0, 4, box=(4, 32)), values[4:8, :32])


def test_views_element_strides_and_other_shapes() -> None:
    wide = np.arange(20 * 96, dtype=np.float32).reshape(20, 96)
    assert np.array_equal(boxed(wide[:, :64], 56, 1, box=(2, 16))[:, :8], wide[1:3, 56:64])
    assert not boxed(wide[:, :64], 56, 1, box=(2, 16))[:, 8:].any()
    halves = boxed(PLANE, 0, 3, box=(4, 32), shape=(40, 32), strides=(32, 1))
    assert np.array_equal(halves, PLANE.reshape(40, 32)[3:7])
    out = np.zeros(64, np.uint32)
    found = gemmsmith.launch(CODE, "box", grid=1, block=64, args=[
        gemmsmith.tensor_map(PLANE, box=(4, 32), element_strides=(2, 1)), out, 0, 1, 256])["out"]  # fmt: skip
    assert np.array_equal(found.view(np.float32).reshape(2, 32), PLANE[1:5:2, :32])


def test_a_store_through_a_map_is_returned() -> None:
    source, target = PLANE[:, :32].copy(), np.full((20, 32), np.nan, np.float32)
    result = gemmsmith.launch(CODE, "copy", grid=3, block=32, args={
        "from": gemmsmith.tensor_map(source, box=(8, 32), swizzle=128),
        "to": gemmsmith.tensor_map(target, box=(8, 32), swizzle=128)})  # fmt: skip
    assert np.array_equal(result["to"], source)
    assert np.isnan(target).all()
    assert not result.hazards
    gemmsmith.launch(CODE, "copy", grid=3, block=32, inplace=True, args=[
        gemmsmith.tensor_map(source, box=(8, 32)), gemmsmith.tensor_map(target, box=(8, 32))])  # fmt: skip
    assert np.array_equal(target, source)


def test_a_load_alone_writes_no_map() -> None:
    result = gemmsmith.launch(CODE, "box", grid=1, block=64, args=[
        gemmsmith.tensor_map(PLANE, box=(4, 32)), np.zeros(128, np.uint32), 0, 0, 512])  # fmt: skip
    assert list(result.by_name) == ["out"]


def test_too_many_bytes_expected_hang_with_an_explanation() -> None:
    with pytest.raises(SimulationError, match="lacks 0 arrivals and 16 bytes"):
        gemmsmith.launch(CODE, "box", grid=1, block=64, args=[
            gemmsmith.tensor_map(PLANE, box=(4, 32)), np.zeros(132, np.uint32), 0, 0, 528])  # fmt: skip


@pytest.mark.parametrize(("options", "said"), [
    ({}, "a tensor map needs a box"),
    ({"box": (4, 32, 1)}, "has 3 numbers, and the tensor has 2 axes"),
    ({"box": (4, 300)}, "a box of 300x4"),
    ({"box": (4, 3)}, "rows of 12 bytes"),
    ({"box": (4, 64), "swizzle": 128}, "longer than the 128 bytes"),
    ({"box": (4, 32), "swizzle": 100}, "a swizzle of 100 bytes"),
    ({"box": (4, 32), "swizzle": "big"}, "swizzle='big' is not known"),
    ({"box": (4, 32), "fill": "ones"}, "fill='ones' is not known"),
    ({"box": (4, 32), "interleave": 16}, "interleaved tensors have 3 to 5"),
    ({"box": (4, 32), "element_strides": (9, 1)}, "element strides"),
    ({"box": (4, 32), "dtype": "bf16"}, "dtype='bf16' has 2 bytes"),
    ({"box": (4, 32), "dtype": "int7"}, "dtype='int7' is not known"),
    ({"box": (4, 32), "shape": (20, 65)}, "ends beyond the array"),
    ({"box": (4, 32), "shape": (20, 60), "strides": (60, 1, 1)}, "one stride for each axis"),
    ({"box": ("a", 32)}, "no list of whole numbers"),
    ({"im2col": (1, 2)}, "write im2col="),
    ({"im2col": ((0,), (0,), 16, 8)}, "an im2col map of the array with 2 dimensions"),
])  # fmt: skip
def test_refused_maps(options: dict[str, Any], said: str) -> None:
    with pytest.raises(GemmsmithError) as error:
        gemmsmith.tensor_map(PLANE, **options)
    assert said in f"{error.value.message} {error.value.hint}"


def test_arrays_that_no_map_describes() -> None:
    with pytest.raises(UsageError, match="innermost one is contiguous"):
        gemmsmith.tensor_map(PLANE.T, box=(4, 32))
    with pytest.raises(GemmsmithError, match="252 bytes apart"):
        gemmsmith.tensor_map(np.zeros((20, 63), np.float32), box=(4, 32))
    with pytest.raises(DTypeError, match="no elements of complex64"):
        gemmsmith.tensor_map(np.zeros((20, 64), np.complex64), box=(4, 32))
    with pytest.raises(GemmsmithError, match="NaN outside the tensor is for floats"):
        gemmsmith.tensor_map(np.zeros((20, 64), np.int32), box=(4, 32), fill="nan")
    with pytest.raises(DTypeError, match="takes an array"):
        gemmsmith.tensor_map([1, 2], box=(4, 32))


def test_an_array_in_place_of_a_map_is_refused_by_name() -> None:
    with pytest.raises(DTypeError, match="map is a const CUtensorMap") as error:
        gemmsmith.launch(CODE, "pointed", grid=1, block=64, args=[PLANE, np.zeros(4, np.uint32), 0, 0, 16])
    assert "gemmsmith.tensor_map(map, box=" in error.value.hint
    made = gemmsmith.tensor_map(PLANE, box=(4, 32))
    with pytest.raises(DTypeError, match="a tensor map was given"):
        gemmsmith.launch(CODE, "box", grid=1, block=64, args=[made, np.zeros(4, np.uint32), made, 0, 16])


def test_clusters_of_a_launch_and_of_a_kernel() -> None:
    out = np.zeros(8, np.int32)
    run = gemmsmith.launch
    assert run(CODE, "ranks", grid=8, block=1, args=[out], cluster=4)["out"].tolist() == [40, 41, 42, 43] * 2
    assert run(CODE, "ranks", grid=8, block=1, args=[out])["out"].tolist() == [10] * 8
    result = run(CODE, "pairs", grid=8, block=1, args=[out])
    assert result["out"].tolist() == [0, 1] * 4
    assert result.geometry.cluster == (2, 1, 1)
    with pytest.raises(UsageError, match=r"pairs has __cluster_dims__\(2, 1, 1\)"):
        run(CODE, "pairs", grid=8, block=1, args=[out], cluster=4)
    with pytest.raises(UsageError, match=r"grid=\(6, 1, 1\) does not consist of clusters of \(4, 1, 1\)"):
        run(CODE, "ranks", grid=6, block=1, args=[out], cluster=4)
    with pytest.raises(UsageError, match="has 32 blocks"):
        run(CODE, "ranks", grid=32, block=1, args=[out], cluster=32)


def test_words() -> None:
    launch = gemmsmith.Launch(CODE, "copy", 3, 32, "from=tensor_map(randn(20, 32, f32), box=(8, 32)), "
                              "to=tensor_map(zeros(20, 32, f32), box=(8, 32), swizzle=0)",
                              expect=lambda **given: {"to": given["from"]})  # fmt: skip
    check = check_launch(launch)
    assert check.ok, check.outcomes
    with pytest.raises(UsageError, match="a tensor_map has no option 'boxes'"):
        gemmsmith.Launch(CODE, "copy", 3, 32, "a=tensor_map(randn(20,32,f32), boxes=(8,32))").arguments  # noqa: B018
