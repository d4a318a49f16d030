"""wgmma_cluster with CLUSTER_K: blocks of a cluster divide K and add up partial sums, fetched or sent (SEND).
Right at edges, in every layout; the same bits in every schedule of the simulator; legal only where sums fit."""

from __future__ import annotations

import numpy as np
import pytest
from cluster_product import SMALL, SPEC, assert_close, problem_of, product
from test_transposed_and_sliced import SWAPPED

from gemmsmith.errors import ConfigError
from gemmsmith.problem import BF16, FP32, DType
from gemmsmith.sim.schedule import NAMES

PARTS = {"CLUSTER_K": 2, "BN": 32}


@pytest.mark.parametrize(
    ("m", "n", "k", "layout", "out", "config"),
    [
        (50, 40, 200, "NT", BF16, PARTS), (64, 32, 40, "NN", FP32, PARTS),
        (30, 72, 300, "TN", FP32, SWAPPED | {"CLUSTER_K": 4}),
        (100, 136, 264, "TT", BF16, SWAPPED | {"CLUSTER_K": 2, "CLUSTER_M": 2}),
        (140, 40, 136, "NN", FP32, {"BM": 128, "BN": 16, "CONSUMERS": 2, "CLUSTER_N": 2, "CLUSTER_K": 2}),
    ],
)  # fmt: skip
def test_parts_of_k_are_added_up(m: int, n: int, k: int, layout: str, out: DType, config: dict[str, int]) -> None:
    """Sent sums are added in the same order, so they have the same bits."""
    fetched, expected = product(config, problem_of(m, n, k, layout, out))
    assert_close(fetched, expected, out)
    assert np.array_equal(product(config | {"SEND": 1}, problem_of(m, n, k, layout, out))[0], fetched)


@pytest.mark.parametrize("schedule", NAMES)
@pytest.mark.parametrize("send", [0, 1])
def test_every_schedule_gives_the_same_bits(schedule: str, send: int) -> None:
    config, problem = SWAPPED | {"CLUSTER_K": 2, "CLUSTER_M": 2}, problem_of(40, 136, 264, "NT", FP32)
    assert np.array_equal(product(config | {"SEND": send}, problem, schedule)[0], product(config, problem)[0])


def test_sums_of_many_tiles_are_sent_one_tile_after_another() -> None:
    """More tiles than the simulated GPU has clusters: every tile waits for its own sums."""
    problem = problem_of(64 * 3, 16 * 24, 72, "NT", FP32)
    assert_close(*product({"BN": 16, "CLUSTER_K": 2, "SEND": 1}, problem), FP32)


def test_k_is_divided_once() -> None:
    with pytest.raises(ConfigError, match="one of them must be 1"):
        SPEC.config(SMALL | PARTS | {"SLICES": 2})
    with pytest.raises(ConfigError, match="blocks in a cluster; 8 fit"):
        SPEC.config(SMALL | PARTS | {"CLUSTER_M": 4, "CLUSTER_K": 4})
    with pytest.raises(ConfigError, match="SEND=1 needs CLUSTER_K"):
        SPEC.config(SMALL | {"BN": 32, "SEND": 1})


def test_partial_sums_must_fit_into_the_stages() -> None:
    with pytest.raises(ConfigError, match="partial sums do not fit"):
        SPEC.config({"BM": 256, "BN": 192, "STAGES": 3, "CONSUMERS": 2, "CLUSTER_M": 1, "CLUSTER_K": 2})
