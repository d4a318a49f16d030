"""Options that several commands share, and how their text becomes values."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gemmsmith.compile.cache import CompileCache
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.run.cuda import CudaDevice, cuda_device, gpu_available
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.schedule import NAMES, schedule_named
from gemmsmith.userfile.user_kernel import UserOptions, user_kernel

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Kernel = Annotated[str, typer.Argument(metavar="RUNG|FILE.cu", help="A rung of the ladder, or a .cu file.")]
DeviceName = Annotated[str, typer.Option("--device", help="auto, sim or gpu.")]
ConfigText = Annotated[str, typer.Option("--config", help="Parameters to change: BM=64,BN=64.")]
PresetName = Annotated[str, typer.Option("--preset", help="Start from one of the rung's published configurations.")]
Defines = Annotated[
    list[str] | None, typer.Option("-D", metavar="NAME=VALUE", help="A parameter of a rung, or a macro of a file.")
]
Arch = Annotated[str, typer.Option("--arch", help="Compile for this architecture, such as sm_86.")]
Entry = Annotated[str, typer.Option("--entry", help="The kernel's name, if a file has several.")]
Grid = Annotated[str, typer.Option("--grid", help="Blocks as expressions of M, N, K: 'ceil(N/32),ceil(M/32)'.")]
Block = Annotated[str, typer.Option("--block", help="Threads in a block: '32,32' or '256'.")]
Smem = Annotated[str, typer.Option("--smem", help="Bytes of dynamic shared memory, as an expression.")]
SignatureText = Annotated[str, typer.Option("--signature", help="What the parameters mean, in order: 'A,B,C,M,N,K'.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the random operands.")]
ScheduleName = Annotated[str, typer.Option("--schedule", help=f"Order of warps on the simulator: {', '.join(NAMES)}.")]
CacheDir = Annotated[
    Path | None, typer.Option("--cache-dir", help="Folder of compiled kernels.", envvar="GEMMSMITH_CACHE_DIR")
]

DEFAULT_ARCH = "sm_90"


@dataclass(frozen=True)
class Compiler:
    """Compiles kernels into one cache folder; has the form that verification asks for."""

    folder: Path | None = None

    def __call__(self, spec: KernelSpec, config: Config, problem: Problem, arch: str) -> CompiledKernel:
        cache = _cache(self.folder) if self.folder is not None else None
        return compile_for(spec, config, problem, arch, cache)


_CACHES: dict[Path, CompileCache] = {}


def _cache(folder: Path) -> CompileCache:
    if folder not in _CACHES:
        _CACHES[folder] = CompileCache(folder)
    return _CACHES[folder]


def pairs(texts: list[str] | None) -> tuple[tuple[str, str], ...]:
    """``NAME=VALUE`` texts as pairs; a bare NAME is 1, as for a C compiler."""
    result = []
    for text in texts or []:
        name, _, value = text.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name.strip()):
            raise UsageError(f"{text!r} is not NAME=VALUE", "write it as -DBM=64")
        result.append((name.strip(), value.strip() or "1"))
    return tuple(result)


def integers(values: tuple[tuple[str, str], ...]) -> dict[str, int | str]:
    """Configuration values as integers; a word is left for the kernel, which may have a value of that name."""
    result: dict[str, int | str] = {}
    for name, value in values:
        try:
            result[name] = int(value)
        except ValueError:
            result[name] = value
    return result


def find_kernel(
    name: str, config: str = "", preset: str = "", defines: list[str] | None = None, user: UserOptions | None = None
) -> tuple[KernelSpec, Config]:
    """A rung by name, or a user's file by path, with its configuration."""
    given = pairs([part for part in config.split(",") if part.strip()]) + pairs(defines)
    options = user or UserOptions()
    if name.endswith((".cu", ".cuh")) or "/" in name:
        if preset:
            raise UsageError("a file has no presets", "set its macros with -D")
        spec = user_kernel(Path(name), UserOptions(options.entry, options.grid, options.block, options.smem,
                                                   options.signature, given))  # fmt: skip
        return spec, spec.config()
    if options != UserOptions():
        raise UsageError(f"{name} is a rung; --entry, --grid, --block, --smem and --signature are for files")
    spec = rung_named(name)
    return spec, spec.config(integers(given), preset)


def find_device(
    name: str,
    schedule: str = "lockstep",
    seed: int = 0,
    mod32: bool = False,
    hazards: bool = False,
    timeout: float = math.inf,
) -> SimDevice | CudaDevice:
    """The device a command runs on; 'auto' is the GPU where there is one. The last four are for the simulator."""
    if name not in ("auto", "sim", "gpu"):
        raise UsageError(f"unknown device {name!r}", "use auto, sim or gpu")
    if name == "gpu" or (name == "auto" and gpu_available()):
        return cuda_device()
    return SimDevice(DEFAULT_ARCH, schedule_named(schedule, seed), mod32=mod32, hazards=hazards, timeout=timeout)
