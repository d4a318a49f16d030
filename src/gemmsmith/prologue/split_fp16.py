"""The preparation of products by two fp16 parts: the launch that splits A and B, where everything lies, the verdict.

    workspace   | verdict | exponents of A, of B | planes of A: h, l, h, l ... | planes of B |

Of each matrix of a batch there is one plane with the upper parts and one with the lower ones, rows as they are stored
and starting on 16 bytes. The exponents say by which power of two each row of A and each column of B was multiplied.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gemmsmith.errors import UnsupportedError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.prologue import Addresses, Fallback, Prologue, PrologueBuilder, PrologueLaunch
from gemmsmith.kernel.slots import pack
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import FP32, Problem, ceil_div
from gemmsmith.prologue.align_copy import packed_bytes, packed_ld
from gemmsmith.prologue.build import clearing, has_product, in_regions
from gemmsmith.prologue.operand_layout import Stored, stored_operands
from gemmsmith.prologue.zero_workspace import FLAG_BYTES

THREADS = 256  # of a block
LEAST_DEPTH = 32  # normal numbers: errors are 1.11 times those of fma at K = 24, 0.99 times at 32
KEPT = 8  # fours of numbers that a thread holds in registers
CLUSTER = 8  # blocks that share lines that lie across, on GPUs that have clusters
_LINES = 16  # of a block, or of a cluster, where they lie across
_EACH = 4 * KEPT  # numbers of a line that a thread has, before more threads share it
_LARGEST_GRID = 2**31 - 1
_MOST = 2**31 - 1
_WORDS = struct.Struct("<4i")
VERDICT_BYTES = _WORDS.size  # at the beginning of the workspace: LOST_A, FEW_A, LOST_B, FEW_B


def fp16_accepted(verdict: bytes) -> bool:
    """Whether fp16 parts are enough (include/tile/fp16_verdict.cuh); ``verdict`` begins as the workspace does."""
    lost_a, few_a, lost_b, few_b = _WORDS.unpack_from(verdict)
    return bool(lost_a * 32 <= _MOST - few_b and lost_b * 32 <= _MOST - few_a)


@dataclass(frozen=True)
class _Operand(Stored):
    """``cluster``: blocks that share lines, where k does not run along the rows."""

    cluster: int

    @property
    def lines(self) -> int:
        return self.shape[0] if self.along else self.shape[1]

    @property
    def depth(self) -> int:
        return self.shape[1] if self.along else self.shape[0]

    @property
    def exponent_bytes(self) -> int:
        return 4 * self.copies * self.lines

    @property
    def plane_bytes(self) -> int:
        return in_regions(packed_bytes(*self.shape, 2 * self.copies))

    @property
    def part_ld(self) -> int:
        return packed_ld(self.shape[1])

    @property
    def part_stride(self) -> int:
        """From one matrix to the next: two planes; none, where one serves the whole batch."""
        return 2 * self.shape[0] * self.part_ld if self.copies > 1 else 0

    @property
    def span(self) -> int:
        """Threads that share a line: a power of two; 0 where lines lie across."""
        if not self.along:
            return 0
        span = 32
        while span < THREADS and span * _EACH < self.depth:
            span *= 2
        return span

    @property
    def blocks(self) -> int:
        """Of one matrix."""
        return ceil_div(self.lines, THREADS // self.span) if self.along else ceil_div(self.lines, _LINES) * self.cluster

    @property
    def launched(self) -> int:
        """Blocks of all of them, in whole clusters."""
        return ceil_div(self.blocks * self.copies, self.cluster) * self.cluster

    def described(self, planes: int, exponents: int, verdict: int) -> bytes:
        """The struct that the kernel takes."""
        return pack("<QqqQQQIIIIIxxxx", self.address, self.ld, self.stride, planes, exponents, verdict,
                           self.lines, self.depth, self.span, self.blocks, self.blocks * self.copies)  # fmt: skip


def _operands(problem: Problem, addresses: Addresses, cluster: int) -> tuple[_Operand, _Operand]:
    return stored_operands(partial(_Operand, cluster=cluster), problem, addresses.a, addresses.b)


def fp16_parts(problem: Problem, addresses: Addresses, workspace: int, clusters: bool = False) -> Prologue:
    """A and B as planes of fp16 in the workspace, and the verdict on them; there must be a product.

    ``clusters``: by the kernel for GPUs that have them, which leaves the same.
    """
    spec, cluster = (FP16_PARTS_CLUSTER, CLUSTER) if clusters else (FP16_PARTS, 1)
    a, b = _operands(problem, addresses, cluster)
    exponents_a = workspace + FLAG_BYTES
    exponents_b = exponents_a + a.exponent_bytes
    planes_a = workspace + FLAG_BYTES + in_regions(a.exponent_bytes + b.exponent_bytes)
    planes_b = planes_a + a.plane_bytes
    described = [a.described(planes_a, exponents_a, workspace), b.described(planes_b, exponents_b, workspace + 8)]
    # Blocks of lines that lie across have most to do, so they come first.
    if a.along and not b.along:
        described.reverse()
    split = PrologueLaunch(spec, _geometry(a, b), tuple(described), Problem(1, 1, 1))
    return Prologue(
        problem=replace(problem, lda=a.part_ld, ldb=b.part_ld, stride_a=a.part_stride, stride_b=b.part_stride),
        addresses=addresses._replace(a=planes_a, b=planes_b),
        nbytes=planes_b + b.plane_bytes - workspace,
        launches=(clearing(workspace), split),
        workspace=workspace,
    )


def fp16_preparation(instead: KernelSpec, config: Config | None = None, clusters: bool = False) -> PrologueBuilder:
    """The preparation of a kernel by fp16 parts; ``instead`` computes the product where they are not enough.

    ``config`` is that of ``instead``, its default unless told. ``clusters``: the kernel's GPUs have them.
    """
    other = Fallback(instead, instead.config() if config is None else config, VERDICT_BYTES, fp16_accepted)

    def prepared(
        problem: Problem, _config: Config, addresses: Addresses, workspace: int, as_fallback: bool
    ) -> Prologue:
        if as_fallback:
            raise UnsupportedError("a kernel by fp16 parts may refuse its operands, so it takes no refused ones")
        if not has_product(problem):
            return Prologue(problem, addresses)
        return replace(fp16_parts(problem, addresses, workspace, clusters), fallback=other)

    return prepared


def _geometry(a: _Operand, b: _Operand) -> Geometry:
    blocks = a.launched + b.launched
    if blocks > _LARGEST_GRID:
        raise UnsupportedError(f"fp16_parts: {blocks:,} blocks exceed the {_LARGEST_GRID:,} of a grid",
                               "split the batch")  # fmt: skip
    return Geometry((blocks, 1, 1), (THREADS, 1, 1), cluster=(a.cluster, 1, 1), early=True)


def _defines(cluster: int) -> tuple[tuple[str, str], ...]:
    values = {"THREADS": THREADS, "LEAST_DEPTH": LEAST_DEPTH, "KEPT": KEPT, "CLUSTER": cluster}
    return tuple((name, str(value)) for name, value in values.items())


FP16_PARTS = KernelSpec(
    name="fp16_parts",
    source=Path(__file__).with_name("split_fp16.cu"),
    summary="splits fp32 operands into two fp16 numbers each and says whether these are enough",
    teaches="a scale for every line, and a bound on what is lost that can be counted",
    geometry=lambda problem, _config: _geometry(*_operands(problem, Addresses(0, 0, 0), 1)),
    entry="fp16_parts",
    dtypes=(FP32,),
    layouts=("NN", "NT", "TN", "TT"),
    batched=True,
    extra_defines=_defines(1),
)

FP16_PARTS_CLUSTER = replace(
    FP16_PARTS,
    name="fp16_parts_cluster",
    summary="the same where blocks of a cluster share lines, so that each holds its part of them in registers",
    geometry=lambda problem, _config: _geometry(*_operands(problem, Addresses(0, 0, 0), CLUSTER)),
    min_arch=90,
    simulated=False,
    extra_defines=_defines(CLUSTER),
)
