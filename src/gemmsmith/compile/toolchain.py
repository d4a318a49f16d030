"""Find NVIDIA's compiler, its headers and its disassembler, without a driver and without a GPU.

Wheels come first (``nvidia-cuda-nvrtc`` and friends), then a toolkit: ``CUDA_HOME``, ``CUDA_PATH``, the folder of
``nvcc`` on ``PATH``, and whatever ``cuda.pathfinder`` knows.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gemmsmith.errors import MissingDeviceError

OLDEST_ARCH = 80
_PIP = "pip install 'cuda-bindings>=13,<14' nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-crt"

# Headers whose inline functions become part of a kernel; the CUDA version alone misses a patched release.
_INLINED_HEADERS = ("cuda_fp16.h", "cuda_fp16.hpp", "cuda_bf16.h", "cuda_bf16.hpp", "mma.h", "crt/mma.hpp")


@dataclass(frozen=True)
class Toolchain:
    """The compiler in use. ``include`` is where its headers are; everything else is part of a cache key."""

    compiler: str
    build: str
    headers: str
    archs: tuple[int, ...]
    include: Path


@cache
def find_toolchain() -> Toolchain:
    """NVRTC and the CUDA headers that match it best; raises ``MissingDeviceError`` with what to install."""
    nvrtc = load_nvrtc()
    _, major, minor = nvrtc.nvrtcVersion()
    _, archs = nvrtc.nvrtcGetSupportedArchs()
    include = _include_folder(major, minor)
    return Toolchain(
        compiler=f"NVRTC {major}.{minor}",
        build=_wheel_version("nvidia-cuda-nvrtc"),
        headers=_headers_version(include),
        archs=tuple(arch for arch in archs if arch >= OLDEST_ARCH),
        include=include,
    )


def load_nvrtc() -> Any:
    """The ``cuda.bindings.nvrtc`` module with its library loaded. It needs no driver."""
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise MissingDeviceError(f"the CUDA compiler's Python bindings are missing: {error}", _PIP) from error
    try:
        nvrtc.nvrtcVersion()
    except (RuntimeError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise MissingDeviceError(f"the CUDA compiler NVRTC could not be loaded: {reason}", _PIP) from error
    return nvrtc


def find_nvdisasm() -> Path:
    """NVIDIA's disassembler, from its wheel, a toolkit or ``PATH``."""
    candidates = [folder / "bin" / "nvdisasm" for folder in (*_wheel_folders(), *_toolkit_folders())]
    on_path = shutil.which("nvdisasm")
    for candidate in candidates + ([Path(on_path)] if on_path else []):
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    raise MissingDeviceError("nvdisasm, which shows machine code, was not found", "pip install nvidia-cuda-nvdisasm")


def _include_folder(major: int, minor: int) -> Path:
    """The first include folder of NVRTC's own version, else the first of all; one with crt/, which mma.h needs, before
    one without: some wheels split the two."""
    found = [folder for folder in _include_candidates() if (folder / "cuda_fp16.h").is_file()]
    if not found:
        raise MissingDeviceError("the CUDA headers were not found (cuda_fp16.h)", _PIP + "  or set CUDA_HOME")
    wanted = str(major * 1000 + minor * 10)
    right = [folder for folder in found if _cuda_version(folder) == wanted]
    return next((folder for folder in right if (folder / "crt" / "mma.h").is_file()), (right or found)[0])


def _include_candidates() -> Iterator[Path]:
    for folder in (*_wheel_folders(), *_toolkit_folders()):
        yield folder / "include"
        yield from sorted(folder.glob("targets/*/include"))
    try:
        from cuda import pathfinder
    except ImportError:
        return
    # Public from cuda-pathfinder 1.3; older releases have it under a leading underscore only.
    finder = getattr(pathfinder, "find_nvidia_header_directory", None)
    if finder is not None and (folder := finder("cudart")):
        yield Path(folder)


def _wheel_folders() -> Iterator[Path]:
    """``nvidia/cu13`` of the wheels; several installations can share the namespace package."""
    try:
        spec = find_spec("nvidia")
    except (ImportError, ValueError):
        return
    for location in (spec.submodule_search_locations or []) if spec else []:
        yield from sorted(Path(location).glob("cu1[3-9]"), reverse=True)


def _toolkit_folders() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    if nvcc := shutil.which("nvcc"):
        yield Path(nvcc).resolve().parent.parent
    yield Path("/usr/local/cuda")


def _cuda_version(include: Path) -> str:
    """``CUDA_VERSION`` as cuda.h states it, such as "13040"; empty when it cannot be read."""
    try:
        text = (include / "cuda.h").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    match = re.search(r"^#define\s+CUDA_VERSION\s+(\d+)", text, re.M)
    return match.group(1) if match else ""


def _headers_version(include: Path) -> str:
    """The headers' version and a digest of those that are compiled into kernels."""
    digest = hashlib.sha256()
    for name in _INLINED_HEADERS:
        path = include / name
        digest.update(name.encode() + b"\0" + (path.read_bytes() if path.is_file() else b"") + b"\0")
    return f"{_cuda_version(include)}-{digest.hexdigest()[:16]}"


def _wheel_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
