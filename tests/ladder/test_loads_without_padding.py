"""wgmma_cluster loads the columns of a tile and no more, where that is a whole number of sectors."""

from __future__ import annotations

import pytest
from cluster_product import SMALL, SPEC, assert_close, problem_of, product

from gemmsmith.problem import BF16, FP32, DType


@pytest.mark.parametrize(
    ("layout", "config", "boxes"),
    [
        ("TN", {"SWAP": 1, "BN": 160, "CLUSTER_M": 4}, {"map_a": (64, 16, 1), "map_rest": (32, 16, 1)}),
        ("NN", {"BN": 96}, {"map_b": (64, 64, 1), "map_rest": (32, 64, 1)}),
        ("TT", {"SWAP": 1, "BN": 128}, {"map_a": (64, 64, 1)}),
        ("TN", {"SWAP": 1, "BN": 104}, {"map_a": (64, 64, 1)}),
        ("NT", {"SWAP": 1, "BN": 104, "CLUSTER_M": 4}, {"map_a": (64, 26, 1)}),
        ("NN", {"SWAP": 1, "BN": 72, "CLUSTER_M": 2}, {"map_a": (64, 36, 1)}),
    ],
)
def test_boxes_have_the_columns_of_a_tile(layout: str, config: dict[str, int], boxes: dict[str, tuple[int, ...]]
                                          ) -> None:  # fmt: skip
    assert SPEC.tensor_maps is not None
    maps = SPEC.tensor_maps(problem_of(512, 512, 512, layout), SPEC.config(SMALL | config))
    assert {name: maps[name].box for name in boxes} == boxes
    assert ("map_rest" in maps) == ("map_rest" in boxes)


@pytest.mark.parametrize(
    ("m", "n", "layout", "out", "config"),
    [
        (168, 256, "TN", FP32, {"SWAP": 1, "BN": 160, "CLUSTER_M": 4}),
        (50, 100, "NN", BF16, {"BN": 48, "CLUSTER_M": 2}),
        (104, 256, "NT", BF16, {"SWAP": 1, "BN": 104, "CLUSTER_M": 4}),
        (36, 256, "NT", FP32, {"SWAP": 1, "BN": 40, "CLUSTER_M": 4, "CLUSTER_N": 2}),
        (104, 192, "NT", BF16, {"SWAP": 1, "BN": 104, "BM": 192, "CONSUMERS": 3}),
        (104, 128, "TT", BF16, {"SWAP": 1, "BN": 104, "BM": 128}),
    ],
)
def test_products_are_right(m: int, n: int, layout: str, out: DType, config: dict[str, int]) -> None:
    n = -(-n // 8) * 8
    found, expected = product(config, problem_of(m, n, 136, layout, out))
    assert_close(found, expected, out)
