"""wgmma_cluster with tiles of more than 256 columns, which two wgmma multiply side by side: right in every layout, with
edges, in clusters and parts of K; a box of TMA still ends at 256 rows."""

from __future__ import annotations

import pytest
from cluster_product import assert_close, problem_of, product

from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, FP32, DType

SPEC = rung_named("wgmma_cluster")


@pytest.mark.parametrize(
    ("m", "n", "k", "layout", "out", "config"),
    [
        (70, 360, 136, "NT", BF16, {"BN": 304}),
        (64, 320, 72, "NN", FP32, {"BN": 272}),
        (300, 72, 136, "NN", BF16, {"BN": 280, "SWAP": 1}),
        (300, 72, 136, "NT", BF16, {"BN": 264, "SWAP": 1}),
        (330, 136, 72, "TT", BF16, {"BN": 320, "SWAP": 1, "CLUSTER_M": 2}),
        (130, 304, 200, "TT", FP32, {"BN": 304, "CLUSTER_N": 2}),
        (64, 280, 264, "NT", FP32, {"BN": 272, "CLUSTER_K": 2}),
    ],
)
def test_products_are_right(m: int, n: int, k: int, layout: str, out: DType, config: dict[str, int]) -> None:
    assert_close(*product(config, problem_of(m, n, k, layout, out)), out)


@pytest.mark.parametrize("swap", [0, 1])
@pytest.mark.parametrize("shares", [1, 2, 4])
def test_boxes_end_at_256_rows(swap: int, shares: int) -> None:
    for columns in (264 if swap else 272, 320):
        config = SPEC.config({"BN": columns, "STAGES": 3, "SWAP": swap, "CLUSTER_M": shares})
        maps = SPEC.tensor_maps(problem_of(1024, 1024, 1024), config)
        loaded = maps["map_a" if swap else "map_b"].box[1]
        assert loaded <= 256
        assert columns % (loaded * shares) == 0
