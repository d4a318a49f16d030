"""Where tiles go by GPC: one wave of small tiles in clusters of two."""

from __future__ import annotations

import numpy as np
import pytest
from cost_cases import CHIP

from gemmsmith.choose.by_gpc import seconds_by_gpc, tiles_by_gpc
from gemmsmith.choose.candidates import ranked
from gemmsmith.choose.columns import shape_of, tiles_of
from gemmsmith.choose.constants import Constants
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, Problem

SPEC = rung_named("wgmma_cluster")
TILE = {"BM": 128, "BN": 64, "STAGES": 8, "CONSUMERS": 2, "CLUSTER_M": 1, "CLUSTER_N": 2, "GROUP": 8, "STORE_MODE": 2,
        "STORE_BOXES": 1, "TAIL_BN": 0, "SWAP": 0, "SLICES": 1, "CLUSTER_K": 1}  # fmt: skip


@pytest.mark.parametrize(
    ("m", "n", "changes", "possible"),
    [(1024, 1024, {}, True), (768, 1024, {}, True), (1000, 1000, {}, True),
     (512, 1024, {"BM": 64, "CONSUMERS": 1}, True), (1024, 1024, {"CLUSTER_M": 2, "CLUSTER_N": 1}, False),
     (1024, 1024, {"CLUSTER_N": 1}, False), (1024, 1024, {"CLUSTER_M": 2}, False),
     (1024, 1024, {"SLICES": 2}, False), (1024, 1024, {"CONSUMERS": 1}, False), (2048, 1024, {}, False),
     (2048, 1024, {"BN": 128}, False), (256, 4096, {}, False), (512, 512, {}, False)],
)  # fmt: skip
def test_one_wave_of_pairs_goes_by_gpc(m: int, n: int, changes: dict[str, int], possible: bool) -> None:
    tiles, shape = tiles_of([TILE | changes]), shape_of(Problem(m, n, 8192, BF16, BF16))
    assert list(tiles_by_gpc(shape, tiles, CHIP)) == [possible]


def test_a_launch_that_is_not_hidden_costs_more_than_a_short_product_gains() -> None:
    tiles, before = tiles_of([TILE]), np.array([5e-6])
    short, long = (shape_of(Problem(1024, 1024, k, BF16, BF16)) for k in (512, 8192))
    assert seconds_by_gpc(short, tiles, CHIP, before) == before
    assert seconds_by_gpc(long, tiles, CHIP, 6 * before) < 6 * before


def test_candidates_by_gpc_are_legal_and_wait_for_an_idle_gpu() -> None:
    problem = Problem(1024, 1024, 8192, BF16, BF16, trans_b=True)
    found = [c.config for c in ranked(problem, CHIP, Constants()) if c.spec is SPEC and c.config["SLICES"] == 1]
    placed = [config for config in found if config["SLICE_ORDER"]]
    assert placed
    assert len(placed) < len(found)
    for config in placed:
        assert not SPEC.illegal(config)
        assert (config["CLUSTER_M"], config["CLUSTER_N"], config["GROUP"]) == (1, 2, 4)
        assert not SPEC.geometry(problem, config).pdl
