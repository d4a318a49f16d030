"""Compile: from a kernel and its configuration to PTX, machine code and their resources."""

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
