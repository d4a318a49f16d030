"""What every baseline takes, checked before a library is even loaded."""

from __future__ import annotations

from gemmsmith.errors import UnsupportedError
from gemmsmith.problem import FP32, Problem


def require_supported(name: str, problem: Problem, *, tf32: bool = False) -> None:
    """Raise ``UnsupportedError`` where the baseline called ``name`` cannot compute ``problem``."""
    if tf32 and problem.dtype != FP32:
        raise UnsupportedError(
            f"{name} rounds fp32 inputs to TF32; this problem's inputs are {problem.dtype}",
            f"use {name.removesuffix('-tf32')}",
        )
    if problem.out_dtype not in (FP32, problem.dtype):
        raise UnsupportedError(
            f"{name} writes fp32 or the type of its inputs, not {problem.out_dtype} from {problem.dtype}"
        )
    if 0 in (problem.m, problem.n, problem.k):
        raise UnsupportedError(f"{problem} has nothing to multiply, so {name} has nothing to measure")
    if problem != problem.with_():
        raise UnsupportedError(f"{name} takes tight leading dimensions here, and {problem} has others")


def precision(problem: Problem, *, tf32: bool) -> str:
    """The arithmetic, as ``Identity`` names it."""
    return "tf32" if tf32 else problem.dtype.name
