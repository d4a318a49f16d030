"""The prologue of bf16x6: a launch that splits both fp32 operands into three bf16 matrices each.

In the workspace, each on a multiple of 256 bytes: the parts of A, then those of B. Parts of product z have numbers 3·z
to 3·z + 2. All have the rows of the stored operand, and its columns rounded up to 8 as leading dimension.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.slots import pack
from gemmsmith.kernel.spec import Addresses, KernelSpec, Prologue, PrologueLaunch
from gemmsmith.problem import FP32, Problem, ceil_div
from gemmsmith.prologue.align_copy import packed_bytes, packed_ld
from gemmsmith.prologue.build import has_product, region_bytes
from gemmsmith.prologue.zero_workspace import FLAG_BYTES

PARTS = 3
_CHUNK = 8  # numbers of a thread at a time
_THREADS = 256
_AT_ONCE = 4  # chunks of a thread


@dataclass(frozen=True)
class PartAddresses:
    """Where the parts of A and of B begin, and where the next region may."""

    a: int
    b: int
    end: int


def place_parts(problem: Problem, start: int) -> PartAddresses:
    """``start`` must be a multiple of 256."""
    copies_a, copies_b, _ = problem.copies
    b = start + region_bytes(packed_bytes(*problem.a_shape, PARTS * copies_a))
    return PartAddresses(start, b, b + region_bytes(packed_bytes(*problem.b_shape, PARTS * copies_b)))


def split_bf16_launch(problem: Problem, addresses: Addresses, parts: PartAddresses, verdict: int = 0) -> PrologueLaunch:
    """Splits A and B; if ``verdict`` is an address, only where the verdict there is against fp16."""
    copies_a, copies_b, _ = problem.copies
    blocks = [_blocks(shape) for shape in (problem.a_shape, problem.b_shape)]
    arguments = (
        _operand(addresses.a, problem.lda, problem.stride_a, parts.a, problem.a_shape, copies_a),
        _operand(addresses.b, problem.ldb, problem.stride_b, parts.b, problem.b_shape, copies_b),
        struct.pack("<I", blocks[0]), pack("<Q", verdict),
    )  # fmt: skip
    geometry = Geometry((sum(blocks), 1, max(copies_a, copies_b)), (_THREADS, 1, 1), pdl=True)
    return PrologueLaunch(SPLIT_BF16, geometry, arguments, _FP32)


def split_bf16_prologue(
    problem: Problem, _config: Config, addresses: Addresses, workspace: int, as_fallback: bool
) -> Prologue:
    """As a fallback it keeps the verdict at the beginning of the workspace, and splits only if that is against fp16."""
    verdict = workspace if as_fallback else 0
    if not has_product(problem):
        return Prologue(problem, addresses, workspace=verdict)
    parts = place_parts(problem, workspace + (FLAG_BYTES if as_fallback else 0))
    return Prologue(
        problem, addresses, parts.end - workspace, (split_bf16_launch(problem, addresses, parts, verdict),), verdict,
        mapped=addresses._replace(a=parts.a, b=parts.b),
    )  # fmt: skip


def _operand(source: int, ld: int, stride: int, target: int, shape: tuple[int, int], copies: int) -> bytes:
    return pack("<QqqQiii4x", source, ld, stride, target, *shape, copies)


def _blocks(shape: tuple[int, int]) -> int:
    rows, cols = shape
    return ceil_div(rows * packed_ld(cols) // _CHUNK, _THREADS * _AT_ONCE)


def _geometry(problem: Problem, _config: Config) -> Geometry:
    return Geometry((_blocks(problem.a_shape) + _blocks(problem.b_shape), 1, 1), (_THREADS, 1, 1), pdl=True)


_FP32 = Problem(1, 1, 1)

SPLIT_BF16 = KernelSpec(
    name="split_bf16",
    source=Path(__file__).with_name("split_bf16.cu"),
    summary="splits fp32 operands into three bf16 matrices each",
    teaches="",
    geometry=_geometry,
    entry="split_bf16",
    dtypes=(FP32,),
    min_arch=90,
    extra_defines=(("THREADS", str(_THREADS)), ("AT_ONCE", str(_AT_ONCE))),
)
