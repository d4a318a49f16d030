"""Rungs with two paths: 16-byte loads for aligned operands, and loads of single elements."""

from __future__ import annotations

from gemmsmith.kernel.config import Config
from gemmsmith.problem import Problem

CHUNK = 16  # bytes that one copy moves, and that rows must start on for it


def aligned_if_possible(config: Config, problem: Problem, addresses: tuple[int, int, int]) -> Config:
    """ALIGNED = 0 unless every row of A and B, of every product of a batch, starts on 16 bytes."""
    return config if rows_start_on(CHUNK, problem, addresses) else config.with_(ALIGNED=0)


def rows_start_on(size: int, problem: Problem, addresses: tuple[int, int, int]) -> bool:
    """Whether every row of A and B, of every product of a batch, starts on so many bytes."""
    steps = [problem.lda, problem.ldb]
    if problem.batch > 1:
        steps += [problem.stride_a, problem.stride_b]
    starts = [*addresses[:2], *(step * problem.dtype.itemsize for step in steps)]
    return all(start % size == 0 for start in starts)
