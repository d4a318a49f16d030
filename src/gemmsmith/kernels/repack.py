"""The launch of the copy that gives a matrix of 2-byte elements rows that start on 16 bytes.

A tensor map takes no other rows. The copy is no product: its entry has parameters of its own, packed here.
"""

from __future__ import annotations

import struct
from pathlib import Path

from gemmsmith.errors import ProblemError, UnsupportedError
from gemmsmith.kernels.spec import LARGEST_BATCH, Config, Geometry, KernelSpec
from gemmsmith.problem import BF16, FP16, Problem, ceil_div

ITEMSIZE = 2
CHUNK = 8  # elements in the 16 bytes that a thread moves at a time
THREADS = 256  # of a block, at most
ROWS = 4  # chunks that a thread has in flight: 64 bytes, and 80 KB on an SM, where 30 KB hide the latency of an H200
_LARGEST_EXTENT = 2**31 - 1
_LARGEST_GRID = 2**31 - 1


def packed_ld(cols: int) -> int:
    """The smallest leading dimension whose rows all start on 16 bytes."""
    return ceil_div(cols, CHUNK) * CHUNK


def packed_bytes(rows: int, cols: int, batch: int = 1) -> int:
    """What ``batch`` copies take with that leading dimension, one right after another."""
    return batch * rows * packed_ld(cols) * ITEMSIZE


def repack_launch(
    rows: int,
    cols: int,
    source: int,
    source_ld: int,
    target: int,
    target_ld: int,
    *,
    batch: int = 1,
    source_stride: int = 0,
    target_stride: int = 0,
    second: bool = False,
) -> tuple[Geometry, tuple[bytes, ...]]:
    """Grid and arguments that copy ``batch`` matrices of rows x cols elements, ``*_stride`` elements apart.

    Columns from ``cols`` to the next multiple of 8 become zero; the target's further columns are left alone. Source and
    target must not overlap. ``second``: the launch before is a copy, too, of other memory to other memory.
    """
    _check_extents(rows, cols, batch)
    _check_source(rows, cols, source, source_ld)
    _check_target(rows, cols, target, target_ld, batch, target_stride)
    width, across = _blocks(cols)
    arguments = (
        struct.pack("<i", rows), struct.pack("<i", cols),
        struct.pack("<Q", source), struct.pack("<q", source_ld),
        struct.pack("<Q", target), struct.pack("<q", target_ld),
        struct.pack("<q", source_stride), struct.pack("<q", target_stride), struct.pack("<i", across),
        struct.pack("<i", second),
    )  # fmt: skip
    return _geometry(rows, width, across, batch), arguments


def _blocks(cols: int) -> tuple[int, int]:
    """Chunks across a block, and blocks across a row: of equal width, where there are several on lines of 128 bytes."""
    chunks = ceil_div(cols, CHUNK)
    across = ceil_div(chunks, THREADS)
    return (chunks if across == 1 else ceil_div(ceil_div(chunks, across), 8) * 8), across


def _geometry(rows: int, width: int, across: int, batch: int) -> Geometry:
    height = THREADS // width
    blocks = across * ceil_div(rows, height * ROWS)
    if blocks > _LARGEST_GRID:
        raise UnsupportedError(f"repack: {blocks:,} blocks exceed the {_LARGEST_GRID:,} of a grid", "copy it in parts")
    return Geometry((blocks, 1, batch), (width, height, 1), early=True)


def _geometry_for_a(problem: Problem, _config: Config) -> Geometry:
    """The launch that repacks operand A of a product."""
    rows, cols = (problem.k, problem.m) if problem.trans_a else (problem.m, problem.k)
    _check_extents(rows, cols, problem.batch)
    return _geometry(rows, *_blocks(cols), problem.batch)


def _check_extents(rows: int, cols: int, batch: int) -> None:
    for name, value in (("rows", rows), ("cols", cols), ("batch", batch)):
        if value < 1:
            raise ProblemError(f"repack: {name}={value} leaves nothing to copy")
        if value > _LARGEST_EXTENT:
            raise ProblemError(f"repack: {name}={value:,} exceeds {_LARGEST_EXTENT:,}")
    if batch > LARGEST_BATCH:
        raise UnsupportedError(f"a launch takes {LARGEST_BATCH:,} matrices at most, not {batch:,}", "split the batch")


def _check_source(rows: int, cols: int, address: int, ld: int) -> None:
    if address % ITEMSIZE:
        raise ProblemError(f"repack: the source at {address:#x} does not start on {ITEMSIZE} bytes")
    if rows > 1 and ld < cols:
        raise ProblemError(f"repack: the source's leading dimension {ld} is less than its {cols} columns")


def _check_target(rows: int, cols: int, address: int, ld: int, batch: int, stride: int) -> None:
    if address % (CHUNK * ITEMSIZE):
        raise ProblemError(f"repack: the target at {address:#x} does not start on {CHUNK * ITEMSIZE} bytes")
    if ld % CHUNK or ld < packed_ld(cols):
        raise ProblemError(
            f"repack: the target's leading dimension {ld} is no multiple of {CHUNK} from {packed_ld(cols)} on",
            f"{cols} columns need packed_ld({cols}) = {packed_ld(cols)}",
        )
    taken = (rows - 1) * ld + packed_ld(cols)
    if batch > 1 and (stride % CHUNK or stride < taken):
        raise ProblemError(
            f"repack: the target's stride {stride} is no multiple of {CHUNK} from {taken} on",
            f"one copy takes ({rows} - 1) x {ld} + {packed_ld(cols)} = {taken} elements",
        )


REPACK = KernelSpec(
    name="repack",
    source=Path(__file__).with_name("repack.cu"),
    summary="copies a matrix into rows that start on 16 bytes",
    teaches="aligned vectors from unaligned rows: load both granules of a chunk and shift them together",
    geometry=_geometry_for_a,
    entry="repack",
    dtypes=(FP16, BF16),
    out_dtypes=(FP16, BF16),
    layouts=("NN", "NT", "TN", "TT"),
    batched=True,
    extra_defines=(("THREADS", str(THREADS)), ("ROWS", str(ROWS))),
)
