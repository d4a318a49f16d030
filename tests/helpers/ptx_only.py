"""A compiler for kernels that are only simulated: NVRTC stops at PTX and skips ptxas, two fifths of the time.

The PTX is identical (test_ptx_only.py). It is for mutants and for tests that only read PTX. Tests of the machine code
compile as users do.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

from gemmsmith.compile import nvrtc, render
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
    """Compile to PTX only, once for all workers; front-end errors raise as usual.

    A copied kernel (``copy_kernel``) is compiled with the headers beside it, not with the package's own.
    """
    own = spec.source.parent / "include"
    headers = own if own.is_dir() else render.own_headers()
    with (
        patch.object(nvrtc, "options", _without_ptxas),
        patch.object(nvrtc, "parse_resources", _no_resources),
        patch.object(render, "own_headers", lambda: headers),
    ):
        return compile_for(spec, config, problem, arch, _cache_in(default_folder() / "ptx-only"))


def copy_kernel(spec: KernelSpec, folder: Path) -> KernelSpec:
    """``spec`` with its source, and all headers in ``include``, copied to ``folder``, where they can be edited."""
    shutil.copytree(spec.source.parent / "include", folder / "include")
    shutil.copyfile(spec.source, folder / spec.source.name)
    return replace(spec, source=folder / spec.source.name)


def find_file(folder: Path, name: str) -> Path:
    """A copied kernel's source or header, by its file name alone: the simulator names files that way."""
    (path,) = folder.rglob(name)
    return path


@cache
def _cache_in(folder: Path) -> CompileCache:
    return CompileCache(folder)


def _without_ptxas(request: CompileRequest) -> tuple[str, ...]:
    """A virtual architecture needs no ptxas."""
    kept = (option for option in _options(request) if not option.startswith("--ptxas-options"))
    return tuple(option.replace("--gpu-architecture=sm_", "--gpu-architecture=compute_") for option in kept)


def _no_resources(_log: str, _cubin: bytes, _entry: str) -> Resources:
    return NOT_ASSEMBLED
