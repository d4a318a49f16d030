"""What a wave of tiles stores at once: the formula beside the outputs of its tiles, one by one."""

from __future__ import annotations

import pytest

from gemmsmith.choose.columns import shape_of, tiles_of
from gemmsmith.choose.order import stored_at_once
from gemmsmith.choose.waves import chip_of, tile_grid, used_sms
from gemmsmith.gpus import gpu_named
from gemmsmith.problem import BF16, FP32, DType, Problem

CONFIG = {"BM": 128, "BN": 64, "STAGES": 4, "CONSUMERS": 2, "CLUSTER_M": 1, "CLUSTER_N": 1, "GROUP": 8, "SWAP": 0}
CHIP = chip_of(gpu_named("H200"))


def first_wave(group: int, down: int, across: int, sms: int) -> list[tuple[int, int]]:
    """Tiles in their order: down the columns of a group of rows, then the next group."""
    found = []
    for top in range(0, down, group):
        rows = range(top, min(top + group, down))
        found += [(row, column) for column in range(across) for row in rows]
    return found[:sms]


@pytest.mark.parametrize("out", [BF16, FP32], ids=lambda each: each.name)
@pytest.mark.parametrize("swap", [0, 1])
@pytest.mark.parametrize("group", [4, 8, 16])
@pytest.mark.parametrize(("m", "n"), [(8192, 8192), (512, 3072), (1024, 16384)], ids=["large", "flat", "wide"])
def test_a_wave_stores_as_its_tiles_do(out: DType, swap: int, group: int, m: int, n: int) -> None:
    problem = Problem(m, n, 1024, BF16, out, trans_b=True)
    shape, tiles = shape_of(problem), tiles_of([CONFIG | {"GROUP": group, "SWAP": swap}], "NT")
    rows, cols = (n, m) if swap else (m, n)
    wave = first_wave(group, rows // 128, cols // 64, CHIP.sms)
    begun, wide = {row // group for row, _ in wave}, len({column for _, column in wave})
    high = min(len(begun) * group, rows // 128)  # of groups, the last one may be begun only
    of_row, of_column = (high * 128, wide * 64) if swap else (wide * 64, high * 128)
    beside, below = stored_at_once(shape, tiles, tile_grid(shape, tiles), used_sms(tiles, CHIP))
    assert (beside[0], below[0]) == (of_row * out.itemsize, of_column)
