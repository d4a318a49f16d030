"""The sizes at which a kernel changes its behaviour, read off its compiled code.

    PTX ─► one thread's path at many sizes (thread_walk.py) ─► strides of the loops over K, edges

An *edge* is the first size, or block, at which a comparison, minimum, mask or narrowing conversion falls out as it
never did at smaller ones: where ``if (K > 1000)`` begins to hold, a third stage is filled, or an index wraps at 65,536.
Mistakes are at edges, so each gets a trial on both sides. Where no edge is found, usual sizes are tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from gemmsmith.call.launch_plan import plan_launches
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Dim3, Geometry
from gemmsmith.kernel.slots import SlotBytes
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.sim.ptx import parse
from gemmsmith.sim.syntax import Entry, Immediate
from gemmsmith.verify.edges import Edge, KernelEdges
from gemmsmith.verify.extents import far_problem, legal_grid, with_extent
from gemmsmith.verify.integer_steps import ABOVE, BELOW, EQUAL
from gemmsmith.verify.source_guards import is_compared_with, lines_with, masks_k, with_statements
from gemmsmith.verify.thread_walk import Thread, ThreadWalk, Walk, thread_walk

AXES = ("K", "M", "N", "x", "y", "z", "MN", "MK", "NK")
_SMALL = (0, 1, 2, 3, 4, 5, 6, 7)
_LARGEST = {"K": 2**13, "M": 2**23, "N": 2**23, "MN": 2**16, "MK": 2**12, "NK": 2**12}
_MOST_K = 2**15  # for constants that the code compares with
_MASK = re.compile(r"\band\.b\d+\s.*\s(\d+)$")
_SIXTEEN_BITS = re.compile(r"\bcvt\.(?:([us])16\.[us](?:32|64)|[us](?:32|64)\.([us])16)\s")
_WMMA_STORE = re.compile(r"\bwmma\.store\.d[\w.:]*\.m(\d+)n(\d+)k\d+")
_SAME_WALK = Addresses(1 << 40, 1 << 40, 1 << 40, 1 << 40)
_MOST_EDGES = 24  # for each axis
_MOST_CONSTANTS = 12
_MOST_STEPS = {"K": 400_000}  # of all walks along an axis: under a second
_OTHER_STEPS = 50_000
_STEPS_PER_K = 50  # integer instructions of one thread; more is a loop that does not end
_CORNER_THREADS = 16
_WARP = 32
_MOST_PARTS = 8
_K_TILES = (4, 8, 16, 32, 64, 128)  # usual depths of a k-tile
_PROBED_K = 512  # a multiple of every usual k-tile
_NEAR = 2**16  # an extent that a launch may have where another axis is looked at


def kernel_edges(spec: KernelSpec, config: Config, compiled: CompiledKernel, base: Problem) -> KernelEdges:
    """What the code of ``spec`` tells about sizes, looked at from the product ``base``; nothing where it cannot be
    read."""
    try:
        entry = parse(compiled.ptx).entry(compiled.entry)
        probe = _Probe(spec, config, entry, thread_walk(entry), base)
        narrow = narrow_indices([site.text for site in probe.walk.sites], [each.text for each in entry.instructions])
        return replace(probe.found(), stored=_stored(compiled.ptx), narrow=narrow, masks_k=masks_k(spec))
    except GemmsmithError:
        return KernelEdges()


def k_tile(spec: KernelSpec, config: Config, compiled: CompiledKernel, base: Problem) -> int:
    """How far K goes in one round of the main loop; 0 where that is not known."""
    try:
        entry = parse(compiled.ptx).entry(compiled.entry)
        return max(_Probe(spec, config, entry, thread_walk(entry), base).depths(), default=0)
    except GemmsmithError:
        return 0


def narrow_indices(conversions: Iterable[str], masks: Iterable[str]) -> tuple[int, ...]:
    """From which numbers on masks and conversions of integers to 16 bits lose something; the compiler shifts a mask
    with the index that it masks, so that 65535 times the size of an element is one, too."""
    found = set()
    for match in filter(None, map(_SIXTEEN_BITS.search, conversions)):
        found.add(2**15 if "s" in match.groups() else 2**16)
    for match in filter(None, map(_MASK.search, masks)):
        mask = int(match[1])
        ones = mask // (mask & -mask) if mask else 0
        if ones in (2**15 - 1, 2**16 - 1):
            found.add(ones + 1)
    return tuple(sorted(found))


def _stored(ptx: str) -> tuple[int, ...]:
    """The extents of the tiles that wmma stores write, ascending."""
    return tuple(sorted({int(extent) for tile in _WMMA_STORE.findall(ptx) for extent in tile}))


class _Probe:
    """Walks single threads at many sizes, and remembers what they met."""

    def __init__(self, spec: KernelSpec, config: Config, entry: Entry, walk: ThreadWalk, base: Problem) -> None:
        self.spec, self.config, self.entry, self.walk, self.base = spec, config, entry, walk, base
        self.known: dict[tuple[Problem, Dim3], list[int]] = {}
        self.walks: dict[Problem, list[list[Walk]]] = {}
        self.left = 0
        self.constants = sorted({o.bits for site in walk.sites for o in site.operands
                                 if isinstance(o, Immediate) and o.kind == "int" and 1 < o.bits < 2**23})  # fmt: skip

    def found(self) -> KernelEdges:
        depths = self.depths()
        edges = self._single_edges(self.base, depths) + self._block_edges(self._shallow(self.base, depths))
        edges += self._paired_edges(depths, {edge.text for edge in edges})
        # A condition may hide behind another one: look again from beyond the first edges.
        beyond = self._beyond(edges, depths)
        if beyond != self.base:
            known = {(edge.axis, edge.text) for edge in edges}
            more = self._single_edges(beyond, depths, shallow=False) + self._block_edges(beyond)
            edges += [edge for edge in more if (edge.axis, edge.text) not in known]
        guards, unguarded, lines = self._guards(depths)
        return KernelEdges(depths, tuple(edges), guards, unguarded, was_read=True, guard_lines=lines,
                           tail_k=self._has_tail(depths), looks_at_alignment=self._looks_at_alignment())  # fmt: skip

    def _has_tail(self, depths: tuple[int, ...]) -> bool:
        """Whether a K that is no multiple of the k-tile leads to places in the code that no multiple leads to."""
        k = self.base.k
        whole = {k} | {k - d for d in (*_K_TILES, *depths) if d < k} | {2 * k}
        usual = frozenset().union(*(self._path(self.base.with_(k=each)) for each in whole))
        return any(self._path(self.base.with_(k=k - less)) - usual for less in (1, 2, 3) if less < k)

    def _looks_at_alignment(self) -> bool:
        """Whether the way through the code depends on the remainder of a leading dimension."""
        takes = [name for name in ("lda", "ldb") if self.spec.signature.has(name)]
        wide = {name: getattr(self.base, name) + self._vector for name in takes}
        usual = self._path(self.base.with_(**wide))
        return any(self._path(self.base.with_(**(wide | {name: wide[name] + 1}))) != usual for name in takes)

    def _path(self, problem: Problem) -> frozenset[int]:
        """The places in the code that a thread of the first block comes to, which is in no first row or column."""
        launch = self._launch(problem)
        if launch is None:
            return frozenset()
        geometry, arguments = launch
        x, y = (min(1, extent - 1) for extent in geometry.block[:2])
        return self.walk.visited(Thread(geometry, (0, 0, 0), (x, y, 0)), arguments, 4000 + _STEPS_PER_K * problem.k)

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
            shorter = (
                (d, self._parting(self.base.with_(k=extent - d), False)) for d in _K_TILES if vector < d < extent
            )
            unguarded = frozenset(d for d, sites in shorter if parted <= sites)
            if not unguarded & set(depths[:1]):
                guards |= set(self._parted(ended=True))
        found |= {axis: found.get(axis, set()) | self._changed(axis) for axis in ("M", "N")}
        lines = {(axis, self.walk.sites[site].line) for axis, sites in found.items() for site in sites}
        return frozenset(guards), unguarded, with_statements(self.spec, lines)

    @property
    def _vector(self) -> int:
        """Elements of 16 bytes."""
        return max(1, 16 // self.base.dtype.itemsize)

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

    def _walks_of_threads(self, problem: Problem) -> list[list[Walk]]:
        """What sample threads of the last blocks meet, block by block.

        Not the last block along both: a bound on the flat index parts its threads, and guards no row. Along z may be
        parts of K, of which any may have the last k.
        """
        if problem not in self.walks:
            launch, most = self._launch(problem), 4000 + _STEPS_PER_K * problem.k
            self.walks[problem] = [] if launch is None else [
                [self.walk.follow(Thread(launch[0], block, place), launch[1], most)
                 for place in self._sample_threads(launch[0])] for block in self._last_blocks(launch[0])
            ]  # fmt: skip
        return self.walks[problem]

    def _can_be_followed(self) -> bool:
        """Whether a thread's way is known to its end: it does not hang on what other threads or memory give it."""
        launch = self._launch(self.base)
        steps = 4000 + _STEPS_PER_K * self.base.k
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
        launch = self._launch(problem)
        if launch is None:
            return {}
        geometry, arguments = launch
        found = {}
        for block in self._last_blocks(geometry):
            walks = [self.walk.follow(Thread(geometry, block, place), arguments, 4000 + _STEPS_PER_K * problem.k)
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
            launch = self._launch(with_extent(self.base, axis, max(1, extent - less)))
            if launch is None:
                return set()
            blocks = sorted(self._last_blocks(launch[0]))
            met.append([self.walk.follow(Thread(launch[0], block), launch[1],
                                         4000 + _STEPS_PER_K * self.base.k).signs for block in blocks])  # fmt: skip
        whole = met[0]
        return {site for ragged in met[1:] for before, after in zip(whole, ragged, strict=False)
                for site, signs in enumerate(zip(before, after, strict=True)) if signs[0] != signs[1]}  # fmt: skip

    def _beyond(self, edges: list[Edge], depths: tuple[int, ...]) -> Problem:
        """Past the edges that whole tiles and the k-tile do not explain."""
        usual = 4 * max((*depths, self.base.m, self.base.n, self.base.k))
        extents = {}
        for axis in ("M", "N", "K"):
            own = getattr(self.base, axis.lower())
            largest = max((e.value for e in edges if e.axis == axis and usual < e.value <= _NEAR), default=0)
            extents[axis.lower()] = max(own, -(-(largest + 1) // max(1, own)) * own if largest else 0)
        return self.base.with_(**extents)

    # -- loops --------------------------------------------------------------------------------------------------------

    def depths(self) -> tuple[int, ...]:
        """ΔK ÷ Δrounds of each loop whose number of rounds grows with K."""
        small, large = (self._jumps(k) for k in (_PROBED_K, 2 * _PROBED_K))
        found = set()
        for loop, rounds in large.items():
            more = rounds - small.get(loop, 0)
            if more > 0 and _PROBED_K % more == 0:
                found.add(_PROBED_K // more)
        return tuple(sorted(found, reverse=True))

    def _jumps(self, k: int) -> dict[int, int]:
        problem = self.base.with_(k=k)
        launch = self._launch(problem)
        if launch is None:
            return {}
        return self.walk.follow(Thread(launch[0]), launch[1], 4000 + _STEPS_PER_K * k).jumps

    # -- edges --------------------------------------------------------------------------------------------------------

    def _single_edges(self, start: Problem, depths: tuple[int, ...], shallow: bool = True) -> list[Edge]:
        """Along K, M and N; along M and N with few k-tiles, unless a condition may need more."""
        units = (*depths, start.m, start.n, start.k)
        other = self._shallow(start, depths) if shallow else start
        return [edge for axis in ("K", "M", "N") for edge in self._along(start if axis == "K" else other, axis, units)]

    def _shallow(self, start: Problem, depths: tuple[int, ...]) -> Problem:
        return start.with_(k=min(start.k, 2 * depths[0])) if depths else start

    def _paired_edges(self, depths: tuple[int, ...], explained: set[str]) -> list[Edge]:
        """Where two extents must be equal or grow together; not what one of them shows alone."""
        units = (*depths, self.base.m, self.base.n, self.base.k)
        return [edge for axis in ("MN", "MK", "NK") for edge in self._along(self.base, axis, units)
                if edge.text not in explained]  # fmt: skip

    def _along(self, start: Problem, axis: str, units: Iterable[int]) -> list[Edge]:
        values = self._values(_LARGEST[axis], units)
        if axis == "K":
            far = (c for c in self._compared() if _LARGEST[axis] < c < _MOST_K)
            values = sorted({*values, *(c + more for c in far for more in (-1, 0, 1))})
        return self._search(axis, values, lambda v: self._signs(with_extent(start, axis, v), (0, 0, 0)))

    def _compared(self) -> set[int]:
        """Constants that the code compares integers with."""
        return {o.bits for site in self.walk.sites if site.text.startswith("setp") for o in site.operands
                if isinstance(o, Immediate) and o.kind == "int"}  # fmt: skip

    def _block_edges(self, start: Problem) -> list[Edge]:
        """Edges that depend on which block it is, in a product with many."""
        far = far_problem(self.spec, self.config, start)
        launch = self._launch(far) if far is not None else None
        if far is None or launch is None:
            return []
        found: list[Edge] = []
        for index, axis in enumerate("xyz"):
            count = launch[0].grid[index]
            if count > 1:

                def at(value: int, index: int = index) -> list[int] | None:
                    block = [0, 0, 0]
                    block[index] = value
                    return self._signs(far, (block[0], block[1], block[2]))

                found += self._search(axis, [v for v in self._values(count - 1, ()) if v < count], at)
        return found

    def _values(self, largest: int, units: Iterable[int]) -> list[int]:
        """Sizes to look at: small ones, powers of two, and what the code's own constants suggest."""
        values = set(_SMALL) | {largest}
        power = 8
        while power <= largest:
            values.add(power)
            power *= 2
        for constant in self.constants[-_MOST_CONSTANTS:]:
            values |= {constant - 1, constant, constant + 1}
        for unit in units:
            values |= {unit - 1, unit, unit + 1}
        return sorted(v for v in values if 0 <= v <= largest)

    def _search(self, axis: str, values: list[int], signs_at: Callable[[int], list[int] | None]) -> list[Edge]:
        """The first values along an axis at which a site has a sign that it never had before."""
        self.left = _MOST_STEPS.get(axis, _OTHER_STEPS)
        seen = [0] * len(self.walk.sites)
        found: dict[int, Edge] = {}
        before: int | None = None
        for value in values:
            signs = signs_at(value)
            if signs is None:
                continue
            if before is not None:
                for site, sign in enumerate(signs):
                    fresh = sign & ~seen[site]
                    for bit in (BELOW, EQUAL, ABOVE):
                        if fresh & bit and seen[site]:
                            self._add(found, axis, site, self._first(before, value, site, bit, signs_at), signs_at)
            seen = [a | b for a, b in zip(seen, signs, strict=True)]
            before = value
        return [found[value] for value in sorted(found)][-_MOST_EDGES:]

    def _add(
        self, found: dict[int, Edge], axis: str, site: int, value: int, signs_at: Callable[[int], list[int] | None]
    ) -> None:
        instruction = self.walk.sites[site]
        at = [value]
        just_before = signs_at(value - 1) if value > 0 else None
        if just_before is not None and just_before[site] & EQUAL:
            at.append(value - 1)
        for each in at:
            found.setdefault(each, Edge(axis, each, instruction.where, instruction.text))

    def _first(self, low: int, high: int, site: int, bit: int, signs_at: Callable[[int], list[int] | None]) -> int:
        """The smallest value above ``low`` at which the site has this sign, if it keeps it up to ``high``."""
        while high - low > 1:
            middle = (low + high) // 2
            signs = signs_at(middle)
            if signs is not None and signs[site] & bit:
                high = middle
            else:
                low = middle
        return high

    # -- walks --------------------------------------------------------------------------------------------------------

    def _signs(self, problem: Problem, block: Dim3) -> list[int] | None:
        """What the first and the last thread of a block meet; None where there is no such launch."""
        key = problem, block
        if key in self.known:
            return self.known[key]
        launch = self._launch(problem)
        if launch is None or self.left <= 0:
            return None
        geometry, arguments = launch
        threads = geometry.block
        last = (threads[0] - 1, threads[1] - 1, threads[2] - 1)
        signs = [0] * len(self.walk.sites)
        for thread in ((0, 0, 0), last) if problem.k <= self.base.k else ((0, 0, 0),):
            met = self.walk.follow(Thread(geometry, block, thread), arguments, 4000 + _STEPS_PER_K * problem.k)
            self.left -= met.steps
            signs = [a | b for a, b in zip(signs, met.signs, strict=True)]
        self.known[key] = signs
        return signs

    def _launch(self, problem: Problem) -> tuple[Geometry, dict[str, bytes]] | None:
        try:
            planned = plan_launches(self.spec, self.config, problem, _SAME_WALK, tables=True, alone=True).kernel
        except (GemmsmithError, ArithmeticError, ValueError):
            return None
        if not legal_grid(planned.geometry):
            return None
        filled = [a.filled([*_SAME_WALK, 1 << 40]) if isinstance(a, SlotBytes) else a for a in planned.arguments]
        names = [parameter.name for parameter in self.entry.parameters]
        return planned.geometry, {n: a for n, a in zip(names, filled, strict=False) if isinstance(a, bytes)}
