"""A kernel and what was found out about it, from which its trials are made."""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.verify.code.edges import NO_COVERAGE, Coverage, KernelEdges
from gemmsmith.verify.trials.multiples import ANY, Multiples

_USUAL_DEPTH = 8  # of a kernel whose loops could not be read


@dataclass(frozen=True)
class Subject:
    """A kernel and what was found out about it.

    base       whole tiles, right
    tile       rows and columns of C of one block, or of several if a block has a few rows only
    own        rows and columns of C of one block, if they are not ``tile``
    corner     the last block computes the last rows and columns
    multiples  of M, N and K, which it needs
    floats     constants that it compares floats with; adds: whether it adds floats in global memory
    atomics    whether it changes global memory by atomics: blocks share tiles, or take them from a counter
    c          what C holds before a launch
    samples    whether each block computes its own tile, so that some of them can be run alone
    square     it is right for M = N only
    coverage   products that cover the decisions of its code
    """

    spec: KernelSpec
    config: Config
    base: Problem
    tile: tuple[int, int]
    edges: KernelEdges
    multiples: Multiples = ANY
    floats: tuple[float, ...] = ()
    adds: bool = False
    atomics: bool = False
    c: str = "unset"
    samples: bool = False
    square: bool = False
    own: tuple[int, int] = (0, 0)
    corner: bool = False
    coverage: Coverage = NO_COVERAGE

    @property
    def of_block(self) -> tuple[int, int]:
        """Rows and columns of C of one block."""
        return self.own if all(self.own) else self.tile

    @property
    def depth(self) -> int:
        """The k-tile."""
        return max(self.edges.depth or _USUAL_DEPTH, self.multiples.k)

    @property
    def parts(self) -> int:
        """How many blocks share a tile, each with a part of K; 1 where the grid's last extent counts products."""
        return 1 if self.spec.batched else self.spec.geometry(self.base, self.config).grid[2]

    def problem(self, m: int, n: int, k: int) -> Problem:
        """A product that the kernel takes, with at least these extents."""
        return self.multiples.up(self.cubed(self.base.with_(m=m, n=n, k=k)))

    def cubed(self, problem: Problem) -> Problem:
        """As it is, or a cube for a kernel with a single extent."""
        if self.square:
            return problem.with_(m=max(problem.m, problem.n), n=max(problem.m, problem.n))
        if not self.spec.signature.square:
            return self.spec.signature.tie(problem)
        side = max(problem.m, problem.n, problem.k)
        return problem.with_(m=side, n=side, k=side)

    def one_tile(self, k: int) -> Problem:
        """One block's work, one short of the whole tile where that is allowed, with this K."""
        m, n = ((extent - step if extent > step else extent) if step < extent else extent
                for extent, step in zip(self.tile, (self.multiples.m, self.multiples.n), strict=True))  # fmt: skip
        return self.problem(m, n, k)
