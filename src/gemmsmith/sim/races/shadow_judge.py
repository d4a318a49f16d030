"""The accesses of shared memory that were written down, and the races among them.

Most locations are dismissed at once: nobody wrote them, or only the thread that read them. The others are for
``race_pairs.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import numpy as np

from gemmsmith.sim.lanes import WaveState
from gemmsmith.sim.lowering.live_parts import live_parts
from gemmsmith.sim.lowering.operation import Lowered
from gemmsmith.sim.lowering.shared_arrays import array_at
from gemmsmith.sim.lowering.traits import Space
from gemmsmith.sim.memory.window_memory import WindowMemory
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.hazards import WAIT_PHASE, Hazard, HazardKind, HazardLog, Side
from gemmsmith.sim.races.memory_order import SharedBetweenThreads, shared_between_threads
from gemmsmith.sim.races.race_pairs import NOT_DONE, Accesses, Event, Kind, PairSearch, RacingPair
from gemmsmith.sim.races.shadow_records import Reads, Record
from gemmsmith.sim.races.spots import spot
from gemmsmith.sim.races.warp_products import WarpProducts

# Who wrote a location in this epoch: a lane, or one of these.
_NOBODY, _COPY, _ATOMIC = -1, -2, -3
MOST_ACCESSES = 1 << 23
_CLUSTER_REMEDY = "a barrier of the whole cluster (cluster.sync()) must come between them"
_RELEASE_REMEDY = ("a barrier of the whole cluster (cluster.sync()), or an mbarrier that the one arrives at and the "
                   "other waits for before it copies, must come between them")  # fmt: skip


def _maps_addresses(lowered: Lowered) -> bool:
    """Whether threads may access the shared memory of other blocks of their cluster.

    Machine code puts a rank into an address with plain arithmetic; generic accesses and STAS are what uses it.
    """
    if lowered.machine_code:
        return any((operation.access is not None and operation.access.space is Space.GENERIC)
                   or operation.instruction.name.startswith("STAS") for operation in lowered.operations)  # fmt: skip
    return any(operation.instruction.name.startswith("mapa") for operation in lowered.operations)


def granule(lowered: Lowered) -> int:
    """The smallest element of a shared access in the program, up to 4 bytes: the size of one shadowed location."""
    accesses = [o.access for o in lowered.operations if o.access is not None]
    return min([4, *(a.element for a in accesses if a.space in (Space.SHARED, Space.GENERIC))])


class RecordsInShadow:
    """The records of one wave's accesses to shared memory, up to the barrier that ends their epoch."""

    def __init__(self, state: WaveState, shared: WindowMemory, log: HazardLog) -> None:
        self.state, self.shared, self.log = state, shared, log
        self.between: SharedBetweenThreads = state.lowered.fact(shared_between_threads)
        self.unit = granule(state.lowered)
        self._reaches_others = shared.cluster > 1 and state.lowered.fact(_maps_addresses)
        self._records: list[Record] = []
        self._reads: list[Reads] = []  # of whole bundles, which become records only where they matter
        self._writes = 0
        units = shared.data.size // self.unit
        self._writer = np.full(units, _NOBODY, np.int32)
        self._touched = np.zeros(shared.data.size // 16, bool)  # 16 bytes, of which some were written
        self._flying: dict[int, Record] = {}
        self._known: set[tuple[int, int]] = set()
        self.products = WarpProducts(state)
        # In words: why an instruction's copies were still in flight, if their mbarrier's phase ended without them.
        self.why_in_flight: Callable[[int], str] = lambda _: ""

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

    def _write_out(self) -> None:
        """Make records of all reads of bundles."""
        if self._reads:
            self._records += [record for reads in self._reads for record in self._made(reads)]
            self._records.sort(key=lambda record: record.number)
            self._reads = []

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
        return spread if spread * self._writer.size <= MOST_ACCESSES else 1

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
        search = PairSearch(events, Accesses.joined(parts), polled, self._known, products=self.products)
        for pair in search.pairs():
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
