"""The launch that brings fp32 operands to lines across k that start on 16 bytes: no product, so it is packed here.

An operand that lies along k is transposed, one whose lines start anywhere is copied, and one that is fine stays where
it is. In the target a line for each k has M or N numbers, rounded up to four.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gemmsmith.errors import UnsupportedError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.slots import pack
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import FP32, Problem, ceil_div
from gemmsmith.prologue.operand_layout import Moved, stored_operands

_SIDE = 64  # numbers along a side of a block's tile
_THREADS = (_SIDE // 4) ** 2
_ITEMSIZE = 4
_LINE_START = 16  # bytes
_LARGEST_GRID = 2**31 - 1


@dataclass(frozen=True)
class Lines(Moved):
    """Once it is turned it has a line for each k."""

    itemsize = _ITEMSIZE

    @property
    def aligned(self) -> bool:
        steps = (self.ld, self.stride) if self.copies > 1 else (self.ld,)
        return all(start % _LINE_START == 0 for start in (self.address, *(step * _ITEMSIZE for step in steps)))

    @property
    def fine(self) -> bool:
        """Whether it may stay where it is."""
        return self.aligned and not self.along

    @property
    def new_along(self) -> bool:
        return False

    @property
    def new_shape(self) -> tuple[int, int]:
        rows, cols = self.shape
        return (cols, rows) if self.along else (rows, cols)

    @property
    def new_ld(self) -> int:
        per = _LINE_START // _ITEMSIZE
        return ceil_div(self.new_shape[1], per) * per

    @property
    def across(self) -> int:
        return ceil_div(self.shape[1], _SIDE)

    @property
    def blocks(self) -> int:
        """Of one matrix."""
        return ceil_div(self.shape[0], _SIDE) * self.across

    @property
    def total(self) -> int:
        """Of all; none for an operand that stays."""
        return 0 if self.fine else self.blocks * self.copies

    def described(self, target: int) -> bytes:
        """The struct that the kernel takes."""
        return pack("<QQqqqqIIIIIHH", self.address, target, self.ld, self.stride, self.new_ld,
                           self.new_stride, *self.shape, self.across, self.blocks, self.total, self.along,
                           self.aligned)  # fmt: skip


def lines_of(problem: Problem, a: int, b: int) -> tuple[Lines, Lines]:
    """A and B, which begin at these addresses."""
    return stored_operands(Lines, problem, a, b)


def turn_launch(a: Lines, b: Lines, target_a: int, target_b: int) -> tuple[Geometry, tuple[bytes, ...]]:
    """Grid and arguments that turn those of both that are not fine; targets must start on 16 bytes."""
    blocks = a.total + b.total
    if blocks > _LARGEST_GRID:
        raise UnsupportedError(f"turn: {blocks:,} blocks exceed the {_LARGEST_GRID:,} of a grid", "split the batch")
    return Geometry((blocks, 1, 1), (_THREADS, 1, 1), early=True), (a.described(target_a), b.described(target_b))


def _geometry(problem: Problem, _config: Config) -> Geometry:
    return turn_launch(*lines_of(problem, 0, 0), 0, 0)[0]


TURN = KernelSpec(
    name="turn",
    source=Path(__file__).with_name("transpose.cu"),
    summary="brings fp32 operands to lines across k that start on 16 bytes",
    teaches="a transposition whose loads and stores are 16 bytes on both sides, without bank conflicts between",
    geometry=_geometry,
    entry="turn",
    dtypes=(FP32,),
    layouts=("NN", "NT", "TN", "TT"),
    batched=True,
    extra_defines=(("THREADS", str(_THREADS)),),
)
