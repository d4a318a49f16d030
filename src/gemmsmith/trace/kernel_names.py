"""Readable kernel names: demangled, without namespaces, return type and parameters."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from typing import Any

_QUALIFIER = re.compile(r"(?:\(anonymous namespace\)::|[A-Za-z_]\w*::)+")
# cudaLaunchKernel_v7000 is cudaLaunchKernel of CUDA 7.0; cuMemAlloc_v2 is the driver's own name and is kept.
_SINCE = re.compile(r"_v\d{4,5}$")


@cache
def demangled(name: str) -> str:
    """Demangle a C++ name with the C++ library's own function; other names are returned unchanged."""
    if not name.startswith("_Z"):
        return name
    library = _cxx_library()
    if library is None:
        return name
    status = ctypes.c_int(0)
    address = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if not address:
        return name
    try:
        return (ctypes.string_at(address) if status.value == 0 else name.encode()).decode(errors="replace")
    finally:
        library.free(ctypes.c_void_p(address))


@cache
def short_name(name: str) -> str:
    """``void at::native::fill<4, float>(int, float*)`` as ``fill<4, float>``; ``[CUDA memcpy …]`` is kept."""
    if name.startswith("["):
        return name
    text = _without_parameters(name).strip()
    text = _QUALIFIER.sub("", text)
    return text.removeprefix("void ").strip() or name


def as_written(symbol: str) -> str:
    """A kernel's symbol as its author wrote it: ``ns::gemm<64, float>``; without return type and parameters."""
    return _without_parameters(demangled(symbol)).removeprefix("void ").strip()


def api_name(name: str) -> str:
    """A CUDA call's name without the version that CUPTI appends."""
    return _SINCE.sub("", name)


def _without_parameters(name: str) -> str:
    """Remove a trailing balanced pair of parentheses; template arguments may contain others."""
    text = name.removesuffix(" const").rstrip()
    if not text.endswith(")"):
        return text
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[at], 0)
        if depth == 0:
            return text[:at] if at > 0 else text
    return text


@cache
def _cxx_library() -> Any:
    try:
        library = ctypes.CDLL("libstdc++.so.6")
        demangle = library.__cxa_demangle
        library.free.argtypes = [ctypes.c_void_p]
        library.free.restype = None
    except (OSError, AttributeError):
        return None
    demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    # An address, not c_char_p: ctypes would copy the text and lose the pointer to free.
    demangle.restype = ctypes.c_void_p
    return library
