"""An operand in memory, as the launches before a kernel describe it to their kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from gemmsmith.problem import Problem

_T = TypeVar("_T", bound="OperandLayout")


@dataclass(frozen=True)
class OperandLayout:
    """A or B: ``copies`` matrices, ``stride`` apart; ``k_major``: the elements along k are contiguous."""

    shape: tuple[int, int]
    address: int
    ld: int
    stride: int
    copies: int
    k_major: bool


class PackedOperand(OperandLayout):
    """An operand that a launch copies to the layout that a kernel takes, unless it ``is_ready`` where it is.

    The layout of the copy has names that begin with ``packed``. ``itemsize``: bytes of an element.
    """

    itemsize: ClassVar[int]

    @property
    def is_ready(self) -> bool:
        raise NotImplementedError

    @property
    def packed_shape(self) -> tuple[int, int]:
        return self.shape

    @property
    def packed_ld(self) -> int:
        raise NotImplementedError

    @property
    def packed_k_major(self) -> bool:
        return self.k_major

    @property
    def packed_stride(self) -> int:
        """From one matrix to the next; 0 if one serves the whole batch."""
        return self.packed_shape[0] * self.packed_ld if self.copies > 1 else 0

    @property
    def packed_bytes(self) -> int:
        return self.copies * self.packed_shape[0] * self.packed_ld * self.itemsize


def operand_layouts(make: Callable[..., _T], problem: Problem, a: int, b: int) -> tuple[_T, _T]:
    """A and B of ``problem`` at these addresses; ``make`` is a class derived from OperandLayout."""
    copies_a, copies_b, _ = problem.copies
    return (
        make(problem.a_shape, a, problem.lda, problem.stride_a, copies_a, not problem.trans_a),
        make(problem.b_shape, b, problem.ldb, problem.stride_b, copies_b, problem.trans_b),
    )
