"""The compiler that commands use: NVRTC behind one cache folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gemmsmith.errors import MissingKernelError

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

        try:
            return compile_for(spec, config, problem, arch, _cache(self.folder) if self.folder is not None else None)
        except MissingKernelError as error:
            raise _with_condition(spec, error) from None


def _with_condition(spec: KernelSpec, error: MissingKernelError) -> MissingKernelError:
    """The error, saying which condition of the preprocessor leaves the kernel out."""
    from gemmsmith.userfile.kernels.conditional_kernel import hidden_entry

    if (hidden := hidden_entry(spec)) is None:
        return error
    helps = f"add {hidden.options}" if hidden.defines else "give the macros in it with -D NAME=VALUE"
    return MissingKernelError(f"{spec.entry} is inside {hidden}, which does not hold", helps)


@cache
def _cache(folder: Path) -> CompileCache:
    from gemmsmith.compile.cache import CompileCache

    return CompileCache(folder)
