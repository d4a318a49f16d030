"""What the Hopper rungs refuse: other architectures, and configurations that do not fit, with the arithmetic."""

from __future__ import annotations

import pytest
from hopper_problems import NAMES, STORING

from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import ConfigError, UnsupportedError
from gemmsmith.kernel.renamed import DIRECT, THREADS
from gemmsmith.ladder.registry import rung_named, rungs_for
from gemmsmith.problem import BF16, FP32, Problem


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", NAMES)
def test_another_architecture_is_refused(name: str, arch: str) -> None:
    spec = rung_named(name)
    with pytest.raises(UnsupportedError) as caught:
        compile_for(
            spec,
            spec.config({"STORE_MODE": DIRECT} if name in STORING else {}),
            Problem(512, 512, 512, BF16, FP32),
            arch,
        )
    assert f"{name} uses instructions that only sm_90 has, so it cannot be compiled for {arch}" in caught.value.message
    assert spec not in rungs_for(int(arch.removeprefix("sm_")))


REFUSED = [
    ("wgmma_tma", {"BM": 96}, "BM=96 is not one of 64, 128, 192, 256"),
    ("wgmma_tma", {"BN": 24}, "BN=24 is not one of 16, 32, 48"),
    (
        "wgmma_tma",
        {"BM": 256},
        "BN/2 = 256/2 = 128 accumulators per thread, but with 4 warpgroups 96 fit",
    ),
    (
        "wgmma_tma",
        {"STAGES": 6},
        "STAGES·(BM+BN)·128 = 6·(128+256)·128 = 294,912 B for k-tiles and what else it needs are 295,008 B",
    ),
    ("wgmma_specialized", {"CONSUMERS": 3}, "BM=128 rows are not a multiple of 64 for each of 3 consumers"),
    ("wgmma_specialized", {"BM": 256, "STAGES": 2}, "= 256 accumulators per thread, but with 2 consumers 208 fit"),
    (
        "wgmma_split_k",
        {"BM": 192, "BN": 128, "STAGES": 2, "SPLIT": 1, "UNALIGNED_OPERANDS": 1},
        "192 accumulators and 48 registers of an unaligned operand",
    ),
    (
        "wgmma_split_k",
        {"BM": 256, "BN": 112, "STAGES": 2, "CONSUMERS": 2, "SPLIT": 1, "UNALIGNED_OPERANDS": 1},
        "with 2 consumers 136",
    ),
    ("wgmma_persistent", {"STORE_BOXES": 3}, "STORE_BOXES=3 does not divide the 4 boxes of 64 columns that BN=256 has"),
    ("wgmma_persistent", {"STORE_BOXES": 0}, "STORE_BOXES=0 does not divide the 4 boxes"),
    ("wgmma_persistent", {"STORE_BOXES": 4}, "of shared memory, but a block has 232,448 B"),
    ("wgmma_persistent", {"STORE_MODE": THREADS, "STORE_BOXES": 3}, "STORE_BOXES=3 does not divide the 4 boxes of 64"),
    ("wgmma_persistent", {"STORE_MODE": THREADS, "STORE_BOXES": 4}, "of shared memory, but a block has 232,448 B"),
    ("wgmma_persistent", {"STORE_BOXES": 17}, "STORE_BOXES=17 is not one of 0, 1, 2"),
    (
        "wgmma_cluster",
        {"CLUSTER_M": 4, "CLUSTER_N": 4},
        "CLUSTER_M·CLUSTER_N = 4·4 = 16 blocks in a cluster; 8 are",
    ),
    ("wgmma_stream_k", {"BN": 16, "CLUSTER_M": 4}, "CLUSTER_N·8 must divide BM and CLUSTER_M·8 BN"),
    ("wgmma_cluster", {"BN": 152}, "without SWAP the columns of a tile come in multiples of 16, but BN=152"),
    ("wgmma_cluster", {"TAIL_BN": 128, "SWAP": 1}, "TAIL_BN=128 needs SWAP=0 and SLICES=1"),
    ("wgmma_cluster", {"TAIL_BN": 128, "SLICES": 2}, "TAIL_BN=128 needs SWAP=0 and SLICES=1"),
    ("wgmma_cluster", {"TAIL_BN": 128, "CLUSTER_K": 2}, "TAIL_BN=128 needs CLUSTER_K=1"),
    ("wgmma_cluster", {"BN": 152, "STAGES": 2, "SWAP": 1, "STORE_BOXES": 3}, "the 19 boxes of 8 that BN=152 has"),
    ("wgmma_cluster", {"BN": 128, "TAIL_BN": 128}, "TAIL_BN=128 columns are not fewer than BN=128"),
    ("wgmma_cluster", {"BN": 64, "TAIL_BN": 192}, "TAIL_BN=192 columns are not fewer than BN=64"),
    (
        "wgmma_cluster",
        {"BN": 208, "TAIL_BN": 128},
        "TAIL_BN tiles come in boxes of 64, so BN=208 must be a multiple",
    ),
    ("wgmma_cluster", {"TAIL_BN": 96}, "TAIL_BN=96 is not one of 0, 64, 128, 192"),
    ("wgmma_split_k", {"SPLIT": 3}, "SPLIT=3 is not one of 1, 2, 4, 8"),
    ("wgmma_split_k", {"DEPTH": 4, "STAGES": 12}, "of shared memory, but a block has 232,448 B"),
    ("wgmma_stream_k", {"GROUP": 5}, "GROUP=5 is not one of 1, 2, 4, 6, 8, 12, 16"),
]


@pytest.mark.parametrize(("name", "changes", "reason"), REFUSED, ids=[f"{n}-{c}" for n, c, _ in REFUSED])
def test_an_illegal_configuration_is_refused_with_the_arithmetic(
    name: str, changes: dict[str, int], reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        rung_named(name).config(changes)
    assert reason in str(caught.value)
