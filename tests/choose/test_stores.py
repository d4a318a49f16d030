"""Stores of a transposed tile are counted as a launch makes them, for every layout and both output types."""

from __future__ import annotations

import pytest

from gemmsmith.choose.columns import tiles_of
from gemmsmith.ladder.families.hopper_store import boxes_of_a_store, specialize_store
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, FP32, DType, Problem

TILES = ((128, 136, 5, 1, 4), (128, 144, 5, 1, 4), (64, 152, 8, 1, 1), (192, 184, 4, 3, 1), (128, 104, 7, 1, 1))


@pytest.mark.parametrize("layout", ["NT", "NN", "TN", "TT"])
@pytest.mark.parametrize("out", [BF16, FP32])
@pytest.mark.parametrize("tile", TILES)
def test_stores_are_those_of_a_launch(tile: tuple[int, ...], out: DType, layout: str) -> None:
    names = ("BM", "BN", "STAGES", "CONSUMERS", "CLUSTER_M")
    config = rung_named("wgmma_cluster").config(dict(zip(names, tile, strict=True)) | {"SWAP": 1, "CLUSTER_N": 1})
    problem = Problem(1024, 1024, 1024, BF16, out, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    launched = specialize_store(config, problem, (256, 256, 256))
    tiles = tiles_of([dict(config)], layout)
    counted = (tiles.stores if out == BF16 else tiles.stores_32)[0]
    m_tiles, boxes = config["BM"] // (64 * config["CONSUMERS"]), config["BN"] // 8
    in_a_store = boxes_of_a_store(launched) if launched["STORE_BOXES"] else 1  # from registers: as many small stores
    assert counted == m_tiles * boxes // in_a_store


def test_every_configuration_has_its_own_layout() -> None:
    """152 rows are 19 boxes of 8. Operands across k leave no room for all of them, not even with a stage less."""
    config = dict(rung_named("wgmma_cluster").config({"BM": 128, "BN": 152, "STAGES": 5, "CONSUMERS": 2, "SWAP": 1}))
    assert [tiles_of([config], layout).stores_32[0] for layout in ("NT", "TT")] == [1, 19]
    assert list(tiles_of([config, config], ["NT", "TT"]).stores_32) == [1, 19]
