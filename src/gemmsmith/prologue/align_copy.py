"""The launch that gives operands of 2-byte elements rows that start on 16 bytes: no product, so it is packed here.

A tensor map takes no other rows. An operand that is fine stays where it is.
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
from gemmsmith.prologue.operand_layout import Moved, stored_operands

ITEMSIZE = 2
CHUNK = 8  # elements in the 16 bytes that a thread moves at a time
ROW_START = CHUNK * ITEMSIZE  # bytes
THREADS = 256
AT_ONCE = 2  # chunks that a thread has in flight: 32 bytes, and 64 KB on an SM, where 30 KB hide the latency of an H200
_LINE = 64  # elements in a line of the cache
_OPERAND = struct.Struct("<QQqqqIIIIIIII")
_DIVIDEND_BITS = 31  # a product of so many bits with a reciprocal of 32 fits 64, and rounds as the division does
_MOST_CHUNKS = 2**_DIVIDEND_BITS


def packed_ld(cols: int) -> int:
    """The smallest leading dimension whose rows all start on 16 bytes."""
    return ceil_div(cols, CHUNK) * CHUNK


def packed_bytes(rows: int, cols: int, batch: int = 1) -> int:
    """What ``batch`` copies take with that leading dimension, one right after another."""
    return batch * rows * packed_ld(cols) * ITEMSIZE


@dataclass(frozen=True)
class Rows(Moved):
    """``stays``: it need not be copied, however its rows start."""

    itemsize = ITEMSIZE
    stays: bool = False

    @property
    def fine(self) -> bool:
        """Whether it may stay where it is."""
        if self.stays:
            return True
        step = self.ld if self.shape[0] > 1 else 0
        return not any(start % ROW_START for start in (self.address, step * ITEMSIZE, self.stride * ITEMSIZE))

    @property
    def new_ld(self) -> int:
        """Rows that fill a line of the cache start with one."""
        cols = self.shape[1]
        return packed_ld(cols) if cols < _LINE else ceil_div(cols, _LINE) * _LINE

    @property
    def across(self) -> int:
        """Chunks of a row that are written."""
        return ceil_div(self.shape[1], CHUNK)

    @property
    def chunks(self) -> int:
        return self.copies * self.shape[0] * self.across

    @property
    def blocks(self) -> int:
        """None for an operand that stays."""
        return 0 if self.fine else ceil_div(self.chunks, AT_ONCE * THREADS)

    def described(self, target: int) -> bytes:
        """The struct that the kernel takes; nothing but zeros of an operand that stays."""
        if self.fine:
            return bytes(_OPERAND.size)
        (rows, cols), stride = self.shape, self.stride if self.copies > 1 else 0
        extent = (self.copies - 1) * stride + (rows - 1) * self.ld + cols
        shift = _DIVIDEND_BITS + (self.across - 1).bit_length()
        return pack(_OPERAND.format, self.address, target, self.ld, stride, extent, rows, cols, self.across,
                             self.chunks, self.blocks, ceil_div(2**shift, self.across), shift,
                             self.new_ld // CHUNK - self.across)  # fmt: skip


def rows_of(problem: Problem, a: int, b: int) -> tuple[Rows, Rows]:
    """A and B, which begin at these addresses."""
    return stored_operands(Rows, problem, a, b)


def repack_launch(a: Rows, b: Rows, target_a: int, target_b: int) -> tuple[Geometry, tuple[bytes, ...]]:
    """Grid and arguments that copy those of both that are not fine.

    Columns up to the next multiple of 8 become zero. Sources and targets must not overlap.
    """
    for operand, target in ((a, target_a), (b, target_b)):
        if not operand.fine:
            _check(operand, target)
    geometry = Geometry((a.blocks + b.blocks, 1, 1), (THREADS, 1, 1), early=True)
    return geometry, (a.described(target_a), b.described(target_b))


def _check(operand: Rows, target: int) -> None:
    rows, cols = operand.shape
    if operand.address % ITEMSIZE:
        raise ProblemError(f"repack: the source at {operand.address:#x} does not start on {ITEMSIZE} bytes")
    if rows > 1 and operand.ld < cols:
        raise ProblemError(f"repack: the source's leading dimension {operand.ld} is less than its {cols} columns")
    if target % ROW_START:
        raise ProblemError(f"repack: the target at {target:#x} does not start on {ROW_START} bytes")
    if operand.chunks > _MOST_CHUNKS:
        raise UnsupportedError(
            f"repack: {operand.chunks * ROW_START:,} bytes exceed the {_MOST_CHUNKS * ROW_START:,} of a launch",
            "make its rows start on 16 bytes, or split the product",
        )


def _geometry(problem: Problem, _config: Config) -> Geometry:
    return repack_launch(*rows_of(problem, 0, 0), 0, 0)[0]


REPACK = KernelSpec(
    name="repack",
    source=Path(__file__).with_name("align_copy.cu"),
    summary="copies operands into rows that start on 16 bytes",
    teaches="aligned vectors from unaligned rows: load both granules of a chunk and shift them together",
    geometry=_geometry,
    entry="repack",
    dtypes=(FP16, BF16),
    out_dtypes=(FP16, BF16),
    layouts=("NN", "NT", "TN", "TT"),
    batched=True,
    extra_defines=(("THREADS", str(THREADS)), ("AT_ONCE", str(AT_ONCE))),
)
