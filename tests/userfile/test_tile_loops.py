"""Which numbers bound loops over tiles or items in which threads wait for each other, and which bound others."""

from __future__ import annotations

import pytest

from gemmsmith.userfile.kernels.tile_loops import tile_loops


@pytest.mark.parametrize(
    ("body", "tiles", "items"),
    [
        ("for (int k = 0; k < K; k += 32) { a[t] = x[k]; __syncthreads(); }", "K", ""),
        ("const int nk = (p.K + 31) / 32; for (int t = 0; t < nk; ++t) { barrier.arrive_and_wait(); }", "p.K", ""),
        ("for (int i = blockIdx.x; i < n; i += gridDim.x) { __syncwarp(); }", "", "n"),
        ("while (true) { if (t == 0) s = atomicAdd(c, 1); __syncthreads(); if (s >= work) return; }", "", "work"),
        ("for (int r = 0; r < R; ++r) sum += a[r];", "", ""),
        ("for (int k = lane; k < K; k += 32) s += __shfl_xor_sync(~0u, x[k], 1);", "", ""),
        ("for (int b = 0; b < n; ++b) { for (int k = 0; k < K; k += 8) { wait(b); } }", "K", "n"),
        ("for (int k = 0; k < K; k += 16) { meet(); }", "K", ""),
    ],
)
def test_names(body: str, tiles: str, items: str) -> None:
    names = ("K", "p.K", "n", "work", "R")
    found = tile_loops(body, {"meet"})
    assert " ".join(filter(found.walks_tiles, names)) == tiles
    assert " ".join(filter(found.walks_items, names)) == items


def test_members_of_a_copy() -> None:
    found = tile_loops("for (int k = 0; k < p.k; k += 8) { __syncthreads(); }")
    assert found.walks_tiles("list.k")
    assert not found.walks_tiles("list.m")
