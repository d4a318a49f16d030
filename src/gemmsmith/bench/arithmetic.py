"""A kernel's arithmetic, from its PTX; it determines the speed limit and the error bound."""

from __future__ import annotations

import re

from gemmsmith.compile.compiled import CompiledKernel

# PTX of arithmetics other than fp32, fastest first: a kernel that uses two gets the faster one's limit. mma, wmma and
# wgmma name the types of D, A, B (and C) in this order: mma.sync…f32.f16.f16.f32, wgmma.mma_async…f32.f16.f16; wmma
# omits A and B if they are fp16. dp4a multiplies bytes on CUDA cores.
_ARITHMETIC = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("int8", r"\b(?:mma|wmma|wgmma)\.\S*\.[su]8\.[su]8|\bdp[24]a\."),
        ("fp8", r"\b(?:mma|wgmma)\.\S*\.e[45]m[32]\.e[45]m[32]"),
        ("fp16", r"\b(?:mma|wgmma)\.\S*\.f16\.f16|\bwmma\.mma\.\S*\.f(?:16|32)\.f(?:16|32)|\bfma\.rn\S*\.f16"),
        ("bf16", r"\b(?:mma|wmma|wgmma)\.\S*\.bf16\.bf16|\bfma\.rn\S*\.bf16"),
        ("tf32", r"\b(?:mma|wmma|wgmma)\.\S*\.tf32\.tf32"),
    )
)


def arithmetic(compiled: CompiledKernel) -> str:
    """'fp32' on CUDA cores, unless the kernel uses a faster arithmetic."""
    return next((name for name, pattern in _ARITHMETIC if pattern.search(compiled.ptx)), "fp32")
