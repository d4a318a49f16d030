"""The prologue of fp16x3: a launch that splits A and B into two fp16 numbers each, their place, and the verdict.

    workspace   | verdict | exponents of A, of B | planes of A: h, l, h, l ... | planes of B |

Each matrix of a batch has one plane of high parts and one of low parts, in the layout of the stored operand, with rows
that start on 16 bytes. The exponents are the powers of two that each row of A and each column of B was multiplied by.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gemmsmith.errors import UnsupportedError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.slots import pack
from gemmsmith.kernel.spec import Addresses, Fallback, KernelSpec, Prologue, PrologueBuilder, PrologueLaunch
from gemmsmith.problem import FP32, Problem, ceil_div
from gemmsmith.prologue.align_copy import packed_bytes, packed_ld
from gemmsmith.prologue.build import has_product, region_bytes, zeroing
from gemmsmith.prologue.operand_layout import OperandLayout, operand_layouts
from gemmsmith.prologue.zero_workspace import FLAG_BYTES

THREADS = 256  # of a block
LEAST_DEPTH = 32  # normal numbers: errors are 1.11 times those of fma at K = 24, 0.99 times at 32
KEPT = 8  # groups of four numbers that a thread holds in registers
CLUSTER = 8  # blocks that share lines of an operand that is not K-major, on GPUs that have clusters
_LINES = 16  # of a block or a cluster, if the operand is not K-major
_EACH = 4 * KEPT  # numbers of a line that a thread has, before more threads share it
_LARGEST_GRID = 2**31 - 1
_MOST = 2**31 - 1
_WORDS = struct.Struct("<4i")
VERDICT_BYTES = _WORDS.size  # at the beginning of the workspace: LOST_A, FEW_A, LOST_B, FEW_B


def fp16_accepted(verdict: bytes) -> bool:
    """Whether fp16 parts are enough (include/tile/fp16_verdict.cuh); ``verdict`` is the beginning of the workspace."""
    lost_a, few_a, lost_b, few_b = _WORDS.unpack_from(verdict)
    return bool(lost_a * 32 <= _MOST - few_b and lost_b * 32 <= _MOST - few_a)


@dataclass(frozen=True)
class _SplitOperand(OperandLayout):
    """A line is a row of A or a column of B. ``cluster``: blocks that share lines, if the operand is not K-major."""

    cluster: int

    @property
    def lines(self) -> int:
        return self.shape[0] if self.k_major else self.shape[1]

    @property
    def depth(self) -> int:
        return self.shape[1] if self.k_major else self.shape[0]

    @property
    def exponent_bytes(self) -> int:
        return 4 * self.copies * self.lines

    @property
    def plane_bytes(self) -> int:
        return region_bytes(packed_bytes(*self.shape, 2 * self.copies))

    @property
    def part_ld(self) -> int:
        return packed_ld(self.shape[1])

    @property
    def part_stride(self) -> int:
        """From one matrix to the next: two planes; 0 if one serves the whole batch."""
        return 2 * self.shape[0] * self.part_ld if self.copies > 1 else 0

    @property
    def threads_per_line(self) -> int:
        """A power of two; 0 if the operand is not K-major."""
        if not self.k_major:
            return 0
        threads = 32
        while threads < THREADS and threads * _EACH < self.depth:
            threads *= 2
        return threads

    @property
    def blocks_per_matrix(self) -> int:
        if self.k_major:
            return ceil_div(self.lines, THREADS // self.threads_per_line)
        return ceil_div(self.lines, _LINES) * self.cluster

    @property
    def blocks(self) -> int:
        """For all matrices, in whole clusters."""
        return ceil_div(self.blocks_per_matrix * self.copies, self.cluster) * self.cluster

    def as_argument(self, planes: int, exponents: int, verdict: int) -> bytes:
        """The struct that the kernel takes."""
        blocks = self.blocks_per_matrix
        return pack("<QqqQQQIIIIIxxxx", self.address, self.ld, self.stride, planes, exponents, verdict,
                    self.lines, self.depth, self.threads_per_line, blocks, blocks * self.copies)  # fmt: skip


def _operands(problem: Problem, addresses: Addresses, cluster: int) -> tuple[_SplitOperand, _SplitOperand]:
    return operand_layouts(partial(_SplitOperand, cluster=cluster), problem, addresses.a, addresses.b)


def split_fp16(problem: Problem, addresses: Addresses, workspace: int, clusters: bool = False) -> Prologue:
    """A and B as planes of fp16 in the workspace, and the verdict on them; there must be a product.

    ``clusters``: by the kernel for GPUs that have them, with the same result.
    """
    spec, cluster = (SPLIT_FP16_CLUSTER, CLUSTER) if clusters else (SPLIT_FP16, 1)
    a, b = _operands(problem, addresses, cluster)
    exponents_a = workspace + FLAG_BYTES
    exponents_b = exponents_a + a.exponent_bytes
    planes_a = workspace + FLAG_BYTES + region_bytes(a.exponent_bytes + b.exponent_bytes)
    planes_b = planes_a + a.plane_bytes
    arguments = [a.as_argument(planes_a, exponents_a, workspace), b.as_argument(planes_b, exponents_b, workspace + 8)]
    # Blocks of an operand that is not K-major take longest, so they come first.
    if a.k_major and not b.k_major:
        arguments.reverse()
    split = PrologueLaunch(spec, _geometry(a, b), tuple(arguments), Problem(1, 1, 1))
    return Prologue(
        problem=replace(problem, lda=a.part_ld, ldb=b.part_ld, stride_a=a.part_stride, stride_b=b.part_stride),
        addresses=addresses._replace(a=planes_a, b=planes_b),
        nbytes=planes_b + b.plane_bytes - workspace,
        launches=(zeroing(workspace), split),
        workspace=workspace,
    )


def split_fp16_prologue(fallback: KernelSpec, config: Config | None = None, clusters: bool = False) -> PrologueBuilder:
    """The prologue of a kernel by fp16 parts; ``fallback`` computes the product where they are not enough.

    ``config`` is the fallback's, its default unless told. ``clusters``: the kernel's GPUs have them.
    """
    other = Fallback(fallback, fallback.config() if config is None else config, VERDICT_BYTES, fp16_accepted)

    def build(problem: Problem, _config: Config, addresses: Addresses, workspace: int, as_fallback: bool) -> Prologue:
        if as_fallback:
            raise UnsupportedError("a kernel by fp16 parts may refuse its operands, so it cannot be a fallback")
        if not has_product(problem):
            return Prologue(problem, addresses)
        return replace(split_fp16(problem, addresses, workspace, clusters), fallback=other)

    return build


def _geometry(a: _SplitOperand, b: _SplitOperand) -> Geometry:
    blocks = a.blocks + b.blocks
    if blocks > _LARGEST_GRID:
        raise UnsupportedError(f"split_fp16: {blocks:,} blocks exceed the {_LARGEST_GRID:,} of a grid",
                               "split the batch")  # fmt: skip
    return Geometry((blocks, 1, 1), (THREADS, 1, 1), cluster=(a.cluster, 1, 1), pdl=True)


def _defines(cluster: int) -> tuple[tuple[str, str], ...]:
    values = {"THREADS": THREADS, "LEAST_DEPTH": LEAST_DEPTH, "KEPT": KEPT, "CLUSTER": cluster}
    return tuple((name, str(value)) for name, value in values.items())


SPLIT_FP16 = KernelSpec(
    name="split_fp16",
    source=Path(__file__).with_name("split_fp16.cu"),
    summary="splits fp32 operands into two fp16 numbers each and decides whether these are enough",
    teaches="a scale for every line, and a bound on what is lost that can be counted",
    geometry=lambda problem, _config: _geometry(*_operands(problem, Addresses(0, 0, 0), 1)),
    entry="split_fp16",
    dtypes=(FP32,),
    layouts=("NN", "NT", "TN", "TT"),
    batched=True,
    extra_defines=_defines(1),
)

SPLIT_FP16_CLUSTER = replace(
    SPLIT_FP16,
    name="split_fp16_cluster",
    summary="the same with blocks of a cluster sharing lines, so that each holds its part of them in registers",
    geometry=lambda problem, _config: _geometry(*_operands(problem, Addresses(0, 0, 0), CLUSTER)),
    min_arch=90,
    extra_defines=_defines(CLUSTER),
)
