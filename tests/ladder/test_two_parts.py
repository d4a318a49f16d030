"""wgmma_cluster where a consumer has 128 rows in two parts, one of which is stored while the other is multiplied.

Right at edges, with alpha, and over several tiles of a block; the same bits as where each consumer has 64 rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cluster_product import assert_close, problem_of, product

from gemmsmith.problem import BF16, FP32, DType

TWO_PARTS = {"BM": 128, "BN": 128, "CONSUMERS": 1}
ONE_PART = {"BM": 128, "BN": 128, "CONSUMERS": 2}
MORE_TILES_THAN_SMS = (12 * 128 + 8, 12 * 128, 64)


@pytest.mark.parametrize(
    ("shape", "layout", "out", "config"),
    [
        ((200, 136, 200), "NT", BF16, {}),
        ((72, 264, 64), "NN", FP32, {"CLUSTER_N": 2}),
        ((136, 200, 136), "TN", BF16, {"SWAP": 1, "CLUSTER_M": 2}),
        ((130, 72, 72), "NT", FP32, {"SWAP": 1}),
    ],
    ids=["edges", "32-bit", "transposed", "transposed-32-bit"],
)
def test_products_are_right(shape: tuple[int, int, int], layout: str, out: DType, config: dict[str, int]) -> None:
    problem = replace(problem_of(*shape, layout, out), alpha=-0.75)
    found, expected = product(TWO_PARTS | config, problem)
    assert_close(found, -0.75 * expected, out)
    assert np.array_equal(found, product(ONE_PART | config, problem)[0])


@pytest.mark.parametrize("swap", [0, 1], ids=["plain", "transposed"])
def test_a_block_with_several_tiles_stores_all_of_them(swap: int) -> None:
    found, expected = product(TWO_PARTS | {"SWAP": swap}, problem_of(*MORE_TILES_THAN_SMS))
    assert_close(found, expected, BF16)
