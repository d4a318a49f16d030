"""wgmma_cluster with two blocks on an SM, whose producer is one warp: right in every layout, the same bits as with one
block; what does not fit twice is rejected."""

from __future__ import annotations

import numpy as np
import pytest
from cluster_product import assert_close, problem_of, product

from gemmsmith.errors import GemmsmithError
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, FP32, DType

SPEC = rung_named("wgmma_cluster")


@pytest.mark.parametrize(
    ("m", "n", "k", "layout", "out", "config"),
    [
        (70, 72, 136, "NT", BF16, {"BN": 64}),
        (130, 72, 200, "TN", FP32, {"BM": 128, "BN": 64, "CONSUMERS": 2}),
        (130, 136, 72, "NN", BF16, {"BM": 128, "BN": 48, "CONSUMERS": 2, "SWAP": 1, "CLUSTER_M": 2}),
        (66, 40, 136, "TT", BF16, {"BN": 32, "CLUSTER_N": 2}),
        (70, 72, 520, "NT", FP32, {"BN": 64, "SLICES": 2}),
        (70, 72, 520, "NN", BF16, {"BN": 64, "CLUSTER_K": 2}),
    ],
)
def test_products_are_right(m: int, n: int, k: int, layout: str, out: DType, config: dict[str, int]) -> None:
    found, expected = product(config | {"BLOCKS": 2}, problem_of(m, n, k, layout, out))
    assert_close(found, expected, out)
    one, _ = product(config, problem_of(m, n, k, layout, out))
    assert np.array_equal(found, one)


def test_two_blocks_have_fewer_threads_and_fit() -> None:
    problem = problem_of(256, 256, 256)
    two = SPEC.config({"BM": 128, "BN": 128, "STAGES": 3, "BLOCKS": 2})
    geometry = SPEC.geometry(problem, two)
    assert geometry.threads == 2 * 128 + 32
    assert 2 * (geometry.smem + 1024) <= 233_472, "bytes of an H200's SM"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"BM": 128, "BN": 128, "STAGES": 4}, "each of BLOCKS=2 blocks on an SM has 115,712 B"),
        ({"BM": 128, "BN": 160, "STAGES": 2}, "80 accumulators per thread, but with 2 consumers and BLOCKS=2"),
    ],
)
def test_what_does_not_fit_twice_is_rejected(config: dict[str, int], words: str) -> None:
    with pytest.raises(GemmsmithError, match=words):
        SPEC.config(config | {"BLOCKS": 2})
