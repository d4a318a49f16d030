"""NVIDIA's cuBLAS and cuBLASLt by ctypes: already loaded, from their wheel, or from an installed toolkit."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any

from gemmsmith.errors import LaunchError, MissingDeviceError
from gemmsmith.problem import BF16, FP16, FP32

# From cublas_api.h, cublasLt.h and library_types.h of cuBLAS 13; they have not changed since cuBLAS 11.
CUDA_TYPE = {FP32.name: 0, FP16.name: 2, BF16.name: 14}
COMPUTE_32F = 68
COMPUTE_32F_FAST_TF32 = 77
OPERATION = {False: 0, True: 1}
SUCCESS, NOT_SUPPORTED = 0, 15

HOW_TO_GET = "pip install '.[torch]' or '.[baselines]' in gemmsmith's folder"

_int, _size, _pointer = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p
# Without these, ctypes would pass 64-bit addresses and sizes as 32-bit integers.
_PARAMETERS: dict[str, list[Any]] = {
    "cublasCreate_v2": [_pointer],
    "cublasDestroy_v2": [_pointer],
    "cublasSetStream_v2": [_pointer, _pointer],
    "cublasSetWorkspace_v2": [_pointer, _pointer, _size],
    "cublasSetMathMode": [_pointer, _int],
    "cublasGemmEx": [
        *[_pointer, _int, _int, _int, _int, _int],
        *[_pointer, _pointer, _int, _int, _pointer, _int, _int],
        *[_pointer, _pointer, _int, _int, _int, _int],
    ],
    "cublasLtCreate": [_pointer],
    "cublasLtDestroy": [_pointer],
    "cublasLtMatmulDescCreate": [_pointer, _int, _int],
    "cublasLtMatmulDescDestroy": [_pointer],
    "cublasLtMatmulDescSetAttribute": [_pointer, _int, _pointer, _size],
    "cublasLtMatrixLayoutCreate": [_pointer, _int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64],
    "cublasLtMatrixLayoutDestroy": [_pointer],
    "cublasLtMatmulPreferenceCreate": [_pointer],
    "cublasLtMatmulPreferenceDestroy": [_pointer],
    "cublasLtMatmulPreferenceSetAttribute": [_pointer, _int, _pointer, _size],
    "cublasLtMatmulAlgoGetHeuristic": [*[_pointer] * 7, _int, _pointer, _pointer],
    "cublasLtMatmulAlgoConfigGetAttribute": [_pointer, _int, _pointer, _size, _pointer],
    "cublasLtMatmul": [*[_pointer] * 14, _size, _pointer],
}
_STATUS = {
    1: "NOT_INITIALIZED",
    3: "ALLOC_FAILED",
    7: "INVALID_VALUE",
    8: "ARCH_MISMATCH",
    11: "MAPPING_ERROR",
    13: "EXECUTION_FAILED",
    14: "INTERNAL_ERROR",
    NOT_SUPPORTED: "NOT_SUPPORTED",
    16: "LICENSE_ERROR",
}


@dataclass(frozen=True)
class Library:
    """A loaded library; ``version`` has a fourth number where the wheel's metadata has one."""

    name: str
    version: str
    functions: Any

    def call(self, function: str, *arguments: Any, accepted: tuple[int, ...] = (SUCCESS,)) -> int:
        """Call one of its functions and return the status; raises unless the status is accepted."""
        status = int(getattr(self.functions, function)(*arguments))
        if status not in accepted:
            raise LaunchError(f"{function} failed: {_STATUS.get(status, 'status')} ({status})")
        return status


@cache
def load(name: str) -> Library:
    """'cublas' or 'cublasLt', found by NVIDIA's pathfinder: already loaded, a wheel, or an installed toolkit."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    try:
        found = load_nvidia_dynamic_lib(name)
        functions = ctypes.CDLL(found.abs_path or f"lib{name}.so")
    except (OSError, RuntimeError):  # pathfinder's own errors are RuntimeErrors
        raise MissingDeviceError(f"lib{name} is not installed", HOW_TO_GET) from None
    for function, parameters in _PARAMETERS.items():
        if function.startswith("cublasLt") == (name == "cublasLt"):
            declared = getattr(functions, function)
            declared.argtypes, declared.restype = parameters, _int
    return Library(name, _version(functions, name), functions)


def _version(functions: Any, name: str) -> str:
    ask = getattr(functions, f"{name}GetProperty")
    number = ctypes.c_int()
    parts = []
    for part in range(3):  # major, minor, patch
        ask(part, ctypes.byref(number))
        parts.append(str(number.value))
    known = ".".join(parts)
    for package in ("nvidia-cublas", "nvidia-cublas-cu12"):
        try:
            recorded = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
        if recorded.startswith(known + "."):
            return recorded
    return known
