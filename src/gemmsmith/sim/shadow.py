"""Find shared-memory races: two accesses of one location by different threads with nothing that orders them.

Accesses are written down until the barrier that ends their epoch, and judged then, all against all; what this run's
schedule did first does not matter. Most locations are dismissed at once: nobody wrote them, or only the thread that
read them. The others are for ``race_pairs.py``. An asynchronous copy occupies its destination from the moment it is
issued until its own thread has waited for it; until then any access by any thread is a race.

A loop without barriers may have more accesses than there is room for. Then further ones by the same warp to the same
location are left out: two lanes of each warp stay on record, enough to find a race, but perhaps not at every line.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

from gemmsmith.errors import SimulationError
from gemmsmith.sim.clocks import Clock, Clocks, Moment, ordered
from gemmsmith.sim.hazards import WAIT_PHASE, Hazard, HazardKind, HazardLog, Side
from gemmsmith.sim.lanes import ALL, Lanes, WaveState
from gemmsmith.sim.live_parts import live_parts
from gemmsmith.sim.memory import RAW
from gemmsmith.sim.memory_order import SharedBetweenThreads, shared_between_threads
from gemmsmith.sim.operation import Lowered, Operation
from gemmsmith.sim.race_pairs import NOT_DONE, Accesses, Event, Kind, PairSearch, RacingPair
from gemmsmith.sim.shadow_records import ArrayBounds, Landing, Reads, Record, Watcher
from gemmsmith.sim.shared_arrays import array_at
from gemmsmith.sim.spots import spot
from gemmsmith.sim.traits import Space
from gemmsmith.sim.types import Array
from gemmsmith.sim.wave import WARP
from gemmsmith.sim.window_memory import WindowMemory

# Who wrote a location in this epoch: a lane, or one of these.
_NOBODY, _COPY, _ATOMIC = -1, -2, -3
_MOST_ACCESSES = 1 << 23
_SEVERAL = 255
_CLUSTER_REMEDY = "a barrier of the whole cluster (cluster.sync()) must come between them"
_RELEASE_REMEDY = ("a barrier of the whole cluster (cluster.sync()), or an mbarrier that the one arrives at and the "
                   "other waits for before it copies, must come between them")  # fmt: skip
_MANY_RECORDS = 96  # with as many moments, of which each two are compared


def _maps_addresses(lowered: Lowered) -> bool:
    """Whether threads may access the shared memory of other blocks of their cluster."""
    return any(operation.instruction.name.startswith("mapa") for operation in lowered.operations)


def granule(lowered: Lowered) -> int:
    """The smallest element of a shared access in the program, up to 4 bytes: the size of one shadowed location."""
    accesses = [o.access for o in lowered.operations if o.access is not None]
    return min([4, *(a.element for a in accesses if a.space in (Space.SHARED, Space.GENERIC))])


class Shadow:
    """Watches one wave's shared memory."""

    def __init__(self, state: WaveState, shared: WindowMemory, log: HazardLog, clocks: Clocks) -> None:
        self.state, self.shared, self.log, self.clocks = state, shared, log, clocks
        self.between: SharedBetweenThreads = state.lowered.fact(shared_between_threads)
        self.unit = granule(state.lowered)
        self._inside = ArrayBounds(state, shared)
        self._reaches_others = shared.cluster > 1 and state.lowered.fact(_maps_addresses)
        self._records: list[Record] = []
        self._reads: list[Reads] = []  # of whole bundles, which become records only where they matter
        self._many_records = _MANY_RECORDS
        self._size = self._writes = self._number = 0
        units = shared.data.size // self.unit
        self._writer = np.full(units, _NOBODY, np.int32)
        self._touched = np.zeros(shared.data.size // 16, bool)  # 16 bytes, of which some were written
        self._copy = np.full(units, -1, np.int32)  # the number of the record of a copy in flight
        self._flying: dict[int, Record] = {}
        self._seen: Array | None = None  # for each kind, location and warp: a lane + 1, or several
        self._known: set[tuple[int, int]] = set()
        # Who else wants to know of writes, and of all accesses.
        self.on_write: Callable[[Operation[Any], Array, Array], None] | None = None
        # In words: why an instruction's copies were still in flight, if their mbarrier's phase ended without them.
        self.why_in_flight: Callable[[int], str] = lambda _: ""
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

    def arrive(self, lanes: Array) -> Moment:
        """These lanes arrive where some threads of the block meet, or wait for them."""
        self._forget_seen()
        return self.clocks.arrive(lanes)

    def acquire(self, lanes: Array, clock: Clock) -> None:
        """These lanes have waited for what a clock knows."""
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
        if self._size > _MOST_ACCESSES:
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
        if self._size > _MOST_ACCESSES:
            self._condense()
        return record

    def _units(self, record: Record) -> tuple[Array, Array]:
        """One lane and one location for each: an access of 16 bytes covers four of 4."""
        if record.count == 1:
            return record.lanes, record.index // self.unit
        offsets = np.arange(record.count) if record.parts is None else record.parts
        units = (record.index.reshape(-1, 1) // self.unit + offsets).reshape(-1)
        return np.repeat(record.lanes, offsets.size), units

    def _made(self, reads: Reads) -> list[Record]:
        """The records of a bundle's reads, one for each operation."""
        made, lowered = [], self.state.lowered
        for n, (operation, row) in enumerate(zip(reads.operations, reads.index, strict=True)):
            assert operation.access is not None
            strong = self.between.orders[operation.position].strong
            event = Event(operation, Kind.READ, strong, reads.landing.moment, reads.landing.time, reads.turn)
            parts, count = live_parts(lowered, operation, self.unit), max(1, operation.access.width // self.unit)
            made.append(Record(event, reads.number + n, reads.lanes, row, parts, count))
        return made

    def _kept(self) -> int:
        """How many records there are, with those still to be made."""
        return len(self._records) + sum(len(reads.operations) for reads in self._reads)

    def _write_out(self) -> None:
        """Make records of all reads of bundles."""
        if self._reads:
            self._records += [record for reads in self._reads for record in self._made(reads)]
            self._records.sort(key=lambda record: record.number)
            self._reads = []

    # -- too much to keep -------------------------------------------------------------------------

    def _condense(self) -> None:
        """Judge what is there and forget what is past, or what others stand for."""
        self._judge()
        known = self.clocks.known_to_all()
        self._keep(self._current(np.zeros_like(known) if self._unwritten else known))
        if self._size > _MOST_ACCESSES // 2:
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

    # -- judging ----------------------------------------------------------------------------------

    def _judge(self) -> None:
        """Look for races among the records."""
        if self._writes or self._flying:
            hot = self._suspects()
            if hot is not None:
                self._write_out()
                self._search(hot)
        self._flying = {number: r for number, r in self._flying.items() if r.done is None or (r.done == NOT_DONE).any()}

    def _suspects(self) -> Array | None:
        """The locations that some thread wrote and another accessed; None if there are none."""
        hot: list[Array] = []
        if (size := self._epochs_apart()) > 1:
            self._write_out()
            return self._suspects_by_epoch(size)
        marked: list[Array] = []
        for record in sorted(self._records, key=lambda r: r.event.kind is not Kind.COPY):
            if record.event.kind is Kind.READ:
                continue
            lanes, units = self._units(record)
            mine = {Kind.COPY: _COPY, Kind.UPDATE: _ATOMIC}.get(record.event.kind, lanes)
            before = self._writer[units]
            self._writer[units] = mine
            clash = ((before != _NOBODY) & (before != mine)) | (self._writer[units] != mine)
            if record.event.kind is Kind.COPY:
                clash = before == _COPY
                clash |= self._writer[units] != mine
                values, counts = np.unique(units, return_counts=True)
                hot.append(values[counts > 1])
            if clash.any():
                hot.append(units[clash])
            self._touched[units * self.unit >> 4] = True
            marked.append(units)
        bundled = (r for reads in self._reads if self._touched[reads.index >> 4].any() for r in self._made(reads))
        for record in chain(self._records, bundled):
            if record.event.kind is not Kind.READ or record.lanes.size == 0:
                continue
            if not self._touched[record.index >> 4].any():
                continue
            lanes, units = self._units(record)
            writer = self._writer[units]
            clash = (writer != _NOBODY) & (writer != lanes)
            if clash.any():
                hot.append(units[clash])
        for units in marked:
            self._writer[units] = _NOBODY
            self._touched[units * self.unit >> 4] = False
        found = np.concatenate(hot) if hot else np.zeros(0, np.int64)
        if found.size == 0:
            return None
        mask = np.zeros(self._writer.size, bool)
        mask[found] = True
        return mask

    def _epochs_apart(self) -> int:
        """How many epochs of blocks the records are of, if accesses of different epochs cannot race; else 1.

        Blocks pass barriers at different times, so there may be records of many epochs. Copies last longer than one,
        and threads of other blocks know nothing of a block's epochs.
        """
        records = self._records
        if not records or self._reaches_others or any(record.event.kind is Kind.COPY for record in records):
            return 1
        when = chain((record.event.moment for record in records), (reads.landing.moment for reads in self._reads))
        moments = {id(moment): moment for moment in when}.values()
        spread = max(int(m.epochs.max()) for m in moments) - min(int(m.epochs.min()) for m in moments) + 1
        return spread if spread * self._writer.size <= _MOST_ACCESSES else 1

    def _suspects_by_epoch(self, epochs: int) -> Array | None:
        """The locations that some thread wrote and another accessed before the next barrier of their block."""
        writer = np.full((epochs, self._writer.size), _NOBODY, np.int32).reshape(-1)
        first = min(int(record.event.moment.epochs.min()) for record in self._records)
        mask = np.zeros(self._writer.size, bool)
        for reads in (False, True):
            for record in self._records:
                if (record.event.kind is Kind.READ) != reads or record.lanes.size == 0:
                    continue
                lanes, units = self._units(record)
                places = (record.event.moment.epoch(lanes).astype(np.int64) - first) * mask.size + units
                before = writer[places]
                if reads:
                    clash = (before != _NOBODY) & (before != lanes)
                else:
                    mine = _ATOMIC if record.event.kind is Kind.UPDATE else lanes
                    writer[places] = mine
                    clash = ((before != _NOBODY) & (before != mine)) | (writer[places] != mine)
                mask[units[clash]] = True
        return mask if mask.any() else None

    def _search(self, hot: Array) -> None:
        """Judge every access to the suspicious locations against every other."""
        at = {record.number: n for n, record in enumerate(self._records)}
        parts = []
        for n, record in enumerate(self._records):
            lanes, units = self._units(record)
            these = hot[units]
            if not these.any():
                continue
            value = np.zeros(int(these.sum()), np.int64)
            if record.values is not None:
                value = record.values[these].astype(np.int64)
            elif record.done is not None:
                numbers, which = np.unique(record.done[these], return_inverse=True)
                value = np.array([at.get(int(d), NOT_DONE) for d in numbers], np.int64)[which]
            parts.append(Accesses(units[these].astype(np.int64), lanes[these].astype(np.int64),
                                  np.full(value.size, n, np.int64), value))  # fmt: skip
        events = [record.event for record in self._records]
        flags = [part.unit for part in parts if events[part.event[0]].operation.position in self.between.polling]
        polled = np.unique(np.concatenate(flags)) if flags else np.zeros(0, np.int64)
        for pair in PairSearch(events, Accesses.joined(parts), polled, self._known).pairs():
            address = pair.unit * self.unit % self.shared.stride
            block, other = (self.state.block_name(side[1]) for side in (pair.first, pair.second))
            apart = block != other
            self.log.add(pair.rank, Hazard(pair.kind, address, block, self._side(*pair.first, apart),
                                           self._side(*pair.second, apart), pair.across_warps,
                                           across_blocks=apart, array=array_at(self.state.lowered, address),
                                           remedy=self._remedy(pair, apart)))  # fmt: skip

    def _remedy(self, pair: RacingPair, apart: bool) -> str:
        """A copy that another block issued is waited for as one's own, by the phase of the mbarrier; and what it is to
        overwrite is released by an arrival at an mbarrier of that block."""
        if pair.kind is HazardKind.IN_FLIGHT_COPY:
            return self.why_in_flight(pair.first[0].operation.position)
        if not apart:
            return ""
        if pair.kind is HazardKind.READ_AFTER_WRITE and _is_copy(pair.first[0]):
            return WAIT_PHASE
        return _RELEASE_REMEDY if _is_copy(pair.second[0]) else _CLUSTER_REMEDY

    def _side(self, event: Event, lane: int, apart: bool) -> Side:
        i = event.operation.instruction
        who = f"thread {self.state.thread_name(lane)}"
        who += f" of block {self.state.block_name(lane)}" if apart else ""
        return Side(event.operation.traits.verb, i.where, i.text, who,
                    spot(self.state, event.operation, lane, event.turn))  # fmt: skip


def _is_copy(event: Event) -> bool:
    return event.operation.traits.verb == "copy by TMA"
