"""Which extents a kernel guards, read off the paths of threads at the ragged edges of C."""

from __future__ import annotations

from collections.abc import Callable

from gemmsmith.kernel.geometry import Dim3, Geometry
from gemmsmith.problem import Problem
from gemmsmith.verify.code.path_probe import PathProbe, most_steps
from gemmsmith.verify.code.source_guards import is_compared_with, lines_with, with_statements
from gemmsmith.verify.code.thread_walk import Thread, Walk
from gemmsmith.verify.trials.extents import with_extent

_CORNER_THREADS = 16
_WARP = 32
_MOST_PARTS = 8
_VECTORS = (4, 8, 16, 32)  # rows and columns of usual vectors, and of what a thread or a warp has
_ROWS_OF_A_THREAD = (8, 16, 32)
K_TILES = (4, 8, 16, 32, 64, 128)  # usual depths of a k-tile


class GuardProbe(PathProbe):
    """Compares threads of one block with each other, and with the same threads where an extent is one less."""

    def _guards(
        self, depths: tuple[int, ...]
    ) -> tuple[frozenset[str], frozenset[int], tuple[tuple[str, int], ...]]:  # fmt: skip
        """Extents at whose ragged edge threads of one block part, and do not at a whole tile's; and the depths of a
        k-tile with which K is none of them: a K that is shorter by one k-tile then shows the same parting, as the code
        for an odd number of k-tiles does. Then the line of each guard.

        Threads may end before barriers of their block, and leave out their share of the loads. That alone guards no
        edge: it only keeps them inside. In a kernel that masks its last k-tile it was meant to.
        """
        if not self._can_be_followed():  # such walks are long, and tell little
            compared = [axis for axis in "MN" if is_compared_with(self.spec, axis)]
            marked = tuple((axis, line) for axis in compared for line in lines_with(self.spec, axis))
            return frozenset(compared), frozenset(), with_statements(self.spec, marked)
        found = self._parted(ended=False)
        more = {axis for axis in "MN" if axis not in found and self._shuts_some_out(axis, depths)}
        guards, unguarded = set(found) | more, frozenset[int]()
        if parted := found.get("K"):
            vector, extent = self._vector, self.base.k
            shorter = ((d, self._parting(self.base.with_(k=extent - d), False)) for d in K_TILES if vector < d < extent)
            unguarded = frozenset(d for d, sites in shorter if parted <= sites)
            if not unguarded & set(depths[:1]):
                guards |= set(self._parted(ended=True))
        found |= {axis: found.get(axis, set()) | self._changed(axis) for axis in ("M", "N")}
        lines = {(axis, self.walk.sites[site].line) for axis, sites in found.items() for site in sites}
        return frozenset(guards), unguarded, with_statements(self.spec, lines)

    def _parted(self, ended: bool) -> dict[str, set[int]]:
        """By extent, the sites at which threads of one block part at a ragged edge only."""
        found = {}
        for axis in ("M", "N", "K"):
            extent = getattr(self.base, axis.lower())
            whole = self._parting(with_extent(self.base, axis, extent), ended)

            def parted(*less: int, axis: str = axis, extent: int = extent, whole: set[int] = whole) -> set[int]:
                ragged = [self._parting(with_extent(self.base, axis, extent - each), ended)
                          for each in less if each < extent]  # fmt: skip
                return set().union(*ragged) - whole

            # A thread may have many rows, and compare the first of them.
            if sites := parted(1, self._vector) or (parted(*_ROWS_OF_A_THREAD) if axis != "K" else set()):
                found[axis] = sites
        return found

    def _parting(self, problem: Problem, ended: bool) -> set[int]:
        """Sites that fall out differently for some threads of one of the last blocks.

        ``ended``: also in blocks of which some threads end before its barriers.
        """
        found: set[int] = set()
        for walks in self._walks_of_threads(problem):
            barriers = {walk.barriers for walk in walks if walk.complete}
            if len(barriers) > 1 and not ended:
                continue
            met = zip(*[walk.signs for walk in walks], strict=True)
            found |= {site for site, signs in enumerate(met) if len({s for s in signs if s}) > 1}
        return found

    def _walks_of_threads(self, problem: Problem) -> list[list[Walk]]:
        """What sample threads of the last blocks meet, block by block.

        Not the last block along both: a bound on the flat index parts its threads, and guards no row. Along z may be
        parts of K, of which any may have the last k.
        """
        if problem not in self.walks:
            launch, most = self.launch(problem), most_steps(problem)
            self.walks[problem] = [] if launch is None else [
                [self.walk.follow(Thread(launch[0], block, place), launch[1], most)
                 for place in self._sample_threads(launch[0])] for block in self._last_blocks(launch[0])
            ]  # fmt: skip
        return self.walks[problem]

    def _can_be_followed(self) -> bool:
        """Whether a thread's way is known to its end: it does not hang on what other threads or memory give it."""
        launch = self.launch(self.base)
        steps = most_steps(self.base)
        return launch is None or self.walk.follow(Thread(launch[0]), launch[1], steps).complete

    def _shuts_some_out(self, axis: str, depths: tuple[int, ...]) -> bool:
        """Whether a comparison falls out otherwise for some threads of a last block, not for others, where an extent
        is one less: also where whole tiles part these threads, as ``lane < 8 && col < N`` does."""
        extent = getattr(self.base, axis.lower())
        if extent < 2:
            return False
        short = self.base.with_(k=min(self.base.k, *depths)) if depths else self.base
        whole, ragged = (self._signs_of_threads(with_extent(short, axis, x)) for x in (extent, extent - 1))
        for block in whole.keys() & ragged.keys():
            pairs = [list(zip(*both, strict=True)) for both in zip(whole[block], ragged[block], strict=False)]
            for site in zip(*pairs, strict=True):
                changed = {before != after for before, after in site if before and after}
                if changed == {True, False}:
                    return True
        return False

    def _signs_of_threads(self, problem: Problem) -> dict[Dim3, list[list[int]]]:
        """What sample threads of each of the last blocks meet, if all of them reach the same barriers."""
        launch = self.launch(problem)
        if launch is None:
            return {}
        geometry, arguments = launch
        found = {}
        for block in self._last_blocks(geometry):
            walks = [self.walk.follow(Thread(geometry, block, place), arguments, most_steps(problem))
                     for place in self._first_threads(geometry)]  # fmt: skip
            if len({walk.barriers for walk in walks if walk.complete}) <= 1:
                found[block] = [walk.signs for walk in walks]
        return found

    def _first_threads(self, geometry: Geometry) -> list[Dim3]:
        """Every thread of the first warp, and the first one of each row."""
        columns, rows, _ = geometry.block
        row = [(x, 0, 0) for x in range(min(columns, _WARP))]
        return row + [(0, y, 0) for y in range(1, min(rows, _WARP))]

    def _sample_threads(self, geometry: Geometry) -> list[Dim3]:
        step = max(1, geometry.threads // _CORNER_THREADS)
        numbers = {n for first in range(0, geometry.threads, step) for n in (first, first + step - 1)}
        rest = [(n % geometry.block[0], n // geometry.block[0]) for n in sorted(numbers) if n < geometry.threads]
        return [(x, y % geometry.block[1], y // geometry.block[1]) for x, y in rest]

    def _last_blocks(self, geometry: Geometry) -> set[Dim3]:
        x, y, z = geometry.grid
        return {block for part in range(min(z, _MOST_PARTS)) for block in ((x - 1, 0, part), (0, y - 1, part))}

    def _changed(self, axis: str) -> set[int]:
        """Sites of the last blocks that fall out differently where an extent is no multiple of the tile."""
        extent = getattr(self.base, axis.lower())
        met: list[list[list[int]]] = []
        for less in (0, 1, 2, 3):
            launch = self.launch(with_extent(self.base, axis, max(1, extent - less)))
            if launch is None:
                return set()
            blocks = sorted(self._last_blocks(launch[0]))
            met.append([self.walk.follow(Thread(launch[0], block), launch[1],
                                         most_steps(self.base)).signs for block in blocks])  # fmt: skip
        whole = met[0]
        return {site for ragged in met[1:] for before, after in zip(whole, ragged, strict=False)
                for site, signs in enumerate(zip(before, after, strict=True)) if signs[0] != signs[1]}  # fmt: skip

    def _tails(self, depths: tuple[int, ...]) -> frozenset[str]:
        """Extents that lead to places in the code which no multiple leads to: of the k-tile, or of a vector."""
        found = {"K"} if self._has_tail(self.base, "K", (*K_TILES, *depths), self._path) else set()
        if self._can_be_followed():
            short = self.base.with_(k=min(self.base.k, 2 * depths[0])) if depths else self.base
            found |= {axis for axis in "MN" if self._has_tail(short, axis, _VECTORS, self._paths_at_edges)
                      or self._has_tail_within(short, axis)}  # fmt: skip
        return frozenset(found)

    def _has_tail_within(self, base: Problem, axis: str) -> bool:
        """The same for a tail that threads within the last block take, where the extent ends there. More threads are
        followed, so first at one ragged extent alone."""
        ragged = with_extent(base, axis, max(1, getattr(base, axis.lower()) - 1))
        new = self._paths_of_rows(ragged) - self._paths_of_rows(base)
        return bool(new) and self._has_tail(base, axis, _VECTORS, self._paths_of_rows)

    def _has_tail(
        self, base: Problem, axis: str, steps: tuple[int, ...], places: Callable[[Problem], frozenset[int]]
    ) -> bool:
        extent = getattr(base, axis.lower())
        whole = {extent, 2 * extent} | {extent - step for step in steps if step < extent}
        usual = frozenset().union(*(places(with_extent(base, axis, each)) for each in whole))
        ragged = (with_extent(base, axis, extent - less) for less in (1, 2, 3) if less < extent)
        return any(places(problem) - usual for problem in ragged)

    def _paths_at_edges(self, problem: Problem) -> frozenset[int]:
        """The places in the code that sample threads of the last blocks come to."""
        return self._places(problem, self._sample_threads)

    def _paths_of_rows(self, problem: Problem) -> frozenset[int]:
        """The same of all threads of the first warp, and the first one of each row."""
        return self._places(problem, self._first_threads)

    def _places(self, problem: Problem, sampled: Callable[[Geometry], list[Dim3]]) -> frozenset[int]:
        launch = self.launch(problem)
        if launch is None:
            return frozenset()
        geometry, arguments = launch
        threads = (Thread(geometry, block, place) for block in self._last_blocks(geometry)
                   for place in sampled(geometry))  # fmt: skip
        return frozenset().union(*(self.walk.visited(each, arguments, most_steps(problem)) for each in threads))

    def _looks_at_alignment(self) -> bool:
        """Whether the way through the code depends on the remainder of a leading dimension."""
        takes = [name for name in ("lda", "ldb") if self.spec.signature.has(name)]
        wide = {name: getattr(self.base, name) + self._vector for name in takes}
        usual = self._path(self.base.with_(**wide))
        return any(self._path(self.base.with_(**(wide | {name: wide[name] + 1}))) != usual for name in takes)
