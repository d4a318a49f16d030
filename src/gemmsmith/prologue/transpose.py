"""The launch that brings fp32 operands to rows with M or N contiguous that start on 16 bytes.

It is not a product, so its parameters are packed here. A K-major operand is transposed, an unaligned one is copied, and
one that is ready stays where it is. The copy has a row for each k, of M or N numbers rounded up to four.
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
from gemmsmith.prologue.operand_layout import PackedOperand, operand_layouts

_SIDE = 64  # numbers along a side of a block's tile
_THREADS = (_SIDE // 4) ** 2
_ITEMSIZE = 4
_ROW_START = 16  # bytes
_LARGEST_GRID = 2**31 - 1


@dataclass(frozen=True)
class TransposeOperand(PackedOperand):
    """Its copy is not K-major: it has a row for each k."""

    itemsize = _ITEMSIZE

    @property
    def aligned(self) -> bool:
        steps = (self.ld, self.stride) if self.copies > 1 else (self.ld,)
        return all(start % _ROW_START == 0 for start in (self.address, *(step * _ITEMSIZE for step in steps)))

    @property
    def is_ready(self) -> bool:
        """Whether it may stay where it is."""
        return self.aligned and not self.k_major

    @property
    def packed_k_major(self) -> bool:
        return False

    @property
    def packed_shape(self) -> tuple[int, int]:
        rows, cols = self.shape
        return (cols, rows) if self.k_major else (rows, cols)

    @property
    def packed_ld(self) -> int:
        per = _ROW_START // _ITEMSIZE
        return ceil_div(self.packed_shape[1], per) * per

    @property
    def tiles_across(self) -> int:
        return ceil_div(self.shape[1], _SIDE)

    @property
    def blocks_per_matrix(self) -> int:
        return ceil_div(self.shape[0], _SIDE) * self.tiles_across

    @property
    def blocks(self) -> int:
        """0 for an operand that stays."""
        return 0 if self.is_ready else self.blocks_per_matrix * self.copies

    def as_argument(self, target: int) -> bytes:
        """The struct that the kernel takes."""
        return pack("<QQqqqqIIIIIHH", self.address, target, self.ld, self.stride, self.packed_ld,
                    self.packed_stride, *self.shape, self.tiles_across, self.blocks_per_matrix, self.blocks,
                    self.k_major, self.aligned)  # fmt: skip


def transpose_operands(problem: Problem, a: int, b: int) -> tuple[TransposeOperand, TransposeOperand]:
    """A and B at these addresses."""
    return operand_layouts(TransposeOperand, problem, a, b)


def transpose_launch(
    a: TransposeOperand, b: TransposeOperand, target_a: int, target_b: int
) -> tuple[Geometry, tuple[bytes, ...]]:
    """Grid and arguments that copy the operands that are not ready; targets must start on 16 bytes."""
    blocks = a.blocks + b.blocks
    if blocks > _LARGEST_GRID:
        raise UnsupportedError(
            f"transpose: {blocks:,} blocks exceed the {_LARGEST_GRID:,} of a grid", "split the batch"
        )
    return Geometry((blocks, 1, 1), (_THREADS, 1, 1), pdl=True), (a.as_argument(target_a), b.as_argument(target_b))


def _geometry(problem: Problem, _config: Config) -> Geometry:
    return transpose_launch(*transpose_operands(problem, 0, 0), 0, 0)[0]


TRANSPOSE = KernelSpec(
    name="transpose",
    source=Path(__file__).with_name("transpose.cu"),
    summary="brings fp32 operands to rows with M or N contiguous that start on 16 bytes",
    teaches="a transposition with 16-byte loads and stores on both sides, without bank conflicts between",
    geometry=_geometry,
    entry="transpose",
    dtypes=(FP32,),
    layouts=("NN", "NT", "TN", "TT"),
    batched=True,
    extra_defines=(("THREADS", str(_THREADS)),),
)
