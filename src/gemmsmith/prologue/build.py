"""What is launched before a kernel, and the workspace that these launches leave their results in.

A kernel whose operands must be aligned, transposed or split first, or whose blocks share memory, says so in its
specification. ``KernelSpec.prologue`` is a function of the problem, the addresses and the workspace; it returns a
``Prologue``, from which call/binding.py makes launches:

    prologue ... ─► (the fallback's prologue, the fallback) ─► the kernel

Where data decide which kernel computes the product, a launch of the prologue writes a verdict to the workspace, and
both the kernel and its fallback are launched. Each reads the verdict, and one returns at once. The host never reads it,
so a product can be captured into a CUDA graph, and decides anew at every replay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec, Prologue, PrologueLaunch, Workspace
from gemmsmith.problem import Problem, ceil_div
from gemmsmith.prologue.align_copy import ALIGN_COPY, align_copy_launch, align_copy_operands
from gemmsmith.prologue.operand_layout import PackedOperand
from gemmsmith.prologue.transpose import TRANSPOSE, transpose_launch, transpose_operands
from gemmsmith.prologue.zero_workspace import FLAG_BYTES, ZERO_WORKSPACE, zero_workspace_launch

REGION = 256  # bytes: regions of a workspace start on multiples, as allocations do
_FP32 = Problem(1, 1, 1)


def build_prologue(spec: KernelSpec, config: Config, problem: Problem, addresses: Addresses, workspace: int = 0,
                   as_fallback: bool = False) -> Prologue:  # fmt: skip
    """What ``spec`` needs; nbytes is the same for every ``workspace``, and large enough for the fallback.

    For a kernel without a builder of its own it follows from ``align_copies``, ``transposed_copy`` and ``workspace``. A
    rung computes a batch that shares one B as one product (``Problem.folded``).
    """
    problem = problem.folded if spec.is_rung else problem
    if spec.prologue is None:
        return _standard(spec, config, problem, addresses, workspace, as_fallback)
    found = spec.prologue(problem, config, addresses, workspace, as_fallback)
    if found.fallback is None:
        return found
    other = build_prologue(found.fallback.spec, found.fallback.config, problem, addresses, workspace, as_fallback=True)
    return replace(found, nbytes=max(found.nbytes, other.nbytes), fallback_prologue=other)


def has_product(problem: Problem) -> bool:
    """Whether A and B are read at all."""
    return problem.alpha != 0 and problem.k > 0


def region_bytes(nbytes: int) -> int:
    """``nbytes`` rounded up to where the next region begins."""
    return ceil_div(nbytes, REGION) * REGION


def zeroing(workspace: int, nbytes: int = FLAG_BYTES) -> PrologueLaunch:
    """Sets flags, or a verdict, at the beginning of the workspace to 0; ``nbytes`` is a multiple of 4096."""
    return PrologueLaunch(ZERO_WORKSPACE, *zero_workspace_launch(workspace, nbytes))


@dataclass(frozen=True)
class _State:
    """What the kernel sees after the launches so far, and where the next region of the workspace begins."""

    problem: Problem
    addresses: Addresses
    end: int
    launches: tuple[PrologueLaunch, ...]


def _standard(spec: KernelSpec, config: Config, problem: Problem, addresses: Addresses, workspace: int,
              as_fallback: bool) -> Prologue:  # fmt: skip
    """Memory that the kernel's blocks share comes first, then copies of operands."""
    shared = Workspace() if spec.workspace is None else spec.workspace(problem, config)
    end = region_bytes(shared.nbytes)
    state = _State(problem, addresses, end, (zeroing(workspace, shared.zeroed),) if shared.zeroed else ())
    if spec.align_copies and has_product(problem):
        in_place = spec.unaligned_operands(config) if spec.unaligned_operands is not None else ""
        state = _aligned(state, workspace, in_place)
    if spec.transposed_copy is not None and spec.transposed_copy(config) and has_product(problem):
        state = _transposed(state, workspace)
    address = workspace if end or as_fallback else 0
    return Prologue(state.problem, state.addresses, state.end, state.launches, address)


def _aligned(state: _State, workspace: int, in_place: str) -> _State:
    """With rows that start on 16 bytes, but for operands that are read ``in_place``."""
    state = replace(state, problem=_contiguous_vectors_as_rows(state.problem))
    a, b = align_copy_operands(state.problem, state.addresses.a, state.addresses.b)
    a, b = replace(a, in_place="A" in in_place), replace(b, in_place="B" in in_place)
    return _packed(state, workspace, a, b, lambda *to: PrologueLaunch(ALIGN_COPY, *align_copy_launch(a, b, *to)))


def _contiguous_vectors_as_rows(problem: Problem) -> Problem:
    """A vector along k with contiguous elements becomes a row: there is no next row that could be unaligned."""
    if problem.trans_a and problem.m == 1 and problem.lda == 1:
        problem = replace(problem, trans_a=False, lda=problem.k)
    if not problem.trans_b and problem.n == 1 and problem.ldb == 1:
        problem = replace(problem, trans_b=True, ldb=problem.k)
    return problem


def _transposed(state: _State, workspace: int) -> _State:
    """With M or N contiguous, in rows that start on 16 bytes."""
    a, b = transpose_operands(state.problem, state.addresses.a, state.addresses.b)
    return _packed(state, workspace, a, b,
                   lambda *to: PrologueLaunch(TRANSPOSE, *transpose_launch(a, b, *to), compiled_for=_FP32))  # fmt: skip


def _packed(state: _State, workspace: int, a: PackedOperand, b: PackedOperand,
            launch: Callable[[int, int], PrologueLaunch]) -> _State:  # fmt: skip
    """After ``launch`` has copied the operands that are not ready to two regions: first A, then B."""
    if a.is_ready and b.is_ready:
        return state
    problem, addresses = state.problem, state.addresses
    to_a = workspace + state.end
    to_b = to_a + (0 if a.is_ready else region_bytes(a.packed_bytes))
    end = to_b + (0 if b.is_ready else region_bytes(b.packed_bytes)) - workspace
    if not a.is_ready:
        problem = replace(problem, trans_a=not a.packed_k_major, lda=a.packed_ld, stride_a=a.packed_stride)
        addresses = addresses._replace(a=to_a)
    if not b.is_ready:
        problem = replace(problem, trans_b=b.packed_k_major, ldb=b.packed_ld, stride_b=b.packed_stride)
        addresses = addresses._replace(b=to_b)
    return _State(problem, addresses, end, (*state.launches, launch(to_a, to_b)))
