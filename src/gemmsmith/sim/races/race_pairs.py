"""Find the pairs of accesses that nothing orders, among accesses to the same locations.

Two accesses of one location by different threads race if at least one writes, and neither is ordered before the other.
No race: two writes of the same bits; two atomic updates, unless one has block scope and the other is of another block.
Which of two accesses comes first in a report depends on how far its own thread has come, not on the order that the
schedule happened to take: every schedule names the same pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.clocks import Moment, last_writes_seen, ordered
from gemmsmith.sim.races.hazards import HazardKind
from gemmsmith.sim.races.warp_products import WarpProducts
from gemmsmith.sim.wave import WARP
from gemmsmith.sim.work import WORK

_PAIRS_AT_ONCE = 1 << 20
_ENOUGH_PAIRS = 1 << 22  # from here on a pair of instructions that races is not looked for again
NOT_DONE = -1


class Kind(IntEnum):
    """What an access does."""

    READ = 0
    WRITE = 1
    UPDATE = 2  # atomic
    COPY = 3  # asynchronous: from its issue until its own thread has waited for it


@dataclass(frozen=True)
class Event:
    """One instruction, executed once by some lanes: when, and what these lanes knew.

    ``turn`` is how many ends of loops had been written down then (``WaveState.trail``). ``in_block``: an atomic update
    that counts for threads of its block only.
    """

    operation: Operation[Any]
    kind: Kind
    strong: bool
    moment: Moment
    time: int
    turn: int = 0
    in_block: bool = False


@dataclass(frozen=True)
class Accesses:
    """Accesses as columns: location, lane, index of the event, and what was written.

    For a copy, ``value`` is the index of the event at which its thread had waited for it.
    """

    unit: Array
    lane: Array
    event: Array
    value: Array

    @staticmethod
    def joined(parts: list[Accesses]) -> Accesses:
        return Accesses(*(np.concatenate(column) for column in
                          zip(*((p.unit, p.lane, p.event, p.value) for p in parts), strict=True)))  # fmt: skip


@dataclass(frozen=True)
class RacingPair:
    """Two accesses, in the order that reports name them. ``rank`` puts the pair to name first first."""

    kind: HazardKind
    unit: int
    first: tuple[Event, int]
    second: tuple[Event, int]
    across_warps: bool
    rank: tuple[int, ...]


def is_cached_read(event: Event) -> bool:
    """Whether it may read a stale copy from L1: a plain load, not one that PTX sends to L2."""
    words = event.operation.instruction.name.split(".")
    return event.kind is Kind.READ and not event.strong and not {"cg", "cv"} & set(words)


def _sorted_by(columns: tuple[Array, ...]) -> Array:
    """The order by the first column, then the second, and so on, as ``np.lexsort`` has it.

    Columns are packed into one integer where they fit, and sorted once instead of once for each.
    """
    packed, bits = np.zeros(columns[0].size, np.int64), 0
    for column in columns if packed.size else ():
        low, high = int(column.min()), int(column.max())
        if high - low >= 1 << 24:  # few different values, far apart: their ranks will do
            _, column = np.unique(column, return_inverse=True)
            low, high = 0, int(column.max())
        width = (high - low).bit_length()
        bits += width
        if bits > 63:
            return np.lexsort(columns[::-1])
        packed = (packed << width) | (column.astype(np.int64) - low)
    return np.argsort(packed, kind="stable")


class PairSearch:
    """Looks for races among the accesses to some locations.

    ``flags`` are the locations, in ascending order, at which strong accesses may meet; None for all. ``known`` are the
    pairs of instructions already found. ``released`` has the writes to flags, by event and lane: which flag, and
    the number of the write. ``products`` are those of the warps of the one wave that the accesses are of.
    """

    def __init__(self, events: list[Event], accesses: Accesses, flags: Array | None, known: set[tuple[int, int]],
                 released: dict[tuple[int, int], tuple[int, int]] | None = None,
                 products: WarpProducts | None = None) -> None:  # fmt: skip
        self.events, self.known = events, known
        self.flags, self.released, self.products = flags, released, products
        moments: dict[int, int] = {}
        self.moments: list[Moment] = []
        for event in events:
            if id(event.moment) not in moments:
                moments[id(event.moment)] = len(self.moments)
                self.moments.append(event.moment)
        self.moment = np.array([moments[id(event.moment)] for event in events], np.int32)
        self.kind = np.array([event.kind for event in events], np.int8)
        self.strong = np.array([event.strong for event in events], bool)
        self.in_block = np.array([event.in_block for event in events], bool)
        self.cached = np.array([is_cached_read(event) for event in events], bool)
        self.time = np.array([event.time for event in events], np.int64)
        self.position = np.array([event.operation.position for event in events], np.int64)
        self.accesses = self._representatives(accesses)
        self.thread = self._threads(self.accesses)

    def _threads(self, found: Accesses) -> Array:
        """Each access's thread, numbered through the grid."""
        result = np.zeros(found.lane.size, np.int64)
        for moment, these in self._by_wave(found):
            lanes, threads = found.lane[these], moment.state.warps_per_block * WARP
            result[these] = moment.block(lanes) * threads + moment.state.thread[lanes]
        return result

    def _by_wave(self, found: Accesses) -> Iterator[tuple[Moment, Array | slice]]:
        """The accesses of each wave, with some moment of it."""
        waves = {id(moment.state): moment for moment in self.moments}
        if len(waves) == 1:
            yield self.moments[0], slice(None)
            return
        number = {wave: n for n, wave in enumerate(waves)}
        of_moment = np.array([number[id(moment.state)] for moment in self.moments])
        wave = of_moment[self.moment[found.event]]
        for n, moment in enumerate(waves.values()):
            yield moment, wave == n

    def _representatives(self, found: Accesses) -> Accesses:
        """The lowest and the highest lane of each warp that did the same to a location, sorted by location.

        Lanes of a warp that differ in what they know, or in who knows of them, do not stand for one another. Atomic
        updates come last.
        """
        warp, alike = np.zeros(found.lane.size, np.int64), np.zeros(found.lane.size, np.int64)
        for moment, these in self._by_wave(found):
            warp[these] = moment.state.warp[found.lane[these]]
            alike[these] = moment.alike[found.lane[these]]
        update = self._updates(found)
        order = _sorted_by((found.unit, update, found.event, warp, alike, found.value, found.lane))
        unit, event, value = found.unit[order], found.event[order], found.value[order]
        warp, alike, lane = warp[order], alike[order], found.lane[order]
        new = np.ones(order.size + 1, bool)
        new[1:-1] = (
            (unit[1:] != unit[:-1]) | (event[1:] != event[:-1]) | (warp[1:] != warp[:-1]) | (value[1:] != value[:-1])
            | (alike[1:] != alike[:-1])
        )  # fmt: skip
        keep = new[:-1] | new[1:]
        return Accesses(unit[keep], lane[keep], event[keep], value[keep])

    def _updates(self, found: Accesses) -> Array:
        """Which accesses are atomic updates that every thread sees as such."""
        updates: Array = (self.kind[found.event] == Kind.UPDATE) & ~self.in_block[found.event]
        return updates

    # -- pairs ------------------------------------------------------------------------------------

    def pairs(self) -> list[RacingPair]:
        """One racing pair for each two instructions, each order and within one warp or not."""
        best: dict[tuple[Any, ...], RacingPair] = {}
        seen = 0
        for one, two in self._candidates():
            seen += one.size
            racing = self._race(one, two)
            one, two = one[racing], two[racing]
            for pair in self._named(one, two):
                key = (pair.kind, pair.first[0].operation.position, pair.second[0].operation.position,
                       pair.across_warps)  # fmt: skip
                if key not in best or pair.rank < best[key].rank:
                    best[key] = pair
                if pair.across_warps and seen > _ENOUGH_PAIRS:
                    self._know(pair)
        WORK.add_search(seen, len(self.moments))
        for pair in best.values():
            if pair.across_warps:
                self._know(pair)
        return list(best.values())

    def _know(self, pair: RacingPair) -> None:
        one, two = pair.first[0].operation.position, pair.second[0].operation.position
        self.known.add((min(one, two), max(one, two)))

    def _candidates(self) -> Iterator[tuple[Array, Array]]:
        """Indices of two accesses to one location that would race if nothing orders them."""
        found = self.accesses
        starts = np.flatnonzero(np.concatenate(([True], found.unit[1:] != found.unit[:-1])))
        sizes = np.diff(np.append(starts, found.unit.size))
        group = np.repeat(np.arange(starts.size), sizes)
        writes = np.flatnonzero(self.kind[found.event] != Kind.READ)
        # Two updates do not race, and a write meets the updates after it: an update meets what comes before them.
        update = self._updates(found)
        before = np.bincount(group, weights=~update, minlength=starts.size).astype(np.int64)
        partners = np.where(update[writes], before[group[writes]], sizes[group[writes]])
        writes, counts = writes[partners > 0], partners[partners > 0]
        ends = np.cumsum(counts)
        begin = 0
        while begin < writes.size:
            reached = ends[begin - 1] if begin else 0
            stop = max(begin + 1, int(np.searchsorted(ends, reached + _PAIRS_AT_ONCE)))
            mine, many = writes[begin:stop], counts[begin:stop]
            one = np.repeat(mine, many)
            within = np.arange(one.size) - np.repeat(np.cumsum(many) - many, many)
            two = np.repeat(starts[group[mine]], many) + within
            begin = stop
            keep = self._may_race(one, two)
            yield one[keep], two[keep]

    def _may_race(self, one: Array, two: Array) -> Array:
        found = self.accesses
        kind, other = self.kind[found.event[one]], self.kind[found.event[two]]
        keep: Array = (other == Kind.READ) | (one < two)  # each pair of writes once
        apart = self._beyond_scope(one, two)
        keep &= (one != two) & ~((kind == Kind.UPDATE) & (other == Kind.UPDATE) & ~apart)
        same = (kind == Kind.WRITE) & (other == Kind.WRITE) & (found.value[one] == found.value[two])
        copies = (kind == Kind.COPY) | (other == Kind.COPY)
        keep &= ~same & ((self.thread[one] != self.thread[two]) | copies)
        both = self.strong[found.event[one]] & self.strong[found.event[two]] & ~apart
        keep &= ~both if self.flags is None else ~(both & np.isin(found.unit[one], self.flags))
        if self.known:
            low = np.minimum(self.position[found.event[one]], self.position[found.event[two]])
            high = np.maximum(self.position[found.event[one]], self.position[found.event[two]])
            codes = np.array([a << 32 | b for a, b in self.known], np.int64)
            keep &= ~np.isin(low << 32 | high, codes)
        return keep

    def _beyond_scope(self, one: Array, two: Array) -> Array:
        """Pairs of two blocks, of which one is an atomic update of block scope."""
        event = self.accesses.event
        narrow: Array = self.in_block[event[one]] | self.in_block[event[two]]
        if narrow.any():
            block = self._blocks()
            narrow &= block[one] != block[two]
        return narrow

    # -- order ------------------------------------------------------------------------------------

    def _race(self, one: Array, two: Array) -> Array:
        """Whether nothing orders these pairs."""
        event, lane, value = self.accesses.event, self.accesses.lane, self.accesses.value
        a, b = event[one], event[two]
        same = self.thread[one] == self.thread[two]

        def before(first: Array, first_lane: Array, second: Array, second_lane: Array, same: Array) -> Array:
            known = self._ordered(first, first_lane, second, second_lane)
            known[same] = (first < second)[same]
            return known

        # A copy ends when its thread has waited for it; any other access where it begins.
        end_a = np.where(self.kind[a] == Kind.COPY, value[one].astype(np.int64), a)
        end_b = np.where(self.kind[b] == Kind.COPY, value[two].astype(np.int64), b)
        result: Array = (end_a == NOT_DONE) | ~before(np.maximum(end_a, 0), lane[one], b, lane[two], same)
        left = np.flatnonzero(result)  # the others are ordered one way: nobody asks for the other
        end, one_left, two_left = end_b[left], one[left], two[left]
        result[left] = (end == NOT_DONE) | ~before(np.maximum(end, 0), lane[two_left], a[left], lane[one_left],
                                                   same[left])  # fmt: skip
        return self._not_through_flags(one, two, self._not_after_products(one, two, result))

    def _not_after_products(self, one: Array, two: Array, racing: Array) -> Array:
        """A write that a warp's product separates from the read of another lane of the warp comes after it."""
        if self.products is None:
            return racing
        event, lane, threads = self.accesses.event, self.accesses.lane, self.thread
        reads = self.kind[event[one]] == Kind.READ, self.kind[event[two]] == Kind.READ
        within = racing & (reads[0] != reads[1]) & (threads[one] // WARP == threads[two] // WARP)
        settled: dict[tuple[int, int, int], bool] = {}
        for i in np.flatnonzero(within):
            read, write = (int(one[i]), int(two[i])) if reads[0][i] else (int(two[i]), int(one[i]))
            first, second = self.events[int(event[read])], self.events[int(event[write])]
            warp = int(first.moment.state.warp[lane[read]])
            key = (int(event[read]), int(event[write]), warp)
            if key not in settled:
                settled[key] = self.products.between(
                    warp, (first.turn, first.operation.position), (second.turn, second.operation.position)
                )
            racing[i] = not settled[key]
        return racing

    def _not_through_flags(self, one: Array, two: Array, racing: Array) -> Array:
        """Who knows strong writes to a flag to be performed comes after them with accesses of the flag itself."""
        if self.released is None:
            return racing
        event, lane = self.accesses.event, self.accesses.lane
        for i in np.flatnonzero(racing & (self.strong[event[one]] != self.strong[event[two]])):
            a, b = (one[i], two[i]) if self.strong[event[one[i]]] else (two[i], one[i])
            flag, number = self.released.get((int(event[a]), int(lane[a])), (0, 0))
            seen = last_writes_seen(self.events[int(event[b])].moment, int(lane[b]))
            racing[i] = not 0 < number <= seen.get(flag, 0)
        return racing

    def _ordered(self, first: Array, first_lane: Array, second: Array, second_lane: Array) -> Array:
        codes = (self.moment[first].astype(np.int64) * len(self.moments) + self.moment[second]) * 2
        codes += self.cached[second]
        result = np.zeros(first.size, bool)
        if codes.size == 0:
            return result
        # NumPy sorts 16 bits by radix: much faster.
        order = np.argsort(codes.astype(np.uint16) if 2 * len(self.moments) ** 2 <= 1 << 16 else codes, kind="stable")
        different, starts = np.unique(codes[order], return_index=True)
        for code, these in zip(different, np.split(order, starts[1:]), strict=True):
            pair, cached = divmod(int(code), 2)
            before, after = self.moments[pair // len(self.moments)], self.moments[pair % len(self.moments)]
            if before is after and before.counts is None:
                continue  # nothing happened in between
            result[these] = ordered(before, first_lane[these], after, second_lane[these], fenced=bool(cached))
        return result

    # -- names ------------------------------------------------------------------------------------

    def _named(self, one: Array, two: Array) -> Iterator[RacingPair]:
        """The pair to report for each two instructions."""
        if one.size == 0:
            return
        event, thread = self.accesses.event, self.thread
        time, position = self.time[event], self.position[event]
        later = time[one] > time[two]
        equal = time[one] == time[two]
        later |= equal & (position[one] > position[two])
        later |= equal & (position[one] == position[two]) & (thread[one] > thread[two])
        first, second = np.where(later, two, one), np.where(later, one, two)
        kinds = self._kinds(first, second)
        within = thread[first] // WARP == thread[second] // WARP
        block = self._blocks()
        near = within.astype(np.int8) + (block[first] == block[second])  # 0: two blocks, 1: two warps, 2: one warp
        keys = (thread[second], thread[first], self.accesses.unit[first], time[first], time[second], near, kinds,
                position[second], position[first])  # fmt: skip
        order = np.lexsort(keys)
        new = np.zeros(order.size, bool)
        new[0] = True
        for key in keys[-4:]:
            new[1:] |= key[order][1:] != key[order][:-1]
        names = list(HazardKind)
        for i in order[new]:
            a, b = int(first[i]), int(second[i])
            rank = (int(near[i]), int(time[b]), int(time[a]), int(self.accesses.unit[a]), int(thread[a]),
                    int(thread[b]))  # fmt: skip
            yield RacingPair(names[int(kinds[i])], int(self.accesses.unit[a]), self._side(a), self._side(b),
                             not within[i], rank)  # fmt: skip

    def _blocks(self) -> Array:
        return self.thread // (self.moments[0].state.warps_per_block * WARP)

    def _side(self, access: int) -> tuple[Event, int]:
        return self.events[int(self.accesses.event[access])], int(self.accesses.lane[access])

    def _kinds(self, first: Array, second: Array) -> Array:
        """Indices into HazardKind."""
        names = list(HazardKind)
        event = self.accesses.event
        a, b = self.kind[event[first]], self.kind[event[second]]
        result = np.full(first.size, names.index(HazardKind.WRITE_AFTER_WRITE))
        result[b == Kind.READ] = names.index(HazardKind.READ_AFTER_WRITE)
        result[a == Kind.READ] = names.index(HazardKind.WRITE_AFTER_READ)
        end = self.accesses.value[first].astype(np.int64)
        flying = (end == NOT_DONE) | (self.time[event[second]] < self.time[np.where(a == Kind.COPY, end, 0)])
        result[(a == Kind.COPY) & flying] = names.index(HazardKind.IN_FLIGHT_COPY)
        return result
