"""Hardware facts, read from gpus.toml: CUDA's limits, architectures, GPU models, and the oldest driver that works.

Nothing else in the package states a hardware fact. Ask ``cuda_limits()`` for what holds everywhere,
``architecture(90)`` for the limits of a compute capability, ``gpu_named("H200")`` for a product.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from gemmsmith.errors import UnsupportedError, UsageError

# Words after a product's name that make it another product: an RTX 4070 Ti is no RTX 4070.
_OTHER_PRODUCT = frozenset({"ti", "super", "d", "laptop", "mobile", "max"})
_BRANDS = ("nvidia", "geforce", "tesla", "quadro", "rtx")


@dataclass(frozen=True)
class CudaLimits:
    """Limits that every architecture of the table shares. Sizes are in bytes."""

    warp_size: int
    threads_per_block: int
    block_z: int
    grid_x: int
    grid_yz: int
    registers_per_thread: int
    static_smem: int
    barriers_per_block: int
    cluster_blocks: int
    vector_bytes: int
    tma_box: int
    sector_bytes: int
    line_bytes: int
    wavefront_bytes: int
    source: str


@dataclass(frozen=True)
class SmUnits:
    """What one SM does in a cycle, and how many cycles a load waits.

    ``mma_share`` is the part of the tensor cores' peak that mma.sync reaches.
    """

    fma_lanes: int
    lsu_lanes: int
    issue: int
    l2_bytes: int
    l1_latency: int
    l2_latency: int
    mma_share: float
    source: str


@dataclass(frozen=True)
class Wgmma:
    """Shapes of wgmma.mma_async: ``rows`` x N, with N up to ``largest_columns`` in steps; ``k_bytes`` per operand."""

    rows: int
    largest_columns: int
    column_step: int
    k_bytes: int
    source: str


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """One compute capability: ``arch`` is 90 for sm_90. Limits are per SM, per block or per thread.

    example           the product that stands for it where one of each architecture is shown
    tensor_types      what its tensor cores multiply with mma.sync or wmma
    register_unit     registers are allocated to a warp in multiples of this
    sm_partitions     each has an equal share of the registers, and a warp lives in one
    smem_unit         a block's shared memory is allocated in multiples of this
    barriers_per_sm   named barriers; 0 where they do not limit occupancy
    chip_sms          SMs of the largest chip, of which products have some disabled; 0 where the table does not say
    """

    arch: int
    family: str
    example: str
    tensor_types: tuple[str, ...]
    cp_async: bool
    clusters: bool
    threads_per_sm: int
    blocks_per_sm: int
    barriers_per_sm: int
    registers_per_sm: int
    register_unit: int
    sm_partitions: int
    smem_per_sm: int
    smem_per_block: int
    reserved_smem_per_block: int
    smem_unit: int
    warp_size: int
    threads_per_block: int
    registers_per_thread: int
    units: SmUnits
    limits_source: str
    wgmma: Wgmma | None = None
    chip_sms: int = 0

    @property
    def warps_per_sm(self) -> int:
        return self.threads_per_sm // self.warp_size

    def multiplies(self, arithmetic: str) -> bool:
        """Whether the tensor cores multiply 'fp16', 'bf16', 'tf32', 'fp8' or 'int8'."""
        return arithmetic in self.tensor_types


@dataclass(frozen=True, kw_only=True)
class GPU(Architecture):
    """One GPU model: its architecture's limits and its own figures.

    Peaks are dense, in TFLOPS (int8 in TOPS): fp32 on CUDA cores, the others on tensor cores with fp32 accumulators,
    0 where they lack the type. Bandwidth is in GB/s, sizes in bytes. ``derived`` names the fields that were computed
    from the ``sources`` rather than found in them.
    """

    name: str
    sms: int
    boost_mhz: int
    fp32_tflops: float
    tf32_tflops: float
    fp16_tflops: float
    bf16_tflops: float
    fp8_tflops: float
    int8_tops: float
    dram_gbs: float
    l2_bytes: int
    tdp_watts: int
    sources: tuple[tuple[str, str], ...]
    aliases: tuple[str, ...] = ()
    derived: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """Where the figures come from, in one line."""
        return "; ".join(dict.fromkeys((*(text for _, text in self.sources), self.limits_source)))

    def peak_tflops(self, arithmetic: str) -> float:
        """The dense peak in 'fp32', 'tf32', 'fp16', 'bf16', 'fp8' or 'int8' (operations, not flops); 0 where none.

        'bf16x6' is fp32 by six products in bf16, 'fp16x3' by three in fp16.
        """
        narrow, by, products = arithmetic.partition("x")
        if by and products.isdigit():
            return self.peak_tflops(narrow) / int(products)
        field = "int8_tops" if arithmetic == "int8" else f"{arithmetic}_tflops"
        return float(getattr(self, field, 0.0))

    def required_peak(self, arithmetic: str) -> float:
        """``peak_tflops``; raises for a GPU that has no units for it."""
        peak = self.peak_tflops(arithmetic)
        if arithmetic == "fp64":
            raise UsageError("the time of fp64 products on tensor cores is not modelled",
                             "gemmsmith profile counts their instructions, gemmsmith check judges them")  # fmt: skip
        if not peak > 0:
            raise UsageError(f"{self.name} has no tensor cores for {arithmetic}", "name another GPU or input type")
        return peak

    def operations_per_clock(self, arithmetic: str) -> int:
        """Operations per SM and clock behind a peak: the power of two nearest to peak / (SMs x boost clock).

        Data sheets give tensor peaks at a clock up to 8 % below the boost clock (H100: 989 TFLOPS is
        4096 x 132 x 1.83 GHz), never near the half-way point of 41 %.
        """
        return int(2 ** round(math.log2(self.required_peak(arithmetic) * 1e6 / (self.sms * self.boost_mhz))))


def rate_unit(arithmetic: str) -> str:
    """The unit of a rate in that arithmetic: integer operations are no flops."""
    return "TOPS" if arithmetic == "int8" else "TFLOPS"


# --- the table


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(files("gemmsmith").joinpath("gpus.toml").read_text(encoding="utf-8"))


@cache
def cuda_limits() -> CudaLimits:
    """Limits that hold on every architecture of the table."""
    return CudaLimits(**_table()["cuda"])


@cache
def architectures() -> tuple[Architecture, ...]:
    """Every architecture of the table, oldest first."""
    return tuple(Architecture(**_limits(int(number))) for number in sorted(_table()["arch"], key=int))


def architecture(number: int) -> Architecture:
    """The architecture with compute capability ``number``: 90 for sm_90."""
    found = next((each for each in architectures() if each.arch == number), None)
    if found is None:
        known = ", ".join(f"sm_{each.arch}" for each in architectures())
        raise UsageError(f"sm_{number} is not in the table of architectures", f"known: {known}")
    return found


def oldest_arch() -> int:
    """The oldest compute capability that kernels are compiled for."""
    return architectures()[0].arch


def largest_smem() -> int:
    """The most shared memory that a block can have on any architecture."""
    return max(each.smem_per_block for each in architectures())


def common_smem(oldest: int) -> int:
    """The shared memory that a block can have on every architecture from ``oldest`` on."""
    return min(each.smem_per_block for each in architectures() if each.arch >= oldest)


def common_threads_per_sm(oldest: int) -> int:
    """The threads that an SM of every architecture from ``oldest`` on holds."""
    return min(each.threads_per_sm for each in architectures() if each.arch >= oldest)


@cache
def gpus() -> tuple[GPU, ...]:
    """Every GPU in the table."""
    return tuple(_gpu(name, facts) for name, facts in _table()["gpu"].items())


def example_gpus() -> tuple[GPU, ...]:
    """One GPU of each architecture."""
    return tuple(gpu_named(arch.example) for arch in architectures())


def oldest_driver(cuda_major: int) -> int:
    """The oldest driver branch that runs what CUDA ``cuda_major`` compiled; 0 where the table does not say."""
    return int(_table()["driver"].get(f"cuda_{cuda_major}", 0))


def refused_arch(number: int) -> str:
    """Why an architecture is refused, where the table names a product of it: 'V100: it is sm_70 …'; else empty."""
    for name, facts in _table()["refused"].items():
        if facts["arch"] == number:
            return f"{name}: {facts['reason']}"
    return ""


def _limits(number: int) -> dict[str, Any]:
    """The fields of an architecture, with CUDA's own limits among them."""
    facts = dict(_table()["arch"][str(number)])
    common = cuda_limits()
    wgmma = facts.pop("wgmma", None)
    return facts | {
        "arch": number,
        "tensor_types": tuple(facts["tensor_types"]),
        "warp_size": common.warp_size,
        "threads_per_block": common.threads_per_block,
        "registers_per_thread": common.registers_per_thread,
        "units": SmUnits(**facts["units"]),
        "wgmma": Wgmma(**wgmma) if wgmma else None,
    }


def _gpu(name: str, facts: Mapping[str, Any]) -> GPU:
    own = dict(facts)
    own["sources"] = tuple(own["sources"].items())
    for listed in ("aliases", "derived"):
        own[listed] = tuple(own.get(listed, ()))
    return GPU(name=name, **(_limits(facts["arch"]) | own))


# --- by name


def gpu_named(name: str) -> GPU:
    """The GPU that a person calls ``name``: case, spaces, hyphens and brand names are ignored ('rtx4090', '4090').

    A product that is refused by name raises ``UnsupportedError`` with the reason.
    """
    wanted = _plain(name)
    by_name = {_plain(each): gpu for gpu in gpus() for each in (gpu.name, *gpu.aliases)}
    if wanted in by_name:
        return by_name[wanted]
    known = f"known: {', '.join(gpu.name for gpu in gpus())}"
    for product, facts in _table()["refused"].items():
        if wanted and wanted in {_plain(each) for each in (product, *facts["aliases"])}:
            raise UnsupportedError(f"{product} is not supported: {facts['reason']}", known)
    close = difflib.get_close_matches(wanted, by_name, n=3, cutoff=0.5)
    names = " or ".join(dict.fromkeys(by_name[each].name for each in close))
    raise UsageError(f"unknown GPU {name!r}", f"did you mean {names}? {known}" if names else known)


def gpu_of_device(name: str, sms: int) -> GPU | None:
    """The GPU that the driver calls ``name``, such as 'NVIDIA H100 80GB HBM3'; None where it is not in the table.

    Products with the same name and another number of SMs (H100 PCIe, laptops) have other figures: not in the table.
    """
    found = product_of_device(name)
    return found if found is not None and found.sms == sms else None


def product_of_device(name: str) -> GPU | None:
    """``gpu_of_device`` whatever the number of SMs."""
    words = name.replace("-", " ").lower().split()
    for gpu in sorted(gpus(), key=lambda gpu: -len(gpu.name)):
        own = gpu.name.lower().split()
        for start in range(len(words) - len(own) + 1):
            end = start + len(own)
            if words[start:end] == own and not (end < len(words) and words[end] in _OTHER_PRODUCT):
                return gpu
    return None


def _plain(name: str) -> str:
    plain = name.lower().replace(" ", "").replace("-", "")
    for brand in _BRANDS:
        plain = plain.replace(brand, "")
    return plain
