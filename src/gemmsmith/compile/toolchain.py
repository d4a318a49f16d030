"""Find NVIDIA's compiler, its headers and its disassembler, without a driver and without a GPU.

Wheels come first (``nvidia-cuda-nvrtc`` and its companions), then a toolkit: ``CUDA_HOME``, ``CUDA_PATH``, the folder
of ``nvcc`` on ``PATH``, and what ``cuda.pathfinder`` finds. With the extra ``cuda12`` the wheels of CUDA 12 lie beside
those of CUDA 13; cuda-bindings' own major version decides which are used.
"""

from __future__ import annotations

import ctypes
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
from gemmsmith.gpus import oldest_arch

_SUFFIXED_WHEELS = 12  # up to this CUDA version wheels are called nvidia-cuda-nvrtc-cu12, later nvidia-cuda-nvrtc
_PIP = "pip install 'cuda-bindings>=13,<14' nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl"

# Headers whose inline functions become part of a kernel: digested, since a patch release keeps the CUDA version.
_INLINED_HEADERS = ("cuda_fp16.h", "cuda_fp16.hpp", "cuda_bf16.h", "cuda_bf16.hpp", "mma.h", "crt/mma.hpp")


@dataclass(frozen=True)
class Toolchain:
    """The compiler in use. ``includes`` are the folders of its headers; all other fields are part of the cache key.

    ``cccl`` is the version of CUDA's C++ libraries (libcu++, CUB), which users' files may include; empty without them.
    """

    compiler: str
    build: str
    headers: str
    archs: tuple[int, ...]
    includes: tuple[Path, ...]
    cccl: str = ""

    @property
    def include(self) -> Path:
        """The folder of cuda_fp16.h and cuda.h."""
        return self.includes[0]

    @property
    def has_cache(self) -> bool:
        """Whether NVRTC keeps a cache of its own, and so has the option --no-cache: from 12.9 on."""
        major, minor = self.compiler.split()[-1].split(".")
        return (int(major), int(minor)) >= (12, 9)


@cache
def find_toolchain() -> Toolchain:
    """NVRTC and the CUDA headers that match it best; raises ``MissingDeviceError`` with what to install."""
    nvrtc = load_nvrtc()
    _, major, minor = nvrtc.nvrtcVersion()
    _, archs = nvrtc.nvrtcGetSupportedArchs()
    includes = _include_folders(major, minor)
    libraries = _cccl_folder()
    return Toolchain(
        compiler=f"NVRTC {major}.{minor}",
        build=_wheel_version("nvidia-cuda-nvrtc" if major > _SUFFIXED_WHEELS else f"nvidia-cuda-nvrtc-cu{major}"),
        headers=_headers_version(includes),
        archs=tuple(arch for arch in archs if arch >= oldest_arch()),
        includes=(*includes, *([libraries] if libraries is not None and libraries not in includes else [])),
        cccl=_cccl_version(libraries) if libraries is not None else "",
    )


def load_nvrtc() -> Any:
    """The ``cuda.bindings.nvrtc`` module with its library loaded. It needs no driver."""
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise MissingDeviceError(f"the CUDA compiler's Python bindings are missing: {error}", _PIP) from error
    try:
        _load_cuda_12()
        nvrtc.nvrtcVersion()
    except (RuntimeError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise MissingDeviceError(f"the CUDA compiler NVRTC could not be loaded: {reason}", _PIP) from error
    return nvrtc


@cache
def _load_cuda_12() -> None:
    """Load NVRTC 12 where ``cuda_12_library`` has one."""
    if (library := cuda_12_library()) is not None:
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def cuda_12_library() -> Path | None:
    """NVRTC 12, with cuda-bindings 12 and the wheels of the extra ``cuda12``.

    Left to itself, cuda-bindings 12 takes NVRTC 13 where that is installed too, whose code drivers before 580 do not
    run. Other packages bring part of the wheels of CUDA 12; without crt/ kernels do not compile with them.
    """
    if not _wheel_version("cuda-bindings").startswith("12."):
        return None
    for location in _nvidia_folders():
        library = location / "cuda_nvrtc" / "lib" / "libnvrtc.so.12"
        if library.is_file() and (location / "cuda_nvcc" / "include" / "crt" / "mma.h").is_file():
            return library
    return None


def find_nvdisasm() -> Path:
    """NVIDIA's disassembler, from its wheel, a toolkit or ``PATH``."""
    candidates = [folder / "bin" / "nvdisasm" for folder in (*_wheel_folders(), *_toolkit_folders())]
    on_path = shutil.which("nvdisasm")
    for candidate in candidates + ([Path(on_path)] if on_path else []):
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    raise MissingDeviceError("nvdisasm, which shows machine code, was not found", "pip install nvidia-cuda-nvdisasm")


def _include_folders(major: int, minor: int) -> tuple[Path, ...]:
    """The first include folder of NVRTC's own version, else the first of all, and a second one for crt/, which mma.h
    needs, where the first has none. A folder with crt/ comes before one without: some wheels split the two."""
    candidates = list(_include_candidates())
    found = [folder for folder in candidates if (folder / "cuda_fp16.h").is_file()]
    if not found:
        raise MissingDeviceError("the CUDA headers were not found (cuda_fp16.h)", _PIP + "  or set CUDA_HOME")
    wanted = str(major * 1000 + minor * 10)
    right = [folder for folder in found if _cuda_version(folder) == wanted]
    with_crt = [folder for folder in candidates if (folder / "crt" / "mma.h").is_file()]
    first = next((folder for folder in right if folder in with_crt), (right or found)[0])
    if first in with_crt:
        return (first,)
    return (first, *[folder for folder in with_crt if not _cuda_version(folder)][:1])


def _cccl_folder() -> Path | None:
    """The folder of CUDA's C++ libraries: ``include/cccl`` from CUDA 13 on, ``include`` before."""
    for folder in _include_candidates():
        for candidate in (folder / "cccl", folder):
            if (candidate / "cuda" / "std" / "type_traits").is_file():
                return candidate
    return None


def _cccl_version(folder: Path) -> str:
    """``CCCL_VERSION`` as its header states it, such as "3.3.5"."""
    try:
        text = (folder / "cuda" / "std" / "__cccl" / "version.h").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "unknown"
    match = re.search(r"^#\s*define\s+CCCL_VERSION\s+(\d+)", text, re.M)
    number = int(match.group(1)) if match else 0
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"


def _include_candidates() -> Iterator[Path]:
    for folder in (*_wheel_folders(), *_split_wheel_folders(), *_toolkit_folders()):
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
    for location in _nvidia_folders():
        yield from sorted(location.glob("cu1[3-9]"), reverse=True)


def _split_wheel_folders() -> Iterator[Path]:
    """The wheels of CUDA 12, which have a folder each: ``nvidia/cuda_runtime`` and so on."""
    for location in _nvidia_folders():
        yield from (location / name for name in ("cuda_runtime", "cuda_nvcc", "cuda_cccl"))


def _nvidia_folders() -> list[Path]:
    try:
        spec = find_spec("nvidia")
    except (ImportError, ValueError):
        return []
    return [Path(location) for location in (spec.submodule_search_locations or [])] if spec else []


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


def _headers_version(includes: tuple[Path, ...]) -> str:
    """The headers' version and a digest of those that are compiled into kernels."""
    digest = hashlib.sha256()
    for name in _INLINED_HEADERS:
        path = next((folder / name for folder in includes if (folder / name).is_file()), None)
        digest.update(name.encode() + b"\0" + (path.read_bytes() if path is not None else b"") + b"\0")
    return f"{_cuda_version(includes[0])}-{digest.hexdigest()[:16]}"


def _wheel_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
