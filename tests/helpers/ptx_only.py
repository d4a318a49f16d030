"""A compiler for kernels that are only simulated: NVRTC stops at PTX and skips ptxas, two fifths of the time.

The PTX is identical (test_ptx_only.py). It is for mutants and for tests that only read PTX. Tests of the machine code
compile as users do.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from unittest.mock import patch

from gemmsmith.compile import nvrtc
from gemmsmith.compile.cache import CompileCache
from gemmsmith.compile.cache_folder import default_folder
from gemmsmith.compile.compiled import CompiledKernel, Resources
from gemmsmith.compile.compiler import compile_for
from gemmsmith.compile.render import CompileRequest
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem

NOT_ASSEMBLED = Resources(0, 0, 0, 0, 0, 0, 0)
_options = nvrtc.options


def compile_to_ptx(spec: KernelSpec, config: Config, problem: Problem, arch: str) -> CompiledKernel:
    """Compile to PTX only, once for all workers; front-end errors raise as usual."""
    with patch.object(nvrtc, "options", _without_ptxas), patch.object(nvrtc, "parse_resources", _no_resources):
        return compile_for(spec, config, problem, arch, _cache_in(default_folder() / "ptx-only"))


@cache
def _cache_in(folder: Path) -> CompileCache:
    return CompileCache(folder)


def _without_ptxas(request: CompileRequest) -> tuple[str, ...]:
    """A virtual architecture needs no ptxas."""
    kept = (option for option in _options(request) if not option.startswith("--ptxas-options"))
    return tuple(option.replace("--gpu-architecture=sm_", "--gpu-architecture=compute_") for option in kept)


def _no_resources(_log: str, _cubin: bytes, _entry: str) -> Resources:
    return NOT_ASSEMBLED
