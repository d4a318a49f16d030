"""Which problems the baselines compute; checked before a library is loaded."""

from __future__ import annotations

from dataclasses import replace

from gemmsmith.errors import UnsupportedError
from gemmsmith.problem import BF16, FP16, FP32, TF32, Problem


def supported(name: str, problem: Problem, *, tf32: bool = False) -> Problem:
    """``problem`` as the baseline ``name`` computes it; raises ``UnsupportedError`` where it cannot.

    TF32 inputs are fp32 in memory: the -tf32 baselines multiply them as TF32, the others as fp32.
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
    """The arithmetic, in the terms of ``Identity``."""
    return "tf32" if tf32 else problem.dtype.name
