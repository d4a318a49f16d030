"""wgmma_cluster with BLOCKS=2: an SM runs two blocks, each with half of its shared memory and registers."""

from __future__ import annotations

import pytest
from test_transposed_and_sliced import SPEC, assert_close, problem_of, product

from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import ConfigError
from gemmsmith.kernel.spec import Addresses
from gemmsmith.ladder.families.hopper import HALF_SMEM
from gemmsmith.problem import BF16, FP32, DType

TWO = {"BLOCKS": 2, "CONSUMERS": 1, "CLUSTER_M": 1, "GROUP": 8}


@pytest.mark.parametrize(
    ("m", "n", "k", "layout", "out", "config"),
    [
        (130, 72, 72, "NT", BF16, {"BM": 128, "BN": 64, "STAGES": 2}),
        (72, 200, 136, "TN", FP32, {"BM": 64, "BN": 96, "STAGES": 3, "SWAP": 1}),
        (100, 136, 40, "NN", FP32, {"BM": 64, "BN": 64, "STAGES": 2, "CLUSTER_M": 2}),
    ],
)
def test_products_are_right(m: int, n: int, k: int, layout: str, out: DType, config: dict[str, int]) -> None:
    assert_close(*product(TWO | config, problem_of(m, n, k, layout, out)), out)


@pytest.mark.parametrize("swap", [0, 1])
@pytest.mark.parametrize("out", [BF16, FP32])
def test_two_blocks_fit_on_an_sm(swap: int, out: DType) -> None:
    """By registers, which are those of 512 threads, and by shared memory, with all boxes of outputs that fit."""
    problem = problem_of(1024, 1024, 256, "NT", out)
    given = SPEC.config(TWO | {"BM": 128, "BN": 128, "STAGES": 2, "SWAP": swap})
    config = SPEC.specialize(given, problem, Addresses(256, 256, 256))
    assert config["STORE_BOXES"] > 1
    assert HALF_SMEM // 2 < SPEC.geometry(problem, config).smem <= HALF_SMEM
    used = compile_for(SPEC, config, problem, "sm_90").resources
    assert used.registers <= 128
    assert used.spill_stores == 0


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"BM": 128, "BN": 128, "STAGES": 2, "CONSUMERS": 2}, "one consumer each"),
        ({"BM": 128, "BN": 176, "STAGES": 2}, "accumulators per thread"),
        ({"BM": 64, "BN": 208, "STAGES": 2}, "BN=192 fit"),
        ({"BM": 128, "BN": 128, "STAGES": 4}, "of two on an SM each has 115,712 B"),
    ],
)
def test_what_does_not_fit_is_refused(config: dict[str, int], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        SPEC.config(TWO | config)
