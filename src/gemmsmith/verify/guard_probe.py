"""Which extents a kernel guards at ragged edges, read off what its threads meet there."""

from __future__ import annotations

from gemmsmith.kernel.geometry import Dim3
from gemmsmith.problem import Problem
from gemmsmith.verify.extents import with_extent
from gemmsmith.verify.kernel_probe import STEPS_PER_K, Probe
from gemmsmith.verify.source_guards import is_compared_with, lines_with, with_statements
from gemmsmith.verify.thread_walk import Thread

K_TILES = (4, 8, 16, 32, 64, 128)  # usual depths of a k-tile


class GuardProbe(Probe):
    """Compares the threads of the last blocks at whole and at partial tiles."""

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
            ragged = [
                self._parting(with_extent(self.base, axis, extent - less), ended)
                for less in (1, self._vector)
                if less < extent
            ]
            if parted := set().union(*ragged) - whole:
                found[axis] = parted
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
        launch = self._launch(problem)
        if launch is None:
            return {}
        geometry, arguments = launch
        found = {}
        for block in self._last_blocks(geometry):
            walks = [self.walk.follow(Thread(geometry, block, place), arguments, 4000 + STEPS_PER_K * problem.k)
                     for place in self._first_threads(geometry)]  # fmt: skip
            if len({walk.barriers for walk in walks if walk.complete}) <= 1:
                found[block] = [walk.signs for walk in walks]
        return found

    def _changed(self, axis: str) -> set[int]:
        """Sites of the last blocks that fall out differently where an extent is no multiple of the tile."""
        extent = getattr(self.base, axis.lower())
        met: list[list[list[int]]] = []
        for less in (0, 1, 2, 3):
            launch = self._launch(with_extent(self.base, axis, max(1, extent - less)))
            if launch is None:
                return set()
            blocks = sorted(self._last_blocks(launch[0]))
            met.append([self.walk.follow(Thread(launch[0], block), launch[1],
                                         4000 + STEPS_PER_K * self.base.k).signs for block in blocks])  # fmt: skip
        whole = met[0]
        return {site for ragged in met[1:] for before, after in zip(whole, ragged, strict=False)
                for site, signs in enumerate(zip(before, after, strict=True)) if signs[0] != signs[1]}  # fmt: skip
