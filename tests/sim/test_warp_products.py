"""A product of a warp ends the reads of all its lanes: a write that follows is no race, any other access still is."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_launch import run
from ptx_launch import scheduled

from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.races.hazards import HazardError

# Each warp has a tile of its own for A, and sums products of 16x16x16 over three steps of K.
SOURCE = r"""
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(const half* a, const half* b, float* c) {
    __shared__ half tiles[2][256];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int step = 0; step < 3; ++step) {
        half* tile = tiles[TILE];
        for (int i = lane; i < 256; i += 32) tile[i] = a[i / 16 * 48 + step * 16 + i % 16];
        FILLED
        wmma::load_matrix_sync(left, tile, 16);
        wmma::load_matrix_sync(right, b + step * 256, 16);
        PRODUCT
        READ
    }
    wmma::store_matrix_sync(c + warp * 256, sum, 16, wmma::mem_row_major);
}
"""
RIGHT = {"TILE": "warp", "FILLED": "__syncthreads();", "PRODUCT": "wmma::mma_sync(sum, left, right, sum);", "READ": ""}
NO_PRODUCT = "for (int i = 0; i < sum.num_elements; ++i) sum.x[i] += float(left.x[i]);"
RACES = {
    "nothing between the write and the product": {"FILLED": ""},
    "both warps fill one tile": {"TILE": "0", "FILLED": "__syncwarp();"},
    "lanes read and write with no product between them": {"PRODUCT": NO_PRODUCT},
    "a read after the product": {"READ": "sum.x[0] += float(tile[lane + 16]);"},
}


def outcome(changes: dict[str, str], order: str) -> tuple[float, int]:
    """The largest difference from NumPy's product, and how many pairs race."""
    source = SOURCE
    for name, text in {**RIGHT, **changes}.items():
        source = source.replace(name, text)
    random = np.random.default_rng(7)
    a, b = (random.integers(-4, 5, shape).astype(np.float16) for shape in ((16, 48), (48, 16)))
    c = np.zeros((2, 16, 16), np.float32)
    try:
        found = run(source, a, b, c, block=64, device=SimDevice(schedule=scheduled((order, 0)), hazards=True))[2]
    except HazardError as error:
        return 0.0, len(error.hazards)
    return float(np.abs(found - a.astype(np.float32) @ b.astype(np.float32)).max()), 0


@pytest.mark.parametrize("order", ["lockstep", "reversed"])
@pytest.mark.parametrize("filled", ["__syncthreads();", "__syncwarp();"])
def test_a_write_after_the_product_waits_for_all_lanes(filled: str, order: str) -> None:
    assert outcome({"FILLED": filled}, order) == (0.0, 0)


@pytest.mark.parametrize("mistake", RACES)
def test_whatever_else_is_not_ordered_by_a_product(mistake: str) -> None:
    assert outcome(RACES[mistake], "lockstep")[1] > 0
