"""Facts about GPUs, read from gpus.toml: limits per SM, peaks and bandwidths."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from gemmsmith.errors import UsageError


@dataclass(frozen=True)
class GPU:
    """One GPU model. Peaks are in TFLOPS (dense), bandwidth in GB/s, sizes in bytes."""

    name: str
    arch: int
    sms: int
    boost_mhz: int
    fp32_tflops: float
    dram_gbs: float
    l2_bytes: int
    smem_per_sm: int
    smem_per_block: int
    reserved_smem_per_block: int
    threads_per_sm: int
    blocks_per_sm: int
    registers_per_sm: int
    source: str


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


def _plain(name: str) -> str:
    return name.lower().replace("nvidia", "").replace("rtx", "").replace(" ", "").replace("-", "")
