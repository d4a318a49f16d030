"""The sizes at which a kernel changes its behaviour, read off its compiled code.

    PTX ─► one thread's path at many sizes (thread_walk.py) ─► strides of the loops over K, edges

An *edge* is the first size, or block, at which a comparison, minimum, mask or narrowing conversion falls out as it
never did at smaller ones: where ``if (K > 1000)`` begins to hold, a third stage is filled, or an index wraps at 65,536.
Mistakes are at edges, so each gets a trial on both sides. Where no edge is found, usual sizes are tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Dim3
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.sim.ptx.reader import parse
from gemmsmith.sim.ptx.syntax import Immediate, Instruction
from gemmsmith.verify.code.deciding_code import read_registers, thread_registers
from gemmsmith.verify.code.edges import UNKNOWN_STEPS, Edge, KernelEdges
from gemmsmith.verify.code.guard_probe import GuardProbe
from gemmsmith.verify.code.integer_steps import ABOVE, BELOW, EQUAL
from gemmsmith.verify.code.path_probe import most_steps
from gemmsmith.verify.code.source_guards import clamps_k, counts_whole_tiles, masks_k
from gemmsmith.verify.code.thread_walk import Thread, thread_walk
from gemmsmith.verify.trials.extents import far_problem, with_extent

AXES = ("K", "M", "N", "x", "y", "z", "MN", "MK", "NK")
_SMALL = (0, 1, 2, 3, 4, 5, 6, 7)
_LARGEST = {"K": 2**13, "M": 2**23, "N": 2**23, "MN": 2**16, "MK": 2**12, "NK": 2**12}
_MOST_K = 2**15  # for constants that the code compares with
_COMPARING = ("setp", "min", "max")
_MASK = re.compile(r"\band\.b\d+\s.*\s(\d+)$")
_SIXTEEN_BITS = re.compile(r"\bcvt\.(?:([us])16\.[us](?:32|64)|[us](?:32|64)\.([us])16)\s")
_EIGHT_BITS = re.compile(r"\bcvt\.(?:[us]8\.[us](?:16|32|64)|[us](?:16|32|64)\.[us]8)\s")
# The lower half of a 32-bit register with its sign, or without: (short)k.
_HALF_OF_WORD = re.compile(r"\bcvt\.[us](?:32|64)\.([us])16\s+%[a-z]+\d+, *%r\d")
_WMMA_STORE = re.compile(r"\bwmma\.store\.d[\w.:]*\.m(\d+)n(\d+)k\d+")
_MOST_EDGES = 24  # for each axis
_MOST_CONSTANTS = 12
_MOST_STEPS = {"K": 400_000}  # of all walks along an axis: under a second
_OTHER_STEPS = 50_000
_MANY_PRODUCTS = 2**12  # of a batch
_PROBED_K = 512  # a multiple of every usual k-tile
_NEAR = 2**16  # an extent that a launch may have where another axis is looked at


def kernel_edges(spec: KernelSpec, config: Config, compiled: CompiledKernel, base: Problem) -> KernelEdges:
    """What the code of ``spec`` tells about sizes, looked at from the product ``base``; nothing where it cannot be
    read."""
    try:
        entry = parse(compiled.ptx).entry(compiled.entry)
        probe = _Probe(spec, config, entry, thread_walk(entry), base)
        narrow = narrow_indices([site.text for site in probe.walk.sites], [each.text for each in entry.instructions])
        steps = tuple(probe.steps_of_one_output(limit) for limit in narrow)
        counted = frozenset(axis for axis in "MN" if counts_whole_tiles(spec, axis))
        return replace(probe.found(), stored=_stored(compiled.ptx), narrow=narrow, long_steps=steps,
                       counts_bytes=base.dtype.itemsize > 1 and counts_bytes(entry.instructions),
                       masks_k=masks_k(spec), clamps_k=clamps_k(spec), counted=counted)  # fmt: skip
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
    masks = list(masks)
    for match in filter(None, map(_HALF_OF_WORD.search, masks)):
        found.add(2**15 if match[1] == "s" else 2**16)
    for match in filter(None, map(_MASK.search, masks)):
        mask = int(match[1])
        ones = mask // (mask & -mask) if mask else 0
        if ones in (2**15 - 1, 2**16 - 1):
            found.add(ones + 1)
    return tuple(sorted(found))


def counts_bytes(instructions: Sequence[Instruction]) -> bool:
    """Whether a number that does not depend on the thread is cut to 8 bits; the compiler may shift the mask."""
    own = thread_registers(instructions, loaded=False)
    for each in instructions:
        match = _MASK.search(each.text)
        mask = int(match[1]) if match else 0
        cut = _EIGHT_BITS.search(each.text) or (mask and mask // (mask & -mask) == 2**8 - 1)
        if cut and not any(name in own for name in read_registers(each)):
            return True
    return False


def _stored(ptx: str) -> tuple[int, ...]:
    """The extents of the tiles that wmma stores write, ascending."""
    return tuple(sorted({int(extent) for tile in _WMMA_STORE.findall(ptx) for extent in tile}))


class _Probe(GuardProbe):
    """Edges and the strides of loops."""

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
                           tails=self._tails(depths), looks_at_alignment=self._looks_at_alignment(),
                           rounds_up=self._rounds_up())  # fmt: skip

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

    def _rounds_up(self) -> bool:
        """Whether a loop that takes several k at once has one more round where a single one is left."""
        whole, more, twice = (self._jumps(k) for k in (_PROBED_K, _PROBED_K + 1, 2 * _PROBED_K))
        return any(0 < twice[loop] - whole.get(loop, 0) < _PROBED_K and more.get(loop, 0) > whole.get(loop, 0)
                   for loop in twice)  # fmt: skip

    def _jumps(self, k: int) -> dict[int, int]:
        problem = self.base.with_(k=k)
        launch = self.launch(problem)
        if launch is None:
            return {}
        return self.walk.follow(Thread(launch[0]), launch[1], most_steps(problem)).jumps

    def steps_of_one_output(self, k: int) -> int:
        """Integer instructions of a thread for a product of one row and one column; many where that is not known."""
        problem = self.base.with_(m=1, n=1, k=k)
        launch = self.launch(problem)
        if launch is None:
            return UNKNOWN_STEPS
        walk = self.walk.follow(Thread(launch[0]), launch[1], most_steps(problem))
        return walk.steps if walk.complete else UNKNOWN_STEPS

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
            far = (c for c in self._compared() if _LARGEST[axis] < c <= _MOST_K)
            values = sorted({*values, *(c + more for c in far for more in (-1, 0, 1))})
        return self._search(axis, values, lambda v: self._signs(with_extent(start, axis, v), (0, 0, 0)))

    def _compared(self) -> set[int]:
        """Constants that the code compares integers with, or takes the smaller or larger of."""
        return {o.bits for site in self.walk.sites if site.opcode in _COMPARING for o in site.operands
                if isinstance(o, Immediate) and o.kind == "int"}  # fmt: skip

    def _block_edges(self, start: Problem) -> list[Edge]:
        """Edges that depend on which block it is, in a product with many, and in a large batch."""
        far = far_problem(self.spec, self.config, start)
        found = self._edges_of_blocks(far) if far is not None else []
        if self.spec.batched and not self.spec.is_rung:
            known = {(edge.axis, edge.text) for edge in found}
            more = self._edges_of_blocks(self.spec.signature.batch_of(start, _MANY_PRODUCTS))
            found += [edge for edge in more if (edge.axis, edge.text) not in known]
        return found

    def _edges_of_blocks(self, many: Problem) -> list[Edge]:
        launch = self.launch(many)
        if launch is None:
            return []
        found: list[Edge] = []
        for index, axis in enumerate("xyz"):
            count = launch[0].grid[index]
            if count > 1:

                def at(value: int, index: int = index) -> list[int] | None:
                    block = [0, 0, 0]
                    block[index] = value
                    return self._signs(many, (block[0], block[1], block[2]))

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
        launch = self.launch(problem)
        if launch is None or self.left <= 0:
            return None
        geometry, arguments = launch
        threads = geometry.block
        last = (threads[0] - 1, threads[1] - 1, threads[2] - 1)
        signs = [0] * len(self.walk.sites)
        for thread in ((0, 0, 0), last) if problem.k <= self.base.k else ((0, 0, 0),):
            met = self.walk.follow(Thread(geometry, block, thread), arguments, most_steps(problem))
            self.left -= met.steps
            signs = [a | b for a, b in zip(signs, met.signs, strict=True)]
        self.known[key] = signs
        return signs
