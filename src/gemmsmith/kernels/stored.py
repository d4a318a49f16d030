"""An operand as it lies in memory: what launches that prepare operands describe to their kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from gemmsmith.problem import Problem

_T = TypeVar("_T", bound="Stored")


@dataclass(frozen=True)
class Stored:
    """A or B; ``copies`` matrices, ``stride`` apart; ``along``: k runs along the rows of ``shape``."""

    shape: tuple[int, int]
    address: int
    ld: int
    stride: int
    copies: int
    along: bool


def stored_operands(make: Callable[..., _T], problem: Problem, a: int, b: int) -> tuple[_T, _T]:
    """A and B of ``problem``, which begin at these addresses, each as ``make`` makes one of a Stored's fields."""
    many_a, many_b, _ = problem.copies
    return (
        make(problem.a_shape, a, problem.lda, problem.stride_a, many_a, not problem.trans_a),
        make(problem.b_shape, b, problem.ldb, problem.stride_b, many_b, problem.trans_b),
    )
