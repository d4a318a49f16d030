"""Textures, cooperative grids and malloc on a GPU: the same bits as on the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gemmsmith
from gemmsmith.errors import UsageError
from gemmsmith.run.cuda import gpu_available

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs an NVIDIA GPU")]
CODE = """
#include <cooperative_groups.h>
__global__ void sample(cudaTextureObject_t image, cudaTextureObject_t line, cudaTextureObject_t volume,
                       cudaSurfaceObject_t surface, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float u = i * 0.0137f - 0.3f;
    float weight = tex1Dfetch<float>(line, i % 70 - 3);
    out[i] = tex2D<float>(image, u, 1 - u) + weight * tex3D<float>(volume, 9 * u, 4 * u, u);
    float old = surf2Dread<float>(surface, 4 * (i % 16), i % 4);
    if (i < 64) surf2Dwrite(old + out[i], surface, 4 * (i % 16), 4 + i / 16);
}
__global__ void mirror(float* a, float* b, int n) {
    auto grid = cooperative_groups::this_grid();
    int i = grid.thread_rank();
    a[i] = b[i] + 1;
    grid.sync();
    b[i] = a[n - 1 - i];
}
__global__ void heap(int* out) {
    int* mine = new int[threadIdx.x + 1];
    mine[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = mine[threadIdx.x];
    delete[] mine;
}
"""


def values(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


LAUNCHES: dict[str, dict[str, Any]] = {
    "sample": {"grid": 4, "block": 128, "args": [
        gemmsmith.texture(values(9, 14), filter="linear", address="mirror", normalized=True),
        gemmsmith.texture(values(60), resource="linear"),
        gemmsmith.texture(values(3, 4, 9), filter="linear", address="border", border=0.5),
        gemmsmith.surface(values(8, 16)), np.zeros(500, np.float32), 500]},
    "mirror": {"grid": 20, "block": 64, "cooperative": True, "args": [values(1280), values(1280), 1280]},
    "heap": {"grid": 1, "block": 64, "args": [np.zeros(64, np.int32)]},
}  # fmt: skip


@pytest.mark.parametrize("kernel", LAUNCHES)
def test_both_devices_give_the_same_bits(kernel: str) -> None:
    sim, gpu = (gemmsmith.launch(CODE, kernel, device=device, **LAUNCHES[kernel]) for device in ("sim", "gpu"))
    assert sim.ok
    assert gpu.ok
    for name, expected in sim.by_name.items():
        assert np.asarray(gpu[name]).tobytes() == np.asarray(expected).tobytes(), name


def test_a_grid_that_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="at once"):
        gemmsmith.launch(CODE, "mirror", grid=100_000, block=64, cooperative=True, device="gpu",
                         args=[values(64), values(64), 64])  # fmt: skip
