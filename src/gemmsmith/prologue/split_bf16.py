"""The launch that writes both operands as three matrices of bf16 each: no product, so its parameters are packed here.

In the workspace, from ``offset`` on: the parts of A, then those of B, each on a boundary of 256 bytes. Parts of product
z have numbers 3·z to 3·z + 2; all have the rows of the stored operand, in a leading dimension that is its columns
rounded up to 8.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.prologue import Addresses, PrologueLaunch
from gemmsmith.kernel.slots import pack
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import FP32, Problem, ceil_div
from gemmsmith.prologue.align_copy import packed_bytes, packed_ld
from gemmsmith.prologue.build import in_regions

PARTS = 3
_CHUNK = 8  # numbers of a thread at a time
_THREADS = 256
_AT_ONCE = 4  # chunks of a thread


@dataclass(frozen=True)
class PlacedParts:
    """Where the parts of A and of B begin, and where the next thing may."""

    a: int
    b: int
    end: int


def placed_parts(problem: Problem, start: int) -> PlacedParts:
    """``start`` must be a multiple of 256."""
    many_a, many_b, _ = problem.copies
    b = start + in_regions(packed_bytes(*problem.a_shape, PARTS * many_a))
    return PlacedParts(start, b, b + in_regions(packed_bytes(*problem.b_shape, PARTS * many_b)))


def bf16_parts(problem: Problem, addresses: Addresses, placed: PlacedParts, verdict: int = 0) -> PrologueLaunch:
    """Splits A and B; where ``verdict`` is an address, only if the verdict there is against fp16."""
    many_a, many_b, _ = problem.copies
    blocks = [_blocks(shape) for shape in (problem.a_shape, problem.b_shape)]
    arguments = (
        _operand(addresses.a, problem.lda, problem.stride_a, placed.a, problem.a_shape, many_a),
        _operand(addresses.b, problem.ldb, problem.stride_b, placed.b, problem.b_shape, many_b),
        struct.pack("<I", blocks[0]), pack("<Q", verdict),
    )  # fmt: skip
    geometry = Geometry((sum(blocks), 1, max(many_a, many_b)), (_THREADS, 1, 1), early=True)
    return PrologueLaunch(BF16_PARTS, geometry, arguments, _FP32)


def _operand(source: int, ld: int, stride: int, target: int, shape: tuple[int, int], copies: int) -> bytes:
    return pack("<QqqQiii4x", source, ld, stride, target, *shape, copies)


def _blocks(shape: tuple[int, int]) -> int:
    rows, cols = shape
    return ceil_div(rows * packed_ld(cols) // _CHUNK, _THREADS * _AT_ONCE)


def _geometry(problem: Problem, _config: Config) -> Geometry:
    return Geometry((_blocks(problem.a_shape) + _blocks(problem.b_shape), 1, 1), (_THREADS, 1, 1), early=True)


_FP32 = Problem(1, 1, 1)

BF16_PARTS = KernelSpec(
    name="bf16_parts",
    source=Path(__file__).with_name("split_bf16.cu"),
    summary="writes fp32 operands as three matrices of bf16 each",
    teaches="",
    geometry=_geometry,
    entry="bf16_parts",
    dtypes=(FP32,),
    min_arch=90,
    simulated=False,
    extra_defines=(("THREADS", str(_THREADS)), ("AT_ONCE", str(_AT_ONCE))),
)
