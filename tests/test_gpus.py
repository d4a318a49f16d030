"""The table of hardware facts agrees with itself, with NVIDIA's published limits and with cuda_occupancy.h."""

from __future__ import annotations

from dataclasses import fields

import pytest

from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.errors import UnsupportedError, UsageError
from gemmsmith.gpus import (
    GPU,
    Architecture,
    architecture,
    architectures,
    common_smem,
    common_threads_per_sm,
    cuda_limits,
    example_gpus,
    gpu_named,
    gpu_of_device,
    gpus,
    largest_smem,
    oldest_arch,
    oldest_driver,
    product_of_device,
    refused_arch,
)

KB = 1024
# Warps, blocks, shared memory per SM and per block, reserved per block, allocation unit, barriers per SM, FP32 lanes:
# CUDA C++ Programming Guide by compute capability, cuda_occupancy.h, and NVIDIA's cuda::arch_traits (CCCL).
LIMITS = {
    75: (32, 16, 64 * KB, 64 * KB, 0, 256, 0, 64),
    80: (64, 32, 164 * KB, 163 * KB, KB, 128, 0, 64),
    86: (48, 16, 100 * KB, 99 * KB, KB, 128, 0, 128),
    89: (48, 24, 100 * KB, 99 * KB, KB, 128, 0, 128),
    90: (64, 32, 228 * KB, 227 * KB, KB, 128, 64, 128),
    100: (64, 32, 228 * KB, 227 * KB, KB, 128, 64, 128),
    103: (64, 32, 228 * KB, 227 * KB, KB, 128, 32, 128),
    120: (48, 24, 100 * KB, 99 * KB, KB, 128, 24, 128),
}
PROMISED = (
    "T4", "RTX 2060", "RTX 2070", "RTX 2080", "RTX 2080 Ti", "RTX 3050", "RTX 3060", "RTX 3060 Ti", "RTX 3070",
    "RTX 3080", "RTX 3090", "RTX A6000", "A10", "A40", "A100", "L4", "L40S", "RTX 4060", "RTX 4070", "RTX 4080",
    "RTX 4090", "H20", "H100", "H200", "RTX 5070", "RTX 5080", "RTX 5090", "B200", "B300",
)  # fmt: skip
# Operations per SM and clock, dense, with fp32 accumulators: architecture whitepapers. GeForce cards have half of it,
# int8 excepted. The H20 has a quarter of Hopper's rates, the B300 a thirty-second of the B200's in int8.
KINDS = ("tf32", "fp16", "bf16", "fp8", "int8")
RATES = {
    75: (0, 1024, 0, 0, 2048), 80: (1024, 2048, 2048, 0, 4096), 86: (512, 1024, 1024, 0, 2048),
    89: (512, 1024, 1024, 2048, 2048), 90: (2048, 4096, 4096, 8192, 8192), 100: (4096, 8192, 8192, 16384, 16384),
    103: (4096, 8192, 8192, 16384, 512), 120: (512, 1024, 1024, 2048, 2048),
}  # fmt: skip
by_name = pytest.mark.parametrize("gpu", gpus(), ids=lambda g: g.name)
by_arch = pytest.mark.parametrize("arch", architectures(), ids=lambda a: f"sm_{a.arch}")


def rates(gpu: GPU) -> tuple[int, ...]:
    found = RATES[gpu.arch]
    if gpu.name == "H20":
        return tuple(rate // 4 for rate in found)
    geforce = gpu.name.startswith("RTX") and gpu.name != "RTX A6000"
    return (*(rate // 2 for rate in found[:-1]), found[-1]) if geforce else found


# --- architectures


@by_arch
def test_limits_are_nvidias(arch: Architecture) -> None:
    assert (
        arch.warps_per_sm, arch.blocks_per_sm, arch.smem_per_sm, arch.smem_per_block, arch.reserved_smem_per_block,
        arch.smem_unit, arch.barriers_per_sm, arch.units.fma_lanes,
    ) == LIMITS[arch.arch]  # fmt: skip
    assert arch.smem_per_block + arch.reserved_smem_per_block == arch.smem_per_sm
    assert (arch.registers_per_sm, arch.register_unit, arch.sm_partitions) == (65536, 256, 4)
    assert (arch.cp_async, arch.clusters) == (arch.arch >= 80, arch.arch >= 90)
    assert (arch.wgmma is not None) == (arch.arch == 90)


@by_arch
def test_types_of_tensor_cores(arch: Architecture) -> None:
    """PTX ISA, mma and wmma: bf16 and tf32 from sm_80 on, fp8 from sm_89 on."""
    assert arch.multiplies("fp16")
    assert arch.multiplies("int8")
    assert arch.multiplies("bf16") == arch.multiplies("tf32") == (arch.arch >= 80)
    assert arch.multiplies("fp8") == (arch.arch >= 89)
    assert not arch.multiplies("fp32")


def test_the_compiler_knows_every_architecture() -> None:
    assert {arch.arch for arch in architectures()} <= set(find_toolchain().archs)


def test_limits_that_kernels_ask_for() -> None:
    assert oldest_arch() == 75
    assert largest_smem() == 227 * KB
    assert (common_smem(75), common_smem(80), common_smem(100)) == (64 * KB, 99 * KB, 99 * KB)
    assert (common_threads_per_sm(75), common_threads_per_sm(80)) == (1024, 1536)
    limits = cuda_limits()
    assert (limits.warp_size, limits.threads_per_block, limits.registers_per_thread) == (32, 1024, 255)
    assert (limits.static_smem, limits.grid_yz, limits.block_z, limits.cluster_blocks) == (48 * KB, 65535, 64, 8)
    assert {arch.warp_size for arch in architectures()} == {limits.warp_size}
    with pytest.raises(UsageError, match="sm_70 is not in the table"):
        architecture(70)


def test_oldest_drivers() -> None:
    """CUDA Compatibility guide, minor version compatibility."""
    assert (oldest_driver(13), oldest_driver(12), oldest_driver(11)) == (580, 525, 0)


# --- products


def test_the_promised_ones_are_there() -> None:
    assert {gpu.name for gpu in gpus()} == set(PROMISED)
    assert len(gpus()) == len(PROMISED)


@by_name
def test_limits_are_the_architectures(gpu: GPU) -> None:
    own = architecture(gpu.arch)
    for field in fields(Architecture):
        assert getattr(gpu, field.name) == getattr(own, field.name)


@by_name
def test_peaks_are_rate_times_sms_times_clock(gpu: GPU) -> None:
    expected = 2 * gpu.units.fma_lanes * gpu.sms * gpu.boost_mhz * 1e6 / 1e12
    assert gpu.fp32_tflops == pytest.approx(expected, rel=0.01)
    for kind, rate in zip(KINDS, rates(gpu), strict=True):
        at_boost = rate * gpu.sms * gpu.boost_mhz / 1e6
        # A data sheet's tensor clock may be below the boost clock, by up to 8 % (Hopper: 1830 of 1980 MHz).
        assert 0.92 * at_boost <= gpu.peak_tflops(kind) <= 1.005 * at_boost, kind
        assert (gpu.peak_tflops(kind) > 0) == gpu.multiplies(kind)
        if rate:
            assert gpu.operations_per_clock(kind) == rate


@by_name
def test_figures_that_are_derived_are_exact(gpu: GPU) -> None:
    derived = dict(zip((f"{k}_tflops" for k in KINDS[:-1]), rates(gpu), strict=False))
    derived |= {"int8_tops": rates(gpu)[-1], "fp32_tflops": 2 * gpu.units.fma_lanes}
    for name in set(gpu.derived) - {"boost_mhz"}:
        assert getattr(gpu, name) == pytest.approx(derived[name] * gpu.sms * gpu.boost_mhz / 1e6, abs=0.06), name


@by_name
def test_sizes_are_of_the_right_order(gpu: GPU) -> None:
    assert 2 << 20 <= gpu.l2_bytes <= 256 << 20
    assert 200 <= gpu.dram_gbs <= 8000
    assert 8 <= gpu.fp32_tflops * 1000 / gpu.dram_gbs <= 110, "arithmetic intensity at the ridge"
    assert 70 <= gpu.tdp_watts <= 1100
    assert [group for group, _ in gpu.sources] == ["compute", "memory", "power"]
    assert all(len(text) > 10 for _, text in gpu.sources)
    assert set(gpu.derived) <= {field.name for field in fields(GPU)}


def test_one_gpu_stands_for_each_architecture() -> None:
    assert [gpu.arch for gpu in example_gpus()] == [arch.arch for arch in architectures()]


def test_names_and_aliases_are_unique() -> None:
    names = [name for gpu in gpus() for name in (gpu.name, *gpu.aliases)]
    assert len(set(names)) == len(names)
    for gpu in gpus():
        for name in (gpu.name, *gpu.aliases):
            assert gpu_named(name) == gpu


# --- names


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("h200", "H200"), ("NVIDIA H200", "H200"), (" H-200 ", "H200"), ("rtx4090", "RTX 4090"), ("4090", "RTX 4090"),
        ("GeForce RTX 4090", "RTX 4090"), ("H100 SXM", "H100"), ("h100-sxm5", "H100"), ("Tesla T4", "T4"),
        ("3060ti", "RTX 3060 Ti"), ("a6000", "RTX A6000"), ("A100 80GB", "A100"),
    ],
)  # fmt: skip
def test_spellings(spelling: str, name: str) -> None:
    assert gpu_named(spelling).name == name


@pytest.mark.parametrize("name", ["", "H300", "GeForce", "RTX"])
def test_an_unknown_one_lists_the_known(name: str) -> None:
    with pytest.raises(UsageError, match=f"unknown GPU {name!r}") as caught:
        gpu_named(name)
    assert "known: T4, " in caught.value.hint
    assert "H200" in caught.value.hint


@pytest.mark.parametrize(("name", "suggested"), [("4070 Ti", "RTX 4070"), ("H1000", "H100"), ("rtx 50900", "RTX 5090")])
def test_a_near_miss_is_suggested(name: str, suggested: str) -> None:
    with pytest.raises(UsageError) as caught:
        gpu_named(name)
    assert f"did you mean {suggested}" in caught.value.hint


@pytest.mark.parametrize("name", ["V100", "Tesla V100", "v100 sxm2"])
def test_what_the_compiler_dropped_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(UnsupportedError, match=r"V100 is not supported: it is sm_70 \(Volta\), and NVRTC 13"):
        gpu_named(name)
    assert refused_arch(70).startswith("V100: it is sm_70")
    assert refused_arch(90) == ""


@pytest.mark.parametrize(
    ("device", "sms", "name"),
    [
        ("NVIDIA H100 80GB HBM3", 132, "H100"), ("NVIDIA H100 PCIe", 114, ""), ("NVIDIA A100-SXM4-80GB", 108, "A100"),
        ("Tesla T4", 40, "T4"), ("NVIDIA A10", 72, "A10"), ("NVIDIA A10G", 80, ""), ("NVIDIA H20", 78, "H20"),
        ("NVIDIA GeForce RTX 3060 Ti", 38, "RTX 3060 Ti"), ("NVIDIA GeForce RTX 3060", 28, "RTX 3060"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 76, ""), ("NVIDIA B300 SXM6 AC", 148, "B300"),
        ("NVIDIA L40S", 142, "L40S"), ("NVIDIA GeForce RTX 4070 Ti", 46, ""), ("NVIDIA L40", 142, ""),
        ("NVIDIA GeForce RTX 4080 SUPER", 76, ""),
    ],
)  # fmt: skip
def test_the_drivers_names(device: str, sms: int, name: str) -> None:
    found = gpu_of_device(device, sms)
    assert (found.name if found else "") == name
    if name:
        assert product_of_device(device) == found
        assert gpu_of_device(device, sms + 1) is None
