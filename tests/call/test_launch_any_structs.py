"""Structs by value that hold tensor maps, several pointers and other structs: given field by field."""

from __future__ import annotations

import numpy as np
import pytest
from test_launch_any_tensor_maps import CODE

import gemmsmith
from gemmsmith.errors import DTypeError
from gemmsmith.verify.launch_check import check_launch

STRUCTS = (
    CODE
    + """
struct Extents { int rows; long long pitch; };
struct Params { int scale; CUtensorMap from; CUtensorMap to; const float* bias; float* sums; Extents extents; };
extern "C" __global__ void scaled(const __grid_constant__ Params params) {
    __shared__ alignas(1024) float tile[8 * 32];
    __shared__ unsigned long long barrier;
    int y = 8 * blockIdx.x;
    if (threadIdx.x == 0) load(&params.from, tile, 0, y, &barrier, 8 * 32 * 4);
    __syncthreads();
    wait(&barrier);
    float sum = 0;
    for (int row = 0; row < 8; ++row) {
        float value = tile[row * 32 + threadIdx.x] * params.scale + params.bias[threadIdx.x];
        tile[row * 32 + threadIdx.x] = value;
        sum += value;
    }
    if (y < params.extents.rows) params.sums[blockIdx.x * params.extents.pitch + threadIdx.x] = sum;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                     :: "l"(&params.to), "r"(0), "r"(y), "r"(shared(tile)) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"""
)
X = np.arange(16 * 32, dtype=np.float32).reshape(16, 32)
BIAS = np.arange(32, dtype=np.float32)


def test_maps_pointers_and_an_inner_struct() -> None:
    out, sums = np.zeros_like(X), np.zeros((2, 40), np.float32)
    maps = [gemmsmith.tensor_map(array, box=(8, 32)) for array in (X, out)]
    fields = (3, *maps, BIAS, sums, (16, np.int64(40)))
    result = gemmsmith.launch(STRUCTS, "scaled", grid=2, block=32, args=[fields])
    expected = X * 3 + BIAS
    assert np.array_equal(result["params.2"], expected)
    assert np.array_equal(result["params.4"][:, :32], expected.reshape(2, 8, 32).sum(axis=1))
    assert not result.hazards
    assert not result.damage


def test_the_same_in_words() -> None:
    words = ("params=struct(3, tensor_map(randn(16,32,f32), box=(8,32)), tensor_map(zeros(16,32,f32), box=(8,32)), "
             "randn(32,f32), zeros(2,32,f32), struct(16, 32:i64))")  # fmt: skip
    report = check_launch(gemmsmith.Launch(STRUCTS, "scaled", grid=2, block=32, args=words))
    assert report.ok


def test_fields_that_do_not_fit_are_told() -> None:
    with pytest.raises(DTypeError, match="has 384 bytes, and its 2 fields have 192"):
        gemmsmith.launch(STRUCTS, "scaled", grid=2, block=32, args=[(3, gemmsmith.tensor_map(X, box=(8, 32)))])
    with pytest.raises(DTypeError, match=r"params\.5\.0 is a str"):
        gemmsmith.launch(STRUCTS, "scaled", grid=2, block=32, args=[(3, BIAS, BIAS, BIAS, BIAS, ("rows",))])
