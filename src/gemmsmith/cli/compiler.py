"""The compiler that commands use: NVRTC behind one cache folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gemmsmith.compile.cache import CompileCache
    from gemmsmith.compile.compiled import CompiledKernel
    from gemmsmith.kernel.config import Config
    from gemmsmith.kernel.spec import KernelSpec
    from gemmsmith.problem import Problem


@dataclass(frozen=True)
class Compiler:
    """Compiles kernels into ``folder``, or into the user's cache; a ``CompileFn`` for verification."""

    folder: Path | None = None

    def __call__(self, spec: KernelSpec, config: Config, problem: Problem, arch: str) -> CompiledKernel:
        from gemmsmith.compile.compiler import compile_for

        return compile_for(spec, config, problem, arch, _cache(self.folder) if self.folder is not None else None)


@cache
def _cache(folder: Path) -> CompileCache:
    from gemmsmith.compile.cache import CompileCache

    return CompileCache(folder)
