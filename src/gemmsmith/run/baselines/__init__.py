"""What we measure against: libraries and a compiler that others wrote, as contenders like our own rungs.

Nothing heavy is imported before a baseline is prepared; one whose library is missing says then how to get it.
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
    """A fresh contender of that name, or an error that lists the names there are."""
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
