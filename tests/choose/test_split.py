"""The tile of an fp32 product by 16-bit products: the measured winners are chosen, and every choice is legal."""

from __future__ import annotations

import pytest

from gemmsmith.choose.choice import choose
from gemmsmith.choose.split import configuration_for
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem

H200 = 132


@pytest.mark.parametrize(("kernel", "size", "width"), [
    ("fp32_wgmma_fp16x3", 1024, 128), ("fp32_wgmma_fp16x3", 2048, 128), ("fp32_wgmma_fp16x3", 4096, 176),
    ("fp32_wgmma_fp16x3", 8192, 192), ("fp32_wgmma_bf16x6", 2048, 128), ("fp32_wgmma_bf16x6", 8192, 128),
])  # fmt: skip
def test_the_measured_winner_is_chosen(kernel: str, size: int, width: int) -> None:
    config = configuration_for(rung_named(kernel), Problem(size, size, size), H200)
    assert config is not None
    assert config["BN"] == width


@pytest.mark.parametrize("kernel", ["fp32_wgmma_fp16x3", "fp32_wgmma_bf16x6"])
def test_every_choice_is_legal(kernel: str) -> None:
    """For any shape, with all other parameters at their defaults."""
    spec = rung_named(kernel)
    for m, n, batch in ((1, 1, 1), (5000, 96, 1), (128, 100_000, 1), (300, 1000, 7), (1000, 176 * 3, 40)):
        for sms in (132, 114, 78, 1):
            config = configuration_for(spec, Problem(m, n, 512, batch=batch), sms)
            assert config is not None
            assert not spec.illegal(config)
            assert {k: v for k, v in config if k not in ("BN", "STAGES")} == {
                k: v for k, v in spec.config() if k not in ("BN", "STAGES")
            }


def test_other_rungs_have_no_such_choice() -> None:
    for kernel in ("simt_best", "fp32_tensor_bf16x6", "wgmma_cluster"):
        assert configuration_for(rung_named(kernel), Problem(1024, 1024, 1024), H200) is None


def test_choose_uses_it() -> None:
    chosen = choose(Problem(4096, 4096, 4096), "NVIDIA H200", sms=H200, arch="sm_90", precision="fp32-fast")
    assert (chosen.spec.name, chosen.config["BN"], chosen.source) == ("fp32_wgmma_fp16x3", 176, "model")
