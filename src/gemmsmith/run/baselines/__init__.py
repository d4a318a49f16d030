"""Baselines: cuBLAS, cuBLASLt and Triton as contenders, measured like our own rungs.

A library is imported when its baseline is prepared. If it is missing, the error says how to install it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gemmsmith.errors import UnknownKernelError
from gemmsmith.run.contender import Contender

BASELINES: Mapping[str, str] = MappingProxyType(
    {
        "cublas": "cuBLAS as torch calls it; IEEE fp32 for fp32",
        "cublas-tf32": "cuBLAS as torch calls it with TF32 allowed: fp32 in memory, TF32 arithmetic",
        "cublaslt": "cuBLASLt, the fastest of its own candidates; IEEE fp32 for fp32",
        "cublaslt-tf32": "cuBLASLt, the fastest of its own candidates in TF32: fp32 in memory, TF32 arithmetic",
        "triton": "a tiled Triton kernel, the fastest of a short list of tiles; IEEE fp32 for fp32",
    }
)


def baseline_named(name: str) -> Contender:
    """A new contender of that name; an unknown name raises an error that lists the known ones."""
    if name not in BASELINES:
        raise UnknownKernelError(f"there is no baseline {name!r}", f"use one of {', '.join(BASELINES)}")
    if name == "triton":
        from gemmsmith.run.baselines.triton_contender import TritonGemm

        return TritonGemm()
    library, _, variant = name.partition("-")
    if library == "cublas":
        from gemmsmith.run.baselines.cublas import Cublas

        return Cublas(tf32=variant == "tf32")
    from gemmsmith.run.baselines.cublaslt import CublasLt

    return CublasLt(tf32=variant == "tf32")
