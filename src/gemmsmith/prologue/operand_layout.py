"""An operand as it lies in memory: what launches that prepare operands describe to their kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

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


class Moved(Stored):
    """One that a launch brings to the form that a kernel takes, unless it is ``fine`` as it lies; what it is then has
    ``new`` names. ``itemsize`` is of its elements."""

    itemsize: ClassVar[int]

    @property
    def fine(self) -> bool:
        raise NotImplementedError

    @property
    def new_shape(self) -> tuple[int, int]:
        return self.shape

    @property
    def new_ld(self) -> int:
        raise NotImplementedError

    @property
    def new_along(self) -> bool:
        """Whether k runs along the new rows."""
        return self.along

    @property
    def new_stride(self) -> int:
        """From one matrix to the next; none, where one serves the whole batch."""
        return self.new_shape[0] * self.new_ld if self.copies > 1 else 0

    @property
    def new_bytes(self) -> int:
        return self.copies * self.new_shape[0] * self.new_ld * self.itemsize


def stored_operands(make: Callable[..., _T], problem: Problem, a: int, b: int) -> tuple[_T, _T]:
    """A and B of ``problem``, which begin at these addresses, each as ``make`` makes one of a Stored's fields."""
    many_a, many_b, _ = problem.copies
    return (
        make(problem.a_shape, a, problem.lda, problem.stride_a, many_a, not problem.trans_a),
        make(problem.b_shape, b, problem.ldb, problem.stride_b, many_b, problem.trans_b),
    )
