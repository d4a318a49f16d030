"""The compile stage in one call: render, look in the cache, compile."""

from __future__ import annotations

from dataclasses import replace
from functools import cache as once
from pathlib import Path

from gemmsmith.compile.cache import CompileCache, cache_key
from gemmsmith.compile.cache_folder import default_folder
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.nvrtc import check_arch, compile_request
from gemmsmith.compile.prebuilt import prebuilt
from gemmsmith.compile.render import render_for, render_kernel
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import FP32, DType, Problem


def compile_kernel(
    spec: KernelSpec,
    config: Config,
    *,
    dtype: DType,
    out_dtype: DType = FP32,
    trans_a: bool = False,
    trans_b: bool = False,
    bias: str = "",
    activation: str = "",
    arch: str,
    cache: CompileCache | None = None,
) -> CompiledKernel:
    """The machine code and PTX of ``spec`` in ``config`` for ``arch`` ("sm_80", "sm_90a").

    An architecture-specific kernel is compiled for "sm_90a" where "sm_90" is asked for. Without ``cache``, the user's
    is used; ``cached`` and ``cache_path`` of the result say whether it came from there and where it is stored. Raises
    ``CompileError`` with the compiler's log, ``UsageError`` for an architecture, type or layout that the kernel does
    not have, and ``MissingDeviceError`` without a compiler.
    """
    store = cache if cache is not None else default_cache()
    what = (spec, config, dtype, out_dtype, trans_a, trans_b, bias, activation, arch)
    if (known := store.memo.get(what)) is not None:
        store.count_hit()
        return known
    toolchain = find_toolchain()
    check_arch(arch, toolchain)
    request = render_kernel(spec, config, dtype=dtype, out_dtype=out_dtype, trans_a=trans_a, trans_b=trans_b,
                            bias=bias, activation=activation, arch=arch)  # fmt: skip
    key = cache_key(request, toolchain)
    compiled = prebuilt(key) or store.get(key, lambda: compile_request(request, toolchain, key))
    store.memo.put(what, request.files, replace(compiled, cached=True))
    return compiled


def compile_for(
    spec: KernelSpec, config: Config, problem: Problem, arch: str, cache: CompileCache | None = None
) -> CompiledKernel:
    """``compile_kernel`` for the types, layout and epilogue of a problem."""
    return compile_kernel(
        spec, config, dtype=problem.dtype, out_dtype=problem.out_dtype, trans_a=problem.trans_a,
        trans_b=problem.trans_b, bias=problem.bias, activation=problem.activation, arch=arch, cache=cache,
    )  # fmt: skip


def compile_elsewhere(spec: KernelSpec, config: Config, problem: Problem, arch: str) -> None:
    """``compile_for`` into the user's cache, by another process; this one does not load the compiler."""
    toolchain = find_toolchain()
    request = render_for(spec, config, problem, arch)
    key = cache_key(request, toolchain)
    default_cache().get(key, lambda: compile_request(request, toolchain, key, elsewhere=True))


def is_compiled(spec: KernelSpec, config: Config, problem: Problem, arch: str) -> bool:
    """Whether ``compile_for`` would find its kernel in the user's cache or in the package."""
    toolchain = find_toolchain()
    key = cache_key(render_for(spec, config, problem, arch), toolchain)
    return default_cache().has(key) or prebuilt(key) is not None


def default_cache() -> CompileCache:
    """The cache in the user's folder: one object per process and folder."""
    return _cache_in(default_folder())


@once
def _cache_in(folder: Path) -> CompileCache:
    return CompileCache(folder)
