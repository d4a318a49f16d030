"""What is done for a kernel before it runs: launches of their own, and a workspace that they leave their results in.

A kernel that does not take operands as they are (rows that start anywhere, numbers that must be split first) or whose
blocks share memory says so in its specification. ``KernelSpec.preparation`` is a function of the problem, the addresses
and the workspace; what it answers is a ``Prologue``, from which run/binding.py makes launches:

    before ... ─► (what ``instead`` needs, ``instead`` itself) ─► the kernel

Where data decide who computes the product, a launch before it writes a verdict into the workspace, and both the kernel
and ``instead`` are launched: each reads the verdict and returns at once if it is not its turn. The host never looks, so
that a product can be captured into a CUDA graph, and decides anew at every replay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.prologue import Addresses, Prologue, PrologueLaunch
from gemmsmith.kernel.spec import KernelSpec, Scratch
from gemmsmith.problem import Problem, ceil_div
from gemmsmith.prologue.align_copy import REPACK, repack_launch, rows_of
from gemmsmith.prologue.operand_layout import Moved
from gemmsmith.prologue.transpose import TURN, lines_of, turn_launch
from gemmsmith.prologue.zero_workspace import CLEAR, FLAG_BYTES, clear_launch

REGION = 256  # bytes: what lies in a workspace starts on multiples, as allocations do
_FP32 = Problem(1, 1, 1)


def build_prologue(spec: KernelSpec, config: Config, problem: Problem, addresses: Addresses, workspace: int = 0,
            as_fallback: bool = False) -> Prologue:  # fmt: skip
    """What ``spec`` needs; its nbytes are the same for every ``workspace``, and include those of ``instead``.

    A kernel that declares nothing has what follows from ``repacks``, ``turns`` and ``scratch``.
    """
    if spec.preparation is None:
        return _plain(spec, config, problem, addresses, workspace, as_fallback)
    found = spec.preparation(problem, config, addresses, workspace, as_fallback)
    if found.fallback is None:
        return found
    other = build_prologue(found.fallback.spec, found.fallback.config, problem, addresses, workspace, as_fallback=True)
    return replace(found, nbytes=max(found.nbytes, other.nbytes), fallback_prologue=other)


def has_product(problem: Problem) -> bool:
    """Whether A and B are read at all."""
    return problem.alpha != 0 and problem.k > 0


def in_regions(nbytes: int) -> int:
    """Up to where the next one begins."""
    return ceil_div(nbytes, REGION) * REGION


def clearing(workspace: int, nbytes: int = FLAG_BYTES) -> PrologueLaunch:
    """Sets flags, or a verdict, at the beginning of the workspace to 0; ``nbytes`` are a multiple of 4096."""
    return PrologueLaunch(CLEAR, *clear_launch(workspace, nbytes))


def _plain(spec: KernelSpec, config: Config, problem: Problem, addresses: Addresses, workspace: int,
           as_fallback: bool) -> Prologue:  # fmt: skip
    """What the kernel's blocks share comes first, then copies of operands whose rows do not start on 16 bytes, or of
    those that were turned."""
    scratch = Scratch() if spec.scratch is None else spec.scratch(problem, config)
    nbytes = in_regions(scratch.nbytes)
    before = [clearing(workspace, scratch.cleared)] if scratch.cleared else []
    shared = workspace if nbytes or as_fallback else 0
    if spec.repacks and has_product(problem):
        loose = spec.loose(config) if spec.loose is not None else ""
        problem, addresses, nbytes = _repacked(problem, addresses, workspace, nbytes, before, loose)
    if spec.turns is not None and spec.turns(config) and has_product(problem):
        problem, addresses, nbytes = _turned(problem, addresses, workspace, nbytes, before)
    return Prologue(problem, addresses, nbytes, tuple(before), shared)


def _repacked(problem: Problem, addresses: Addresses, workspace: int, start: int, before: list[PrologueLaunch],
              loose: str) -> tuple[Problem, Addresses, int]:  # fmt: skip
    """With rows that start on 16 bytes. Operands that are ``loose`` stay, however their rows start."""
    problem = _columns_as_rows(problem)
    a, b = rows_of(problem, addresses.a, addresses.b)
    a, b = replace(a, stays="A" in loose), replace(b, stays="B" in loose)
    return _moved(
        problem,
        addresses,
        workspace,
        start,
        before,
        a,
        b,
        lambda *to: PrologueLaunch(REPACK, *repack_launch(a, b, *to)),
    )


def _columns_as_rows(problem: Problem) -> Problem:
    """A vector along k whose elements follow each other, as a row: there is no next one that could be unaligned."""
    if problem.trans_a and problem.m == 1 and problem.lda == 1:
        problem = replace(problem, trans_a=False, lda=problem.k)
    if not problem.trans_b and problem.n == 1 and problem.ldb == 1:
        problem = replace(problem, trans_b=True, ldb=problem.k)
    return problem


def _turned(problem: Problem, addresses: Addresses, workspace: int, start: int,
            before: list[PrologueLaunch]) -> tuple[Problem, Addresses, int]:  # fmt: skip
    """With lines across k that start on 16 bytes."""
    a, b = lines_of(problem, addresses.a, addresses.b)
    return _moved(problem, addresses, workspace, start, before, a, b,
                  lambda *to: PrologueLaunch(TURN, *turn_launch(a, b, *to), compiled_for=_FP32))  # fmt: skip


def _moved(problem: Problem, addresses: Addresses, workspace: int, start: int, before: list[PrologueLaunch],
           a: Moved, b: Moved,
           mover: Callable[[int, int], PrologueLaunch]) -> tuple[Problem, Addresses, int]:  # fmt: skip
    """What the kernel sees once a pass that ``mover`` makes has brought those of both that are not fine to two places,
    and where in the workspace the next thing may begin: A lies at ``start``, B behind it."""
    if a.fine and b.fine:
        return problem, addresses, start
    after_a = start + (0 if a.fine else in_regions(a.new_bytes))
    end = after_a + (0 if b.fine else in_regions(b.new_bytes))
    before.append(mover(workspace + start, workspace + after_a))
    if not a.fine:
        problem = replace(problem, trans_a=not a.new_along, lda=a.new_ld, stride_a=a.new_stride)
        addresses = addresses._replace(a=workspace + start)
    if not b.fine:
        problem = replace(problem, trans_b=b.new_along, ldb=b.new_ld, stride_b=b.new_stride)
        addresses = addresses._replace(b=workspace + after_a)
    return problem, addresses, end
