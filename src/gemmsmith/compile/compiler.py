"""The compile stage in one call: render, look in the cache, compile."""

from __future__ import annotations

from dataclasses import replace
from functools import cache as once
from pathlib import Path

from gemmsmith.compile.cache import CompileCache, cache_key
from gemmsmith.compile.cache_folder import default_folder
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.nvrtc import check_arch, compile_request
from gemmsmith.compile.render import render_kernel
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.kernels.spec import Config, KernelSpec
from gemmsmith.problem import DType


def compile_kernel(
    spec: KernelSpec,
    config: Config,
    *,
    dtype: DType,
    trans_a: bool = False,
    trans_b: bool = False,
    arch: str,
    cache: CompileCache | None = None,
) -> CompiledKernel:
    """The machine code and PTX of ``spec`` in ``config`` for ``arch`` ("sm_80", "sm_90a").

    Without ``cache`` the user's is used. ``cached`` and ``cache_path`` of the result say whether it was compiled now
    and where it lies. Raises ``CompileError`` with the compiler's log, ``UsageError`` for an architecture, type or
    layout that does not fit, ``MissingDeviceError`` without a compiler.
    """
    store = cache if cache is not None else default_cache()
    what = (spec, config, dtype, trans_a, trans_b, arch)
    if (known := store.memo.get(what)) is not None:
        store.count_hit()
        return known
    toolchain = find_toolchain()
    check_arch(arch, toolchain)
    request = render_kernel(spec, config, dtype=dtype, trans_a=trans_a, trans_b=trans_b, arch=arch)
    key = cache_key(request, toolchain)
    compiled = store.get(key, lambda: compile_request(request, toolchain, key))
    store.memo.put(what, request.files, replace(compiled, cached=True))
    return compiled


def default_cache() -> CompileCache:
    """The cache of the user's folder: one object per process and folder."""
    return _cache_in(default_folder())


@once
def _cache_in(folder: Path) -> CompileCache:
    return CompileCache(folder)
