"""wgmma_cluster with several k-tiles in a stage: right in every layout, where K ends inside a stage, and where K is
divided; the same bits as with one, unless K is divided."""

from __future__ import annotations

import numpy as np
import pytest
from cluster_product import assert_close, problem_of, product

from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, FP32, DType

SPEC = rung_named("wgmma_cluster")


@pytest.mark.parametrize(
    ("m", "n", "k", "layout", "out", "config"),
    [
        (70, 72, 136, "NT", BF16, {"BN": 64, "DEPTH": 2}),
        (64, 64, 64, "TT", BF16, {"BN": 32, "DEPTH": 4}),
        (100, 136, 520, "TN", FP32, {"SWAP": 1, "BN": 40, "DEPTH": 2, "CLUSTER_M": 2}),
        (130, 72, 700, "NT", FP32, {"BN": 64, "DEPTH": 2, "SLICES": 3}),
        (130, 72, 700, "NN", FP32, {"BN": 64, "DEPTH": 2, "CLUSTER_K": 2}),
    ],
)
def test_products_are_right(m: int, n: int, k: int, layout: str, out: DType, config: dict[str, int]) -> None:
    found, expected = product(config, problem_of(m, n, k, layout, out))
    assert_close(found, expected, out)
    if "SLICES" not in config and "CLUSTER_K" not in config:
        single, _ = product(config | {"DEPTH": 1}, problem_of(m, n, k, layout, out))
        assert np.array_equal(found, single)


def test_shared_memory_holds_all_k_tiles() -> None:
    problem = problem_of(64, 64, 64)
    one, two = (SPEC.geometry(problem, SPEC.config({"BM": 64, "BN": 64, "STAGES": stages, "DEPTH": depth,
                                                    "CONSUMERS": 1})).smem
                for stages, depth in ((8, 1), (4, 2)))  # fmt: skip
    assert one - two == 4 * 16, "only barriers are fewer"
