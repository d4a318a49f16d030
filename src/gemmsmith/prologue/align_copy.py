"""The launch that copies 16-bit operands to rows that start on 16 bytes, as tensor maps require.

It is not a product, so its parameters are packed here. Operands that are aligned already stay where they are.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from gemmsmith.errors import ProblemError, UnsupportedError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.slots import pack
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import BF16, FP16, Problem, ceil_div
from gemmsmith.prologue.operand_layout import PackedOperand, operand_layouts

ITEMSIZE = 2
CHUNK = 8  # elements in the 16 bytes that a thread moves at a time
ROW_START = CHUNK * ITEMSIZE  # bytes
THREADS = 256
AT_ONCE = 2  # chunks that a thread has in flight: 32 bytes, and 64 KB on an SM, where 30 KB hide the latency of an H200
_CACHE_LINE = 64  # elements
_OPERAND = struct.Struct("<QQqqqIIIIIIII")
_DIVIDEND_BITS = 31  # the product with a reciprocal of 32 bits fits into 64, and rounds as the division does
_MOST_CHUNKS = 2**_DIVIDEND_BITS


def packed_ld(cols: int) -> int:
    """The smallest leading dimension with which all rows start on 16 bytes."""
    return ceil_div(cols, CHUNK) * CHUNK


def packed_bytes(rows: int, cols: int, batch: int = 1) -> int:
    """Size of ``batch`` copies with that leading dimension, one right after another."""
    return batch * rows * packed_ld(cols) * ITEMSIZE


@dataclass(frozen=True)
class AlignCopyOperand(PackedOperand):
    """``in_place``: it is not copied, however its rows are aligned."""

    itemsize = ITEMSIZE
    in_place: bool = False

    @property
    def is_ready(self) -> bool:
        """Whether it may stay where it is."""
        if self.in_place:
            return True
        step = self.ld if self.shape[0] > 1 else 0
        return not any(start % ROW_START for start in (self.address, step * ITEMSIZE, self.stride * ITEMSIZE))

    @property
    def packed_ld(self) -> int:
        """Rows at least as long as a cache line start on one."""
        cols = self.shape[1]
        return packed_ld(cols) if cols < _CACHE_LINE else ceil_div(cols, _CACHE_LINE) * _CACHE_LINE

    @property
    def chunks_per_row(self) -> int:
        """Chunks of a row that are written."""
        return ceil_div(self.shape[1], CHUNK)

    @property
    def chunks(self) -> int:
        return self.copies * self.shape[0] * self.chunks_per_row

    @property
    def blocks(self) -> int:
        """0 for an operand that stays."""
        return 0 if self.is_ready else ceil_div(self.chunks, AT_ONCE * THREADS)

    def as_argument(self, target: int) -> bytes:
        """The struct that the kernel takes; all zeros for an operand that stays."""
        if self.is_ready:
            return bytes(_OPERAND.size)
        (rows, cols), stride = self.shape, self.stride if self.copies > 1 else 0
        extent = (self.copies - 1) * stride + (rows - 1) * self.ld + cols
        across = self.chunks_per_row
        shift = _DIVIDEND_BITS + (across - 1).bit_length()
        return pack(_OPERAND.format, self.address, target, self.ld, stride, extent, rows, cols, across, self.chunks,
                    self.blocks, ceil_div(2**shift, across), shift, self.packed_ld // CHUNK - across)  # fmt: skip


def align_copy_operands(problem: Problem, a: int, b: int) -> tuple[AlignCopyOperand, AlignCopyOperand]:
    """A and B at these addresses."""
    return operand_layouts(AlignCopyOperand, problem, a, b)


def align_copy_launch(
    a: AlignCopyOperand, b: AlignCopyOperand, target_a: int, target_b: int
) -> tuple[Geometry, tuple[bytes, ...]]:
    """Grid and arguments that copy the operands that are not ready.

    Columns up to the next multiple of 8 become zero. Sources and targets must not overlap.
    """
    for operand, target in ((a, target_a), (b, target_b)):
        if not operand.is_ready:
            _check(operand, target)
    geometry = Geometry((a.blocks + b.blocks, 1, 1), (THREADS, 1, 1), pdl=True)
    return geometry, (a.as_argument(target_a), b.as_argument(target_b))


def _check(operand: AlignCopyOperand, target: int) -> None:
    rows, cols = operand.shape
    if operand.address % ITEMSIZE:
        raise ProblemError(f"align_copy: the source at {operand.address:#x} does not start on {ITEMSIZE} bytes")
    if rows > 1 and operand.ld < cols:
        raise ProblemError(f"align_copy: the source's leading dimension {operand.ld} is less than its {cols} columns")
    if target % ROW_START:
        raise ProblemError(f"align_copy: the target at {target:#x} does not start on {ROW_START} bytes")
    if operand.chunks > _MOST_CHUNKS:
        raise UnsupportedError(
            f"align_copy: {operand.chunks * ROW_START:,} bytes exceed the {_MOST_CHUNKS * ROW_START:,} of a launch",
            "make its rows start on 16 bytes, or split the product",
        )


def _geometry(problem: Problem, _config: Config) -> Geometry:
    return align_copy_launch(*align_copy_operands(problem, 0, 0), 0, 0)[0]


ALIGN_COPY = KernelSpec(
    name="align_copy",
    source=Path(__file__).with_name("align_copy.cu"),
    summary="copies operands to rows that start on 16 bytes",
    teaches="aligned vectors from unaligned rows: load both chunks that overlap and shift them together",
    geometry=_geometry,
    entry="align_copy",
    dtypes=(FP16, BF16),
    out_dtypes=(FP16, BF16),
    layouts=("NN", "NT", "TN", "TT"),
    batched=True,
    extra_defines=(("THREADS", str(THREADS)), ("AT_ONCE", str(AT_ONCE))),
)
