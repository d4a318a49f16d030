"""Rungs with two paths: 16-byte loads for aligned operands, and loads of single elements."""

from __future__ import annotations

from gemmsmith.kernel.config import Config
from gemmsmith.problem import Problem

CHUNK = 16  # bytes that one copy moves, and that rows must start on for it


def aligned_if_possible(config: Config, problem: Problem, addresses: tuple[int, int, int]) -> Config:
    """ALIGNED = 0 unless every row of A and B, of every product of a batch, starts on 16 bytes."""
    both = all(rows_start_on(CHUNK, first, problem, addresses) for first in (True, False))
    return config if both else config.with_(ALIGNED=0)


def rows_start_on(size: int, of_a: bool, problem: Problem, addresses: tuple[int, int, int]) -> bool:
    """Whether every row of A, or of B, in every product of a batch, starts on so many bytes."""
    ld, stride = (problem.lda, problem.stride_a) if of_a else (problem.ldb, problem.stride_b)
    steps = (ld, stride) if problem.batch > 1 else (ld,)
    return addresses[0 if of_a else 1] % size == 0 and all(step * problem.dtype.itemsize % size == 0 for step in steps)
