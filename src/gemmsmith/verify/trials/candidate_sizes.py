"""Products at which a kernel may decide otherwise than at usual ones: many of them, none run yet."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from gemmsmith.problem import INTEGER_TYPES, Problem
from gemmsmith.verify.trials.trial_subject import Subject
from gemmsmith.verify.trials.trials import padded

_SEED = 19
_MOST_TILES, _MOST_CONSTANT, _MOST_POWER = 11, 4096, 10
_LONGEST = 40  # tiles along an extent that is drawn log-uniformly
_NEAR = (-1, 0, 0, 1)
_ALIKE, _EQUAL = 0.3, 0.2  # shares of what is drawn
_MOST_WORK, _LEAST_TILES = 2**19, 6  # multiply-adds of a trial; or so many k-tiles of a large tile
_MANY_TILES, _MANY_WORK = 0.2, 10  # shares of products of many tiles and few k, and times as much work as others
_MOST_AREA = 2**20
_MOST_CONSTANTS = 16  # that each extent is tried at
_TILES = 24  # along an extent of these
# alpha = 0 has trials of its own: what else the code decides would not show in the result.
_SCALARS = ((1.0, 1.0), (2.0, -1.0), (-1.0, 0.0), (1.0, -2.0), (3.0, 1.0), (-2.0, 3.0))


class CandidateSizes:
    """Draws products that the kernel takes and that are run in a second or so; the same ones every time."""

    def __init__(self, subject: Subject, constants: Sequence[int], areas: Sequence[int] = ()) -> None:
        self.subject = subject
        self.areas = [area for area in areas if _MOST_CONSTANT < area <= _MOST_AREA]
        self.most_work = max(_MOST_WORK, _LEAST_TILES * math.prod(subject.tile) * subject.depth)
        self.constants = [c for c in constants if 1 < c <= _MOST_CONSTANT]
        self.rng = np.random.Generator(np.random.PCG64(_SEED))

    def drawn(self, count: int) -> Iterator[Problem]:
        seen: set[Problem] = set()
        for _ in range(count):
            problem = self._drawn()
            if problem not in seen and self.work(problem) <= 2 * _MANY_WORK * self.most_work:
                seen.add(problem)
                yield problem

    def around_constants(self) -> Iterator[Problem]:
        """Each extent at each constant of the code and next to it, in elements and in tiles, the others being a tile:
        what holds up to a limit, or from it on, is tried where it holds for the last time, and for the first."""
        units = *self.subject.tile, self.subject.depth
        for constant in self.constants[:_MOST_CONSTANTS]:
            for axis, unit in enumerate(units):
                for times in (1, unit) if unit > 1 and constant < _LONGEST else (1,):
                    for near in (-1, 0, 1):
                        extents = [*units]
                        extents[axis] = (constant + near) * times
                        problem = self.subject.problem(*extents)
                        if self.work(problem) <= 2 * self.most_work:
                            yield problem

    def around_areas(self) -> Iterator[Problem]:
        """Two extents whose product is a large constant of the code, and a little more: ``if (M * N > 65536)``."""
        for area in self.areas[:_MOST_CONSTANTS]:
            side = math.isqrt(area)
            for axes in ((0, 1), (0, 2), (1, 2)):
                for other in (area // side, -(-(area + 1) // side)):
                    extents = [1, 1, self.subject.parts]
                    extents[axes[0]], extents[axes[1]] = side, other
                    problem = self.subject.problem(*extents)
                    if self.work(problem) <= 2 * _MANY_WORK * self.most_work:
                        yield problem

    def work(self, problem: Problem) -> int:
        """Multiply-adds, with those of whole tiles that reach beyond the edges."""
        return problem.batch * self._padded((problem.m, problem.n, problem.k))

    def _padded(self, extents: Sequence[int]) -> int:
        units = *self.subject.tile, self.subject.depth
        return math.prod(-(-extent // unit) * unit for extent, unit in zip(extents, units, strict=True))

    def _drawn(self) -> Problem:
        units = *self.subject.tile, self.subject.depth
        if self.rng.random() < _MANY_TILES:
            return self._of_many_tiles(units)
        alike = self._kind() if self.rng.random() < _ALIKE else None  # all of them small, or powers of two, …
        extents = [self._extent(unit, self._kind() if alike is None else alike) for unit in units]
        if self.rng.random() < _EQUAL:  # two of them
            one, other = self.rng.permutation(3)[:2]
            extents[one] = extents[other]
        while self._padded(extents) > self.most_work:
            longest = max(range(3), key=lambda axis: -(-extents[axis] // units[axis]) * (1 + self.rng.random()))
            extents[longest] = extents[longest] // 2
        problem = self.subject.problem(*extents)
        return self._with_scalars(self._with_rows(problem))

    def _of_many_tiles(self, units: Sequence[int]) -> Problem:
        """Tiles along both extents, more than a group or a wave has, with a k-tile or two."""
        most = max(4, _MANY_WORK * self.most_work // math.prod(units))
        down = int(self.rng.integers(1, min(_TILES, most) + 1))
        across = int(self.rng.integers(1, max(1, min(_TILES, most // down)) + 1))
        rows, columns = (
            count * unit - int(self.rng.choice((0, 0, 1)))
            for count, unit in zip((down, across), units[:2], strict=True)
        )
        # Each block that shares a tile has a term: what is left out of a sum must not be zero.
        deep = [max(k, self.subject.parts) for k in (1, 3, units[2] - 1, units[2], units[2] + 1)]
        return self.subject.problem(rows, columns, int(self.rng.choice(deep)))

    def _kind(self) -> tuple[int, int]:
        return int(self.rng.integers(6 if self.constants else 4)), int(self.rng.choice(_NEAR))

    def _extent(self, unit: int, kind_near: tuple[int, int]) -> int:
        """Small, around multiples of a tile, powers of two or constants of the code, or log-uniform."""
        kind, near = kind_near
        if kind == 0:
            return int(self.rng.integers(1, 6))
        if kind == 1:
            return max(1, unit * int(self.rng.integers(1, _MOST_TILES)) + near)
        if kind == 2:
            return max(1, (1 << int(self.rng.integers(3, _MOST_POWER + 1))) + near)
        if kind == 3:
            return round(math.exp(self.rng.uniform(0.0, math.log(_LONGEST * unit))))
        constant = int(self.rng.choice(self.constants))
        return max(1, constant * (unit if kind == 5 and constant < _LONGEST else 1) + near)

    def _with_rows(self, problem: Problem) -> Problem:
        """Some with padded rows, where the kernel takes a leading dimension; some as a batch."""
        spec, drawn = self.subject.spec, self.rng.random()
        if spec.batched and not spec.is_rung and drawn < 0.15:
            return spec.signature.batch_of(problem, int(self.rng.integers(2, 6)))
        takes = any(spec.signature.has(name) for name in ("lda", "ldb", "ldc", "ldd"))
        return padded(problem, spec) if takes and drawn > 0.75 else problem

    def _with_scalars(self, problem: Problem) -> Problem:
        spec, base = self.subject.spec, self.subject.base
        signature = spec.signature
        whole = base.dtype in INTEGER_TYPES or base.out_dtype in INTEGER_TYPES
        if whole or not signature.has("alpha") or not signature.has("beta") or self.rng.random() < 0.5:
            return problem
        alpha, beta = _SCALARS[int(self.rng.integers(len(_SCALARS)))]
        return problem.with_(alpha=alpha, beta=beta)
