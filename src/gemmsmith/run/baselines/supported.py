"""What every baseline takes, checked before a library is even loaded."""

from __future__ import annotations

from dataclasses import replace

from gemmsmith.errors import UnsupportedError
from gemmsmith.problem import BF16, FP16, FP32, TF32, Problem


def supported(name: str, problem: Problem, *, tf32: bool = False) -> Problem:
    """``problem`` as the baseline called ``name`` sees it; raises ``UnsupportedError`` where it cannot compute it.

    TF32 inputs lie in memory as fp32: a baseline rounds them by its own name, or multiplies them as fp32.
    """
    if problem.dtype == TF32:
        problem = replace(problem, dtype=FP32)
    if problem.dtype not in (FP32, FP16, BF16) or problem.has_epilogue or problem.batch != 1:
        raise UnsupportedError(f"{name} takes fp32, fp16 and bf16, one plain product; not {problem}")
    if tf32 and problem.dtype != FP32:
        raise UnsupportedError(
            f"{name} rounds fp32 inputs to TF32; this problem's inputs are {problem.dtype}",
            f"use {name.removesuffix('-tf32')}",
        )
    if 0 in (problem.m, problem.n, problem.k):
        raise UnsupportedError(f"{problem} has nothing to multiply, so {name} has nothing to measure")
    if problem != problem.with_():
        raise UnsupportedError(f"{name} takes tight leading dimensions here, and {problem} has others")
    return problem


def precision(problem: Problem, *, tf32: bool) -> str:
    """The arithmetic, as ``Identity`` names it."""
    return "tf32" if tf32 else problem.dtype.name
