"""Compile: from a kernel and its configuration to PTX, machine code and their resources.

Each name is imported when it is first used: refusing a file needs no compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gemmsmith.compile.cache import CacheInfo, CompileCache, cache_key
    from gemmsmith.compile.cache_folder import default_folder
    from gemmsmith.compile.compiled import CompiledKernel, Resources
    from gemmsmith.compile.compiler import compile_kernel, default_cache
    from gemmsmith.compile.nvrtc import compile_request
    from gemmsmith.compile.render import CompileRequest, render_kernel
    from gemmsmith.compile.sass import Instruction, Loop, Sass, disassemble
    from gemmsmith.compile.toolchain import Toolchain, find_nvdisasm, find_toolchain

__all__ = [
    "CacheInfo",
    "CompileCache",
    "CompileRequest",
    "CompiledKernel",
    "Instruction",
    "Loop",
    "Resources",
    "Sass",
    "Toolchain",
    "cache_key",
    "compile_kernel",
    "compile_request",
    "default_cache",
    "default_folder",
    "disassemble",
    "find_nvdisasm",
    "find_toolchain",
    "render_kernel",
]

_HOMES = {
    **dict.fromkeys(("CacheInfo", "CompileCache", "cache_key"), "cache"), "default_folder": "cache_folder",
    **dict.fromkeys(("CompiledKernel", "Resources"), "compiled"),
    **dict.fromkeys(("compile_kernel", "default_cache"), "compiler"), "compile_request": "nvrtc",
    **dict.fromkeys(("CompileRequest", "render_kernel"), "render"),
    **dict.fromkeys(("Instruction", "Loop", "Sass", "disassemble"), "sass"),
    **dict.fromkeys(("Toolchain", "find_nvdisasm", "find_toolchain"), "toolchain"),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
