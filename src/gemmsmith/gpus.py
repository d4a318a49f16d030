"""Facts about GPUs, read from gpus.toml: limits per SM, peaks and bandwidths."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from gemmsmith.errors import UsageError


@dataclass(frozen=True)
class GPU:
    """One GPU model. Peaks are in TFLOPS (dense; fp32 on CUDA cores, the others on tensor cores with fp32 sums, 0 where
    there are none; int8 in TOPS, with int32 sums), bandwidth in GB/s, sizes in bytes.

    Fields with a default are the same on every architecture from sm_80 to sm_100; the table may still set them.
    They come from the CUDA C++ Programming Guide ("Compute Capabilities") and NVIDIA's cuda_occupancy.h.
    """

    name: str
    arch: int
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
    smem_per_sm: int
    smem_per_block: int
    reserved_smem_per_block: int
    threads_per_sm: int
    blocks_per_sm: int
    registers_per_sm: int
    source: str
    warp_size: int = 32
    threads_per_block: int = 1024
    registers_per_thread: int = 255
    register_unit: int = 256  # registers are given to a warp in multiples of this
    sm_partitions: int = 4  # each has a quarter of the registers, and a warp lives in one
    smem_unit: int = 128  # bytes; a block's shared memory is a multiple of this
    barriers_per_sm: int = 0  # 0: does not limit occupancy

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
        """``peak_tflops``; a GPU that has no units for it is refused."""
        peak = self.peak_tflops(arithmetic)
        if not peak > 0:
            raise UsageError(f"{self.name} has no tensor cores for {arithmetic}", "name another GPU or input type")
        return peak

    @property
    def warps_per_sm(self) -> int:
        return self.threads_per_sm // self.warp_size


def rate_unit(arithmetic: str) -> str:
    """What a rate in that arithmetic is called: integers are no flops."""
    return "TOPS" if arithmetic == "int8" else "TFLOPS"


@cache
def gpus() -> tuple[GPU, ...]:
    """Every GPU in the table."""
    table = tomllib.loads(files("gemmsmith").joinpath("gpus.toml").read_text(encoding="utf-8"))
    return tuple(GPU(name=name, **facts) for name, facts in table.items())


def gpu_named(name: str) -> GPU:
    """The GPU called ``name``, ignoring case, spaces and the vendor's prefix."""
    wanted = _plain(name)
    for gpu in gpus():
        if _plain(gpu.name) == wanted:
            return gpu
    raise UsageError(f"unknown GPU {name!r}", f"known: {', '.join(g.name for g in gpus())}")


def gpu_of_device(name: str, sms: int) -> GPU | None:
    """The GPU that the driver calls ``name``, such as 'NVIDIA H100 80GB HBM3'; None where it is not in the table.

    A name covers variants with fewer SMs (H100 PCIe, laptops) whose figures are others: those are not known.
    """
    words = " ".join(name.replace("-", " ").lower().split())
    for gpu in gpus():
        if f" {gpu.name.lower()} " in f" {words} " and gpu.sms == sms:
            return gpu
    return None


def _plain(name: str) -> str:
    return name.lower().replace("nvidia", "").replace("rtx", "").replace(" ", "").replace("-", "")
