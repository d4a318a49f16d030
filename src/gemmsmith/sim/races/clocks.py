"""What each thread knows of what others did: vector clocks, as barriers, fences and flags order a launch.

An access is *ordered before* a later one if a chain of synchronisation leads from the first thread to the second. The
chain is kept at three levels, so that the common case costs nothing. A block's epoch grows by one at each barrier of
the block. Within a warp, each lane counts what it has released, and knows a count of each other lane. Beyond that, a
thread may hold a ``Clock``: what it acquired through memory from other warps and blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gemmsmith.sim.lanes import Lanes, WaveState
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.clock_table import ClockTable
from gemmsmith.sim.wave import WARP

_FOREVER = np.iinfo(np.int64).max
_MULTIPLIER = np.int64(0x5851F42D4C957F2D)  # of a hash, Knuth's


@dataclass(frozen=True)
class Clock:
    """What was acquired: all that each block did before an epoch, and more of single warps, lane by lane.

    ``epochs`` has one entry for each block of the grid. ``warps`` maps a warp's number in the grid to the counts of its
    32 lanes. ``flags`` are the locations that it was acquired through, each with the number of the last write seen.
    ``unfenced`` is what was only waited for, with no fence after: it orders all but reads that may come from L1.
    """

    epochs: Array
    warps: dict[int, Array] = field(default_factory=dict)
    flags: dict[int, int] = field(default_factory=dict)
    unfenced: Clock | None = None

    def joined(self, other: Clock) -> Clock:
        """What either knows."""
        if other is self:
            return self
        warps = dict(self.warps)
        for warp, counts in other.warps.items():
            mine = warps.get(warp)
            warps[warp] = counts if mine is None else np.maximum(mine, counts)
        flags, unfenced = later(self.flags, other.flags), joined((self.unfenced, other.unfenced))
        return Clock(np.maximum(self.epochs, other.epochs), warps, flags, unfenced)

    def waited(self) -> Clock:
        """With what was only waited for."""
        return self if self.unfenced is None else replace(self.joined(self.unfenced), unfenced=None)


def later(writes: dict[int, int], others: dict[int, int]) -> dict[int, int]:
    """Of each flag, the later of two writes."""
    return writes | {flag: max(number, writes.get(flag, 0)) for flag, number in others.items()}


def joined(clocks: Iterable[Clock | None]) -> Clock | None:
    """What any of them knows; None if there is none."""
    result: Clock | None = None
    for clock in clocks:
        if clock is not None:
            result = clock if result is None else result.joined(clock)
    return result


@dataclass(frozen=True)
class Moment:
    """What the lanes of a wave know at some time. Arrays are never changed once they are here.

    ``counts`` is None while no lane has released anything within its warp. ``holds`` is the index of each lane's clock
    in ``clocks``, −1 for none, or None while nobody has one. ``alike`` is the wave's, as it is in the end: lanes that
    have the same number there took part in the same synchronisation, and stand for one another.
    """

    state: WaveState
    epochs: Array
    counts: Array | None
    holds: Array | None
    clocks: tuple[Clock, ...]
    alike: Array

    @cached_property
    def fenced(self) -> ClockTable:
        """What the clocks know."""
        return self._table(self.clocks)

    @cached_property
    def waited(self) -> ClockTable:
        """What the clocks know, with what was only waited for."""
        if all(clock.unfenced is None for clock in self.clocks):
            return self.fenced
        return self._table([clock.waited() for clock in self.clocks])

    def _table(self, clocks: Sequence[Clock]) -> ClockTable:
        warps = clocks[0].epochs.size * self.state.warps_per_block
        return ClockTable([clock.epochs for clock in clocks], [clock.warps for clock in clocks], warps)

    def block(self, lanes: Array) -> Array:
        """The blocks of lanes, by their numbers in the grid."""
        found: Array = self.state.wave.blocks[self.state.block[lanes]]
        return found

    def epoch(self, lanes: Array) -> Array:
        found: Array = self.epochs[self.state.block[lanes]]
        return found

    def count(self, lanes: Array) -> Array | int:
        """How often each lane has released."""
        if self.counts is None:
            return 0
        found: Array = self.counts[lanes, self.state.thread[lanes] % WARP]
        return found


def last_writes_seen(moment: Moment, lane: int) -> dict[int, int]:
    """The number of the last write to each flag that a lane knows to be performed."""
    held = -1 if moment.holds is None else int(moment.holds[lane])
    return moment.clocks[held].flags if held >= 0 else {}


def ordered(before: Moment, first: Array, after: Moment, second: Array, fenced: bool = True) -> Array:
    """Whether accesses by ``first`` at one moment are ordered before those by ``second`` at another.

    Accesses of one thread are ordered. ``fenced``: what the second thread only waited for, without a fence, does not
    count.
    """
    block, other = before.block(first), after.block(second)
    thread, here = before.state.thread[first], after.state.thread[second]
    same_block = block == other
    result: Array = same_block & ((before.epoch(first) < after.epoch(second)) | (thread == here))
    lane = thread % WARP
    if after.counts is not None:
        same_warp = same_block & (thread // WARP == here // WARP)
        result |= same_warp & (after.counts[second, lane] > before.count(first))
    if after.holds is not None:
        holds = after.holds[second]
        asked = np.flatnonzero((holds >= 0) & ~result)
        if asked.size:
            count = np.broadcast_to(before.count(first), first.shape)[asked]
            warp = block[asked] * before.state.warps_per_block + thread[asked] // WARP
            epoch = before.epoch(first)[asked]
            table = after.fenced if fenced else after.waited
            result[asked] = table.knows(holds[asked], block[asked], epoch, thread[asked], warp, count)
    return result


class Clocks:
    """The clocks of one wave's lanes, as they advance."""

    def __init__(self, state: WaveState, blocks_of_grid: int) -> None:
        self.state, self._blocks = state, blocks_of_grid
        self.number = int(state.wave.blocks[0])  # tells the waves of a launch apart
        self._lane = state.thread % WARP
        self._epochs = np.zeros(len(state.wave.blocks), np.int32)
        self._counts: Array | None = None
        self._holds: Array | None = None
        self._clocks: tuple[Clock, ...] = ()
        self._alike, self._happenings = np.zeros(state.wave.lanes, np.int64), 0
        self._now: Moment | None = None
        self.before_barrier: Callable[[Array], None] | None = None  # told which lanes are about to pass one

    def now(self) -> Moment:
        if self._now is None:
            self._now = Moment(self.state, self._epochs, self._counts, self._holds, self._clocks, self._alike)
        return self._now

    # -- barriers ---------------------------------------------------------------------------------

    def barrier(self, lanes: Lanes) -> None:
        """All threads of these lanes' blocks have passed a barrier."""
        if self.before_barrier is not None:
            self.before_barrier(self.state.indices(lanes))
        self._change()
        blocks = np.unique(self.state.block[lanes])
        self._epochs[blocks] += 1
        if self._holds is not None:
            threads = self.state.wave.threads
            for block in blocks:
                self._share(np.arange(block * threads, (block + 1) * threads))

    def warp_barrier(self, lanes: Lanes) -> None:
        """These lanes passed a warp-wide barrier: the lanes of a warp now know what each of them did before."""
        mine = self.state.indices(lanes)
        if self.before_barrier is not None:
            self.before_barrier(mine)
        mine = mine[np.argsort(self.state.warp[mine], kind="stable")]
        counts = self._tick(mine)
        _, starts, sizes = np.unique(self.state.warp[mine], return_index=True, return_counts=True)
        counts[mine] = np.repeat(np.maximum.reduceat(counts[mine], starts), sizes, axis=0)
        self._together(mine)
        if self._holds is not None:
            for start, size in zip(starts, sizes, strict=True):
                self._share(mine[start : start + size])

    def arrive(self, lanes: Array) -> Moment:
        """These lanes arrive where others wait for some of them: ``known`` at this moment is what they release."""
        if self.before_barrier is not None:
            self.before_barrier(lanes)
        self._tick(lanes)
        return self.now()

    def known_to_all(self) -> Array:
        """For each lane, the count up to which all live threads of its block know what it did."""
        threads, state = self.state.wave.threads, self.state
        result = np.zeros(state.wave.lanes, np.int64)
        if self._counts is None:
            return result
        for block in range(len(state.wave.blocks)):
            lanes = slice(block * threads, (block + 1) * threads)
            known = self._known_in_block(block)
            for start in range(0, threads, WARP):
                mine = slice(start, min(start + WARP, threads))
                counts = self._counts[lanes][mine, : mine.stop - start]
                known[mine, mine] = np.maximum(known[mine, mine], counts)
            known[np.arange(threads), np.arange(threads)] = _FOREVER
            known[~state.alive[lanes]] = _FOREVER
            result[lanes] = known.min(axis=0)
        return result

    def known_to_cluster(self, blocks: int) -> tuple[Array, Array]:
        """For each lane, the epoch and the count up to which all live threads of the other blocks of its cluster know
        what it did. ``blocks``: as many make a cluster."""
        threads, state = self.state.wave.threads, self.state
        epochs = np.full(state.wave.lanes, _FOREVER)
        counts = np.full(state.wave.lanes, _FOREVER)
        for block in range(len(state.wave.blocks)):
            lanes = slice(block * threads, (block + 1) * threads)
            number = int(state.wave.blocks[block])
            for other in range(block // blocks * blocks, (block // blocks + 1) * blocks):
                live = np.flatnonzero(state.alive[other * threads : (other + 1) * threads]) + other * threads
                if other == block or not live.size:
                    continue
                for index in [-1] if self._holds is None else np.unique(self._holds[live]).tolist():
                    clock = self._clocks[index] if index >= 0 else None
                    epochs[lanes] = np.minimum(epochs[lanes], 0 if clock is None else int(clock.epochs[number]))
                    known = np.zeros(state.warps_per_block * WARP, np.int64)
                    for warp in range(state.warps_per_block if clock is not None else 0):
                        assert clock is not None
                        if (mine := clock.warps.get(number * state.warps_per_block + warp)) is not None:
                            known[warp * WARP : (warp + 1) * WARP] = mine
                    counts[lanes] = np.minimum(counts[lanes], known[:threads])
        return epochs, counts

    def _known_in_block(self, block: int) -> Array:
        """What each thread of a block knows of each other by its clock."""
        threads = self.state.wave.threads
        if self._holds is None:
            return np.zeros((threads, threads), np.int64)
        held, which = np.unique(self._holds[block * threads : (block + 1) * threads], return_inverse=True)
        rows = np.zeros((held.size, self.state.warps_per_block * WARP), np.int64)
        first = int(self.state.wave.blocks[block]) * self.state.warps_per_block
        for row, index in zip(rows, held, strict=True):
            for warp in range(self.state.warps_per_block) if index >= 0 else ():
                if (counts := self._clocks[index].warps.get(first + warp)) is not None:
                    row[warp * WARP : (warp + 1) * WARP] = counts
        known: Array = rows[which.reshape(-1), :threads]
        return known

    # -- memory -----------------------------------------------------------------------------------

    def tick(self, lanes: Lanes) -> None:
        """From now on what these lanes do is later than what they have released."""
        self._tick(self.state.indices(lanes))

    def release(self, lane: int) -> Clock:
        """What a lane knows and did up to now."""
        mine = np.array([lane])
        self._tick(mine)
        return self.known(self.now(), mine)

    def known(self, moment: Moment, lanes: Array) -> Clock:
        """What lanes knew and had released at a moment; they may be of several blocks of a cluster."""
        self._together(lanes)
        epochs = np.zeros(self._blocks, np.int32)
        warps: dict[int, Array] = {}
        of_block = self.state.block[lanes]
        for block in np.unique(of_block).tolist():
            mine, number = lanes[of_block == block], int(self.state.wave.blocks[block])
            epochs[number] = moment.epochs[block]
            warp = self.state.thread[mine] // WARP
            for one in np.unique(warp) if moment.counts is not None else ():
                assert moment.counts is not None
                warps[number * self.state.warps_per_block + int(one)] = moment.counts[mine[warp == one]].max(axis=0)
        clock = Clock(epochs, warps)
        if moment.holds is not None:
            for held in np.unique(moment.holds[lanes]):
                clock = clock if held < 0 else clock.joined(moment.clocks[held])
        return clock

    def acquire(self, lanes: Array, clock: Clock) -> None:
        """Lanes learn what a clock knows."""
        self._change()
        if self._holds is None:
            self._holds = np.full(self.state.wave.lanes, -1, np.int32)
        self._together(lanes)
        mine = self._holds[lanes]
        learned = [(lanes[mine == held], clock if held < 0 else self._clocks[held].joined(clock))
                   for held in np.unique(mine)]  # fmt: skip
        for these, known in learned:
            self._hold(these, known)

    def fence(self, lanes: Array) -> None:
        """Lanes execute a fence: what they only waited for is ordered before all that follows."""
        if self._holds is None:
            return
        mine = self._holds[lanes]
        learned = [(lanes[mine == held], self._clocks[held].waited()) for held in np.unique(mine[mine >= 0])
                   if self._clocks[held].unfenced is not None]  # fmt: skip
        for these, known in learned:
            self._change()
            self._together(these)
            self._hold(these, known)

    def saw(self, lane: int, flags: dict[int, int]) -> None:
        """A lane knows these writes to be performed: its later accesses of the flags themselves come after them."""
        self.acquire(np.array([lane]), Clock(np.zeros(self._blocks, np.int32), flags=flags))

    # -- the arrays -------------------------------------------------------------------------------

    def _change(self) -> None:
        """Leave the arrays that a moment has as they are, and go on with copies."""
        if self._now is None:
            return
        self._now = None
        self._epochs = self._epochs.copy()
        if self._counts is not None:
            self._counts = self._counts.copy()
        if self._holds is not None:
            self._holds = self._holds.copy()

    def _together(self, lanes: Array) -> None:
        """These lanes take part in something that others may not."""
        self._happenings += 1
        self._alike[lanes] = self._alike[lanes] * _MULTIPLIER + self._happenings

    def _tick(self, mine: Array) -> Array:
        self._change()
        self._together(mine)
        if self._counts is None:
            self._counts = np.zeros((self.state.wave.lanes, WARP), np.int32)
        self._counts[mine, self._lane[mine]] += 1
        return self._counts

    def _share(self, lanes: Array) -> None:
        """These lanes learn what each of them holds."""
        assert self._holds is not None
        held = np.unique(self._holds[lanes])
        if held[-1] < 0 or (held.size == 1):
            return
        clock = joined(self._clocks[index] for index in held[held >= 0])
        assert clock is not None
        self._hold(lanes, clock)

    def _hold(self, lanes: Array, clock: Clock) -> None:
        assert self._holds is not None
        index = next((i for i in range(len(self._clocks) - 1, -1, -1) if self._clocks[i] is clock), -1)
        if index < 0:
            if len(self._clocks) > 4 * self._blocks + 64:
                self._forget()
            index = len(self._clocks)
            self._clocks = (*self._clocks, clock)
        self._holds[lanes] = index

    def _forget(self) -> None:
        """Drop the clocks that no lane holds any longer; moments keep their own."""
        assert self._holds is not None
        held, again = np.unique(self._holds, return_inverse=True)
        kept = held[held >= 0]
        self._clocks = tuple([self._clocks[index] for index in kept])
        self._holds = (again.reshape(-1) - (held.size - kept.size)).astype(np.int32)
