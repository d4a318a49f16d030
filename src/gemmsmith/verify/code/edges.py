"""What a kernel's code tells about sizes: its edges, guards and k-tiles (found by kernel_edges.py)."""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.problem import Problem

UNKNOWN_STEPS = 2**62


@dataclass(frozen=True)
class Edge:
    """From ``value`` on along ``axis`` something is different: an extent (K, M, N, two at once) or a block's index."""

    axis: str
    value: int
    where: str
    text: str


@dataclass(frozen=True)
class Covering:
    """A product at which the code decides as at no other before it, and the instruction that does."""

    problem: Problem
    where: str
    text: str


@dataclass(frozen=True)
class Misrounded:
    """A product at which an index that is computed in floating point is another one by rounding, a block that has it,
    and the instruction that makes it an integer."""

    problem: Problem
    block: int
    where: str
    text: str


@dataclass(frozen=True)
class Coverage:
    """``products`` that add outcomes, the most for their cost first; ``unreached``: places of the source at which a
    branch goes one way only, at every size that was looked at; ``misrounded``: products with rounded indices."""

    products: tuple[Covering, ...] = ()
    unreached: tuple[str, ...] = ()
    misrounded: tuple[Misrounded, ...] = ()


NO_COVERAGE = Coverage()


@dataclass(frozen=True)
class KernelEdges:
    """depths    how far K goes in one round of each loop over K, the largest first; empty if none was found
    guards    M, N and K: extents that the kernel compares with at ragged edges, beyond the ends of its loops
    unguarded  k-tiles with which K is none of the guards after all
    stored    rows and columns that one wmma store writes: no guard can be finer
    was_read  the code could be read at all
    guard_lines  the extent and the line of each guard
    tails     extents with code of their own for ragged ones: what whole k-tiles, or whole vectors, never come to
    looks_at_alignment  another way is taken where rows of A or B do not begin on multiples of 16 bytes
    masks_k   threads compare a k of their own with K, which only a ragged K needs
    clamps_k  something is K at most, as the end of the last part of K
    rounds_up  a loop over K has a round for what is left behind the last whole step
    counted   extents that the kernel looks at in whole tiles alone: ``tile < M / 16``
    narrow    numbers of elements beyond which an index of the code does not fit into its 16 bits
    counts_bytes  a number that is no thread's is cut to 8 bits: rows or columns of tiles may be counted in a byte
    long_steps  integer instructions of a thread, for a product with one output and K beyond each number of ``narrow``
    """

    depths: tuple[int, ...] = ()
    edges: tuple[Edge, ...] = ()
    guards: frozenset[str] = frozenset()
    unguarded: frozenset[int] = frozenset()
    stored: tuple[int, ...] = ()
    was_read: bool = False
    guard_lines: tuple[tuple[str, int], ...] = ()
    tails: frozenset[str] = frozenset()
    looks_at_alignment: bool = False
    masks_k: bool = False
    clamps_k: bool = False
    rounds_up: bool = False
    counted: frozenset[str] = frozenset()
    narrow: tuple[int, ...] = ()
    counts_bytes: bool = False
    long_steps: tuple[int, ...] = ()

    def guarded(self, axis: str, step: int) -> bool:
        """Whether an extent of ``axis`` ("M", "MN") is guarded, if it goes in steps of ``step``."""
        if self.tails & set(axis):
            return True
        return bool(self.guards & set(axis)) and not (axis == "K" and step in self.unguarded)

    def guarded_at(self, axis: str, line: int) -> bool:
        """Whether the guard of an extent stands in this line of the source."""
        return any(each in axis and at == line for each, at in self.guard_lines)

    def along(self, axis: str) -> tuple[int, ...]:
        """The edges along one axis, ascending."""
        return tuple(sorted({edge.value for edge in self.edges if edge.axis == axis}))

    @property
    def depth(self) -> int:
        """The k-tile: the largest depth, or 0."""
        return self.depths[0] if self.depths else 0
