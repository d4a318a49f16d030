"""Find shared-memory races: two accesses of one location by different threads with nothing that orders them.

Accesses are written down until the barrier that ends their epoch, and judged then, all against all
(``shadow_judge.py``); what this run's schedule did first does not matter. An asynchronous copy occupies its destination
from the moment it is issued until its own thread has waited for it; until then any access by any thread is a race.

A loop without barriers may have more accesses than there is room for. Then further ones by the same warp to the same
location are left out: two lanes of each warp stay on record, enough to find a race, but perhaps not at every line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemmsmith.errors import SimulationError
from gemmsmith.sim.lanes import ALL, Lanes, WaveState
from gemmsmith.sim.lowering.live_parts import live_parts
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.memory.global_memory import RAW
from gemmsmith.sim.memory.window_memory import WindowMemory
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.clocks import Clock, Clocks, Moment, ordered
from gemmsmith.sim.races.hazards import HazardLog
from gemmsmith.sim.races.race_pairs import NOT_DONE, Event, Kind
from gemmsmith.sim.races.shadow_judge import MOST_ACCESSES, RecordsInShadow
from gemmsmith.sim.races.shadow_records import ArrayBounds, Landing, Reads, Record, Watcher
from gemmsmith.sim.wave import WARP
from gemmsmith.sim.work import WORK

_SEVERAL = 255
_MANY_RECORDS = 96  # with as many moments, of which each two are compared


class Shadow(RecordsInShadow):
    """Watches one wave's shared memory."""

    def __init__(self, state: WaveState, shared: WindowMemory, log: HazardLog, clocks: Clocks) -> None:
        super().__init__(state, shared, log)
        self.clocks = clocks
        self._inside = ArrayBounds(state, shared)
        self._many_records = _MANY_RECORDS
        self._size = self._number = 0
        self._copy = np.full(self._writer.size, -1, np.int32)  # the number of the record of a copy in flight
        self._seen: Array | None = None  # for each kind, location and warp: a lane + 1, or several
        # Who else wants to know of writes, and of all accesses.
        self.on_write: Callable[[Operation[Any], Array, Array], None] | None = None
        self.watchers: list[Watcher] = []
        # Reads of what nobody had written: when and by whom, which locations, and the fault.
        self._unwritten: list[tuple[Moment, int, Array, SimulationError]] = []

    # -- what orders accesses ---------------------------------------------------------------------

    def barrier(self, lanes: Lanes) -> None:
        """All threads of these lanes' blocks have passed a barrier."""
        self.clocks.barrier(lanes)
        everybody = isinstance(lanes, slice) and lanes == ALL
        if everybody or self._all_that_live(lanes):
            self._judge()
            self._raise_unwritten()
            if self._reaches_others:  # a barrier of one block orders nothing for the others of its cluster
                self._keep(self._current(self.clocks.known_to_all()))
                return
            self._records, self._reads = list(self._flying.values()), []
            self.products.forget()
            self._keep(lambda record: np.zeros(record.lanes.size, bool))
            self._seen = None

    def _all_that_live(self, lanes: Lanes) -> bool:
        """Whether these lanes are of every block that has not ended: then no access from before meets a later one."""
        waits_or_ended = np.ones(len(self.state.wave.blocks), bool)
        waits_or_ended[self.state.block[self.state.alive]] = False
        waits_or_ended[self.state.block[lanes]] = True
        return bool(waits_or_ended.all())

    def warp_barrier(self, lanes: Lanes) -> None:
        """These lanes passed a warp-wide barrier, with one member mask."""
        mine = self.state.indices(lanes)
        if self.state.wave.threads <= WARP:
            whole = np.bincount(self.state.block[mine])[self.state.block[mine]] == self.state.wave.threads
            if whole.all():  # all threads of blocks that are one warp: as good as a barrier
                self.barrier(lanes)
                return
        self._forget_seen()
        self.clocks.warp_barrier(lanes)

    def multiplied(self, operations: tuple[Operation[Any], ...], lanes: Lanes) -> None:
        """The warps of these lanes multiplied matrices: all their reads have been done."""
        if self._records or self._reads:
            self.products.multiplied(operations, lanes)

    def arrive(self, lanes: Array) -> Moment:
        """These lanes arrive where some threads of the block meet, or wait for them."""
        self._forget_seen()
        return self.clocks.arrive(lanes)

    def acquire(self, lanes: Array, clock: Clock) -> None:
        """These lanes have waited for what a clock knows."""
        WORK.add_acquire()
        self._forget_seen()
        self.clocks.acquire(lanes, clock)
        if self._kept() > self._many_records and not self._unwritten:
            self._settle()

    def _forget_seen(self) -> None:
        """Accesses from now on are ordered in other ways than those that stand for them."""
        if self._seen is not None:
            self._seen[:] = 0

    def finish(self) -> None:
        """The wave has ended."""
        self._judge()
        self._raise_unwritten()

    def read_unwritten(self, lane: int, index: int, width: int, fault: SimulationError) -> None:
        """A lane reads what no thread has written: a race if one does so later in this epoch, else a fault."""
        units = index // self.unit + np.arange(max(1, width // self.unit))
        self._unwritten.append((self.clocks.now(), lane, units, fault))

    def _raise_unwritten(self) -> None:
        for moment, lane, units, fault in self._unwritten:
            block = self.state.block[lane]
            for record in self._records:
                kind, then = record.event.kind, record.event.moment
                if kind is Kind.READ or (kind is not Kind.COPY and then.epochs[block] != moment.epochs[block]):
                    continue
                lanes, written = self._units(record)
                lanes = lanes[np.isin(written, units)]
                # A copy that is issued behind the read comes too late; one that nothing orders is a race.
                if lanes.size and not (kind is Kind.COPY and ordered(moment, np.full(1, lane), then, lanes[:1])[0]):
                    break
            else:
                raise fault
        self._unwritten = []

    # -- accesses ---------------------------------------------------------------------------------

    def read(self, operation: Operation[Any], lanes: Array, index: Array) -> None:
        """``lanes`` read the operation's width at byte positions ``index``."""
        self._add(operation, Kind.READ, lanes, index)

    def read_all(self, operations: tuple[Operation[Any], ...], lanes: Array, index: Array) -> None:
        """``lanes`` read for each operation of a bundle, at the byte positions of its row of ``index``."""
        if self._seen is not None or not lanes.size or not all(w.nothing_new(lanes, index) for w in self.watchers):
            for operation, row in zip(operations, index, strict=True):
                self._add(operation, Kind.READ, lanes, row)
            return
        self._inside.check_all(operations, lanes, index)
        self._reads.append(Reads(operations, self.landing(), len(self.state.trail), self._number + 1, lanes, index))
        self._number += len(operations)
        self._size += index.size
        if self._size > MOST_ACCESSES:
            self._condense()

    def write(self, operation: Operation[Any], lanes: Array, index: Array, values: Array) -> None:
        """``lanes`` write ``values``; the same bits written by two threads are not a race."""
        self._add(operation, Kind.WRITE, lanes, index, np.array(values).reshape(-1).view(RAW[self.unit]))
        if self.on_write is not None:
            self.on_write(operation, lanes, index)

    def atomic(self, operation: Operation[Any], lanes: Array, index: Array) -> None:
        """Atomic updates, which are ordered among themselves but not against other accesses."""
        self._add(operation, Kind.UPDATE, lanes, index)

    def copy_issued(self, operation: Operation[Any], lanes: Array, index: Array) -> None:
        """An asynchronous copy to these positions begins: it must not overtake earlier readers or writers."""
        record = self._add(operation, Kind.COPY, lanes, index)
        units = self._units(record)[1]
        self._copy[units] = record.number
        self._flying[record.number] = record

    def landing(self) -> Landing:
        """Now, for copies that are to land with an arrival of their threads that comes next."""
        return Landing(self.clocks.now(), self.state.time)

    def copy_waited(self, lanes: Array, index: Array, width: int, landing: Landing | None = None) -> None:
        """The copies' own threads have waited: from now on the copies are writes of those threads.

        ``landing``: when these threads arrived at an mbarrier for the copies, if that was waited for.
        """
        count = max(1, width // self.unit)
        units = (index.reshape(-1, 1) // self.unit + np.arange(count)).reshape(-1)
        who = np.repeat(lanes.reshape(-1), count)
        for number in np.unique(self._copy[units]):
            record = self._flying.get(int(number))
            if record is None or record.done is None:
                continue
            done = self._add(record.event.operation, Kind.READ, lanes[:0], index[:0], landing=landing)
            theirs, at = self._units(record)
            landed = np.isin(theirs.astype(np.int64) << 32 | at, who.astype(np.int64) << 32 | units)
            record.done[landed & (record.done == NOT_DONE)] = done.number
        self._copy[units] = -1

    def _add(self, operation: Operation[Any], kind: Kind, lanes: Array, index: Array,
             values: Array | None = None, landing: Landing | None = None) -> Record:  # fmt: skip
        assert operation.access is not None
        count = max(1, operation.access.width // self.unit)
        self._inside.check(operation, lanes, index)
        order = self.between.orders[operation.position]
        parts = live_parts(self.state.lowered, operation, self.unit) if kind is Kind.READ else None
        if lanes.size and kind is not Kind.COPY:
            for watcher in self.watchers:
                watcher.accessed(operation, lanes, index)
        landing = landing or self.landing()
        event = Event(operation, kind, order.strong, landing.moment, landing.time, len(self.state.trail))
        done = np.full(lanes.size * count, NOT_DONE, np.int64) if kind is Kind.COPY else None
        self._number += 1
        record = Record(event, self._number, lanes.reshape(-1), index.reshape(-1), parts, count, values, done)
        if self._seen is not None and kind is not Kind.COPY:
            record = record.part(self._unseen(record))
        self._records.append(record)
        self._size += record.lanes.size
        self._writes += kind is not Kind.READ
        if self._size > MOST_ACCESSES:
            self._condense()
        return record

    def _kept(self) -> int:
        """How many records there are, with those still to be made."""
        return len(self._records) + sum(len(reads.operations) for reads in self._reads)

    # -- too much to keep -------------------------------------------------------------------------

    def _condense(self) -> None:
        """Judge what is there and forget what is past, or what others stand for."""
        self._judge()
        known = self.clocks.known_to_all()
        self._keep(self._current(np.zeros_like(known) if self._unwritten else known))
        if self._size > MOST_ACCESSES // 2:
            self._seen = np.zeros((len(Kind), self._writer.size * self.state.warps_per_block), np.uint8)
            self._records = [r if r.event.kind is Kind.COPY else r.part(self._unseen(r)) for r in self._records]
            self._size = 0  # what is left has a bound of its own

    def _settle(self) -> None:
        """Judge what is there and forget what all threads of its block know: nothing that follows can race with it."""
        self._judge()
        self._keep(self._current(self.clocks.known_to_all()))
        self._many_records = max(_MANY_RECORDS, 2 * len(self._records))

    def _current(self, known: Array) -> Callable[[Record], Array]:
        """Says of the accesses of a record which are not past for all threads of their block."""
        self._write_out()
        epochs = self.clocks.now().epochs
        events = {record.number: record.event for record in self._records}

        elsewhere = self.clocks.known_to_cluster(self.shared.cluster) if self._reaches_others else None

        def past(moment: Moment, lanes: Array) -> Array:
            result: Array = moment.epoch(lanes) < epochs[self.state.block[lanes]]
            result |= moment.count(lanes) < known[lanes]
            if elsewhere is not None:
                result &= (moment.epoch(lanes) < elsewhere[0][lanes]) | (moment.count(lanes) < elsewhere[1][lanes])
            return result

        def current(record: Record) -> Array:
            if record.done is None:
                return ~past(record.event.moment, record.lanes)
            done, keep = record.done.reshape(record.lanes.size, -1), np.zeros(record.lanes.size, bool)
            for number in np.unique(done):
                still = number not in events or ~past(events[number].moment, record.lanes)
                keep |= (done == number).any(axis=1) & still
            return keep

        return current

    def _keep(self, current: Callable[[Record], Array]) -> None:
        """Forget the accesses that are not current, other than copies in flight."""
        self._write_out()
        kept: list[Record] = []
        for record in self._records:
            keep = current(record)
            if record.done is not None:
                keep |= (record.done.reshape(record.lanes.size, -1) == NOT_DONE).any(axis=1)
            if keep.any():
                kept.append(record if keep.all() else record.part(keep))
        landed = {int(n) for record in kept if record.done is not None for n in np.unique(record.done)}
        kept += [record for record in self._records if record.lanes.size == 0 and record.number in landed]
        self._records = sorted(kept, key=lambda record: record.number)
        self._flying = {r.number: r for r in self._records if r.number in self._flying}
        self._size = sum(record.lanes.size for record in self._records)
        self._writes = sum(record.event.kind is not Kind.READ for record in self._records)

    def _unseen(self, record: Record) -> Array:
        """Which lanes access a location that fewer than two lanes of their warp are known to access."""
        assert self._seen is not None
        lanes, units = self._units(record)
        at = units * self.state.warps_per_block + self.state.thread[lanes] // WARP
        mine = (self.state.thread[lanes] % WARP + 1).astype(np.uint8)
        kind = record.event.kind
        seen = self._seen[kind, at]
        # Writes of several lanes all stay: their values decide.
        new = (seen != mine) & ((seen != _SEVERAL) | (kind is Kind.WRITE))
        self._seen[kind, at[new]] = np.where(seen[new] == 0, mine[new], _SEVERAL)
        fresh: Array = new.reshape(record.lanes.size, -1).any(axis=1)
        return fresh
