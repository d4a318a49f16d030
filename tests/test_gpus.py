"""The table of GPUs agrees with itself and with the architectures' limits."""

from __future__ import annotations

import pytest

from gemmsmith.errors import UsageError
from gemmsmith.gpus import GPU, gpu_named, gpus

KB = 1024
# Warps, blocks and shared memory per SM, shared memory per block: CUDA C++ Programming Guide, by compute capability.
LIMITS = {
    80: (64, 32, 164 * KB, 163 * KB),
    86: (48, 16, 100 * KB, 99 * KB),
    89: (48, 24, 100 * KB, 99 * KB),
    90: (64, 32, 228 * KB, 227 * KB),
    100: (64, 32, 228 * KB, 227 * KB),
}
FP32_LANES = {80: 64, 86: 128, 89: 128, 90: 128, 100: 128}
by_name = pytest.mark.parametrize("gpu", gpus(), ids=lambda g: g.name)


@pytest.mark.parametrize("name", ["RTX 3050", "RTX A6000", "RTX 4090", "A100", "H100", "H200", "B200"])
def test_the_promised_ones_are_there(name: str) -> None:
    assert gpu_named(name).name == name


@by_name
def test_limits_are_the_architectures(gpu: GPU) -> None:
    assert (gpu.threads_per_sm // 32, gpu.blocks_per_sm, gpu.smem_per_sm, gpu.smem_per_block) == LIMITS[gpu.arch]
    assert gpu.reserved_smem_per_block == KB
    assert gpu.smem_per_block + gpu.reserved_smem_per_block == gpu.smem_per_sm
    assert gpu.registers_per_sm == 65536


@by_name
def test_the_peak_is_lanes_times_clock(gpu: GPU) -> None:
    expected = 2 * FP32_LANES[gpu.arch] * gpu.sms * gpu.boost_mhz * 1e6 / 1e12
    assert gpu.fp32_tflops == pytest.approx(expected, rel=0.01)


@by_name
def test_sizes_are_of_the_right_order(gpu: GPU) -> None:
    assert 2 << 20 <= gpu.l2_bytes <= 256 << 20
    assert 200 <= gpu.dram_gbs <= 8000
    assert 8 <= gpu.fp32_tflops * 1000 / gpu.dram_gbs <= 100, "arithmetic intensity at the ridge"
    assert len(gpu.source) > 20


def test_names_are_unique() -> None:
    assert len({g.name for g in gpus()}) == len(gpus())


@pytest.mark.parametrize("spelling", ["h200", "NVIDIA H200", " H-200 ", "nvidia h200"])
def test_spellings(spelling: str) -> None:
    assert gpu_named(spelling).sms == 132


@pytest.mark.parametrize("name", ["", "H300", "GeForce"])
def test_an_unknown_one_lists_the_known(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        gpu_named(name)
    assert "H200" in caught.value.hint
