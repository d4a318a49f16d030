"""The repack kernel, compiled and cached as any rung is, though it is no product."""

from __future__ import annotations

from dataclasses import replace

from gemmsmith.compile.cache import CompileCache, cache_key
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import default_cache
from gemmsmith.compile.includes import bundle
from gemmsmith.compile.nvrtc import check_arch, compile_request
from gemmsmith.compile.render import CompileRequest
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.kernels.repack import REPACK


def compile_repack(arch: str, cache: CompileCache | None = None) -> CompiledKernel:
    """The machine code and PTX of the repack kernel for ``arch``; without ``cache`` the user's is used."""
    store = cache if cache is not None else default_cache()
    what = (REPACK, arch)
    if (known := store.memo.get(what)) is not None:
        store.count_hit()
        return known
    toolchain = find_toolchain()
    check_arch(arch, toolchain)
    request = _request(arch)
    key = cache_key(request, toolchain)
    compiled = store.get(key, lambda: compile_request(request, toolchain, key))
    store.memo.put(what, request.files, replace(compiled, cached=True))
    return compiled


def _request(arch: str) -> CompileRequest:
    parts = bundle(REPACK.source, ())
    return CompileRequest(REPACK.source.name, parts.source, parts.headers, REPACK.extra_defines, arch, REPACK.entry,
                          device_only=True, files=parts.files)  # fmt: skip
