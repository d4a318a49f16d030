"""Find global-memory races: between the blocks of a launch, and within them.

A launch is watched in two looks. The first costs little: for every location, which thread read it and which wrote it.
In most kernels each thread writes its own results, and that is all. Where one thread wrote what another accessed, the
launch is repeated from the same memory, and every access to these locations is written down with what its thread knew
(``clocks.py``). Then all are judged against all. Blocks that this simulator runs one after another are concurrent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.lanes import Lanes, WaveState
from gemmsmith.sim.lowering.live_parts import live_bytes, live_parts
from gemmsmith.sim.lowering.operation import Lowered, Operation
from gemmsmith.sim.lowering.traits import Effect, Space
from gemmsmith.sim.memory.global_memory import RAW, SHIFT, GlobalMemory
from gemmsmith.sim.memory.lazy_zeros import lazy_zeros
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.clocks import Clocks, ordered
from gemmsmith.sim.races.hazards import FENCE_REMEDY, SCOPE_REMEDY, Hazard, HazardLog, Side
from gemmsmith.sim.races.location_users import MANY, Users, use
from gemmsmith.sim.races.memory_order import SharedBetweenThreads, shared_between_threads
from gemmsmith.sim.races.race_pairs import Accesses, Event, Kind, PairSearch
from gemmsmith.sim.races.release_acquire import Flags, flag_codes
from gemmsmith.sim.races.spots import spot
from gemmsmith.sim.waits.cooperative import GridBarrier
from gemmsmith.sim.wave import WARP

_MOST_ACCESSES = 1 << 22
_MOST_FLAGS = 1 << 14  # flags times blocks, whose users are remembered
_KINDS = {Effect.READ: Kind.READ, Effect.WRITE: Kind.WRITE, Effect.UPDATE: Kind.UPDATE, Effect.COPY: Kind.READ}


def granule(lowered: Lowered) -> int:
    """The smallest element of a global access in the program, up to 4 bytes: the size of one watched location."""
    accesses = [o.access for o in lowered.operations if o.access is not None]
    return min([4, *(a.element for a in accesses if a.space in (Space.GLOBAL, Space.GENERIC))])


@dataclass(frozen=True)
class Touch:
    """What one operation of a bundle accessed: the memory, and each lane's address in it. ``row``: its number there."""

    operation: Operation[Any]
    row: int
    space: Space
    lanes: Lanes
    addresses: Array


class Footprint:
    """A detail of an instruction that says itself which lanes reached which addresses of global memory."""

    def touched(self, state: Any) -> list[tuple[Array, Array]]:
        """Lanes and addresses of what just ran."""
        raise NotImplementedError


class FirstLook:
    """Which locations one thread wrote and another accessed, in one launch."""

    def __init__(self, lowered: Lowered, memory: GlobalMemory) -> None:
        self.lowered, self.memory, self.unit = lowered, memory, granule(lowered)
        self.between: SharedBetweenThreads = lowered.fact(shared_between_threads)
        self._users: dict[int, Users] = {}
        self._polled: set[int] = set()
        self._shared_writes: set[int] = set()
        self._flag_warps: dict[tuple[int, int], int] = {}  # by flag and block, the warp that used it first
        self._shared_flags: set[int] = set()  # used by two warps of a block
        self._wave, self._numbers = -1, np.zeros(0, np.int32)
        self._has_block_scope = any(
            order.block_only and operation.access is not None and operation.access.effect is Effect.UPDATE
            and operation.access.space is not Space.SHARED
            for operation, order in zip(lowered.operations, self.between.orders, strict=True)
        )  # fmt: skip

    def read(self, state: WaveState, clocks: Clocks, step: Bundle[Any], lanes: Lanes, addresses: Array) -> bool:
        """Take note of a bundle of plain reads all at once, if that is possible: most accesses are of this kind."""
        access = step.access
        assert access is not None
        reached, base, elements = self.memory.last_read
        if (
            reached is not addresses
            or access.effect is not Effect.READ
            or self.between.orders[step.first.position].strong
        ):
            return False
        if live_bytes(self.lowered, step.operations) is not None:
            return False
        users = self._of(base, self.memory.data(base)).readers_of(access.width, self.unit)
        use(users, elements, self._threads(state, clocks)[lanes])
        return True

    def _threads(self, state: WaveState, clocks: Clocks) -> Array:
        if self._wave != clocks.number:
            self._wave, self._numbers = clocks.number, _numbers(state)
        return self._numbers

    def accessed(self, state: WaveState, clocks: Clocks, step: Bundle[Any], touch: Touch) -> None:
        """An operation of a bundle accessed memory."""
        del step
        operation = touch.operation
        order = self.between.orders[operation.position]
        if order.strong and self.between.synchronises:
            self._note_flags(state, touch)
        if touch.space is not Space.GLOBAL:
            return
        assert operation.access is not None
        kind = _KINDS[operation.access.effect]
        threads = self._threads(state, clocks)[touch.lanes]
        for base, data, these in self.memory.parts(touch.addresses):
            users = self._of(base, data)
            mine = touch.addresses if these is None else touch.addresses[these]
            self._use(users, operation, kind, order.strong, threads if these is None else threads[these],
                      (mine - np.uint64(base)).view(np.int64))  # fmt: skip
            if kind is Kind.UPDATE and self._has_block_scope:
                own = threads if these is None else threads[these]
                users.update_by_block((mine - np.uint64(base)).view(np.int64) >> SHIFT[self.unit],
                                      (own - 1) // state.wave.threads + 1)  # fmt: skip

    def attach(self, clocks: Clocks) -> None:
        """A wave begins."""

    def writers(self, base: int) -> Array:
        """Who wrote each ``unit`` bytes of an allocation: 0 nobody, a thread's number plus one, −1 several."""
        return self._users[base].writer if base in self._users else np.zeros(0, np.int32)

    def fence(self, state: WaveState, clocks: Clocks, operation: Operation[Any], lanes: Lanes) -> None:
        """A fence orders nothing that this look asks for."""

    def _of(self, base: int, data: Array) -> Users:
        if base not in self._users:
            units = data.size // self.unit
            self._users[base] = Users(lazy_zeros(units * 4).view(np.int32), lazy_zeros(units).view(bool),
                                       lazy_zeros(units).view(bool))  # fmt: skip
        return self._users[base]

    def _use(self, users: Users, operation: Operation[Any], kind: Kind, strong: bool, thread: Array,
             offsets: Array) -> None:  # fmt: skip
        assert operation.access is not None
        width = operation.access.width
        parts = live_parts(self.lowered, operation, self.unit) if kind is Kind.READ else None
        if kind is Kind.READ and not strong and parts is None:
            use(users.readers_of(width, self.unit), offsets >> SHIFT[width], thread)
            return
        units = offsets >> SHIFT[self.unit]
        if width > self.unit:
            each = np.arange(width // self.unit) if parts is None else parts
            units, thread = (units[:, None] + each).reshape(-1), np.repeat(thread, each.size)
        if strong:
            if kind is not Kind.READ:
                users.strong_write[units] = True
            if kind is not Kind.WRITE:
                users.strong_read[units] = True
        elif kind is Kind.READ:
            use(users.readers_of(self.unit, self.unit), units, thread)
        else:
            use(users.writer, units, thread)

    def _note_flags(self, state: WaveState, touch: Touch) -> None:
        """Remember where strong reads take their results from, and where strong writes of shared memory go."""
        operation, access = touch.operation, touch.operation.access
        assert access is not None
        codes = flag_codes(state, touch.space, touch.lanes, touch.addresses)
        reads = access.effect is not Effect.WRITE and any(cell in self.between.used for cell in operation.writes())
        if reads:
            self._polled.update(np.unique(codes).tolist())
        if access.effect is not Effect.READ and touch.space is Space.SHARED:
            self._shared_writes.update(np.unique(codes).tolist())
        if self.between.polls_global and len(self._flag_warps) <= _MOST_FLAGS:
            lanes = state.indices(touch.lanes)
            users = (codes, state.wave.blocks[state.block[lanes]], state.thread[lanes] // WARP)
            for code, block, warp in set(zip(*(each.tolist() for each in users), strict=True)):
                if self._flag_warps.setdefault((code, block), warp) != warp:
                    self._shared_flags.add(code)

    def waits_within_blocks(self) -> bool:
        """Whether warps of one block may wait for one another through memory."""
        return len(self._flag_warps) > _MOST_FLAGS or not self._shared_flags.isdisjoint(self.flags())

    # -- what the second look must look at ------------------------------------------------------------

    def suspects(self) -> dict[int, Array]:
        """By allocation, which locations were written and used by another thread as well."""
        found: dict[int, Array] = {}
        for base, users in self._users.items():
            hot = np.zeros(0, bool)
            for start, stop in self.memory.written_ranges(base):
                these = slice(start // self.unit, stop // self.unit)
                bad = self._suspicious(users, these)
                if bad.any():
                    if not hot.size:
                        hot = lazy_zeros(users.writer.size).view(bool)
                    hot[these] = bad
            if hot.size:
                found[base] = hot
        return found

    def _suspicious(self, users: Users, these: slice) -> Array:
        writer = users.writer[these]
        written, strong_write = writer != 0, users.strong_write[these]
        bad: Array = (writer == MANY) | (written & (strong_write | users.strong_read[these]))
        if users.updating_blocks is not None:
            bad |= users.updating_blocks[these] == MANY
        for width, readers in users.readers.items():
            ratio = width // self.unit
            reader = np.repeat(readers[these.start // ratio : -(-these.stop // ratio)], ratio)
            reader = reader[these.start % ratio :][: writer.size]
            bad |= (reader != 0) & ((written & (reader != writer)) | strong_write)
        return bad

    def flags(self) -> frozenset[int]:
        """The addresses that threads may synchronise through: written and read by strong accesses."""
        found = self._polled & self._shared_writes
        for code in self._polled:
            base = located[0] if (located := self.memory.locate(code, 1)) is not None else -1
            if base in self._users and self._users[base].strong_write[(code - base) // self.unit]:
                found.add(code)
        return frozenset(found)


def _numbers(state: WaveState) -> Array:
    """The threads of a wave, numbered through the grid from one."""
    return (state.wave.blocks[state.block] * state.wave.threads + state.thread + 1).astype(np.int32)


class SecondLook:
    """Every access to suspicious locations of one launch, and the races among them.

    If there are too many accesses, half of the locations are left out, and so on: those that stay have all of theirs.
    """

    def __init__(
        self, first: FirstLook, hot: dict[int, Array], log: HazardLog, grid_barrier: GridBarrier | None = None
    ) -> None:
        self.lowered, self.memory, self.unit, self.between = first.lowered, first.memory, first.unit, first.between
        self.hot, self.log = hot, log
        self.flags = Flags(first.between, first.flags(), grid_barrier)
        self._events: list[Event] = []
        self._parts: list[Accesses] = []
        self._size = 0
        self._stride = 1

    def read(self, state: WaveState, clocks: Clocks, step: Bundle[Any], lanes: Lanes, addresses: Array) -> bool:
        """No reads are taken note of all at once here."""
        del state, clocks, step, lanes, addresses
        return False

    def accessed(self, state: WaveState, clocks: Clocks, step: Bundle[Any], touch: Touch) -> None:
        """An operation of a bundle accessed memory."""
        if touch.space is Space.GLOBAL:
            self._write_down(state, clocks, step, touch)
        if self.between.orders[touch.operation.position].strong:
            codes = flag_codes(state, touch.space, touch.lanes, touch.addresses)
            self.flags.access(clocks, touch.operation, state.indices(touch.lanes), codes, len(self._events) - 1)

    def attach(self, clocks: Clocks) -> None:
        """A wave begins."""
        clocks.before_barrier = lambda lanes: self.flags.barrier(clocks, lanes)

    def fence(self, state: WaveState, clocks: Clocks, operation: Operation[Any], lanes: Lanes) -> None:
        self.flags.fence(clocks, operation, state.indices(lanes))

    def _write_down(self, state: WaveState, clocks: Clocks, step: Bundle[Any], touch: Touch) -> None:
        operation, access = touch.operation, touch.operation.access
        lanes, addresses = state.indices(touch.lanes), touch.addresses
        assert access is not None
        kind = _KINDS[access.effect]
        parts = live_parts(self.lowered, operation, self.unit) if kind is Kind.READ else None
        each = np.arange(max(1, access.width // self.unit)) if parts is None else parts
        for base, _, these in self.memory.parts(addresses):
            if base not in self.hot:
                continue
            mine = lanes if these is None else lanes[these]
            at = addresses if these is None else addresses[these]
            units = ((at - np.uint64(base)).view(np.int64) >> SHIFT[self.unit])[:, None] + each
            keep = self.hot[base][units]
            if self._stride > 1:
                keep &= units % self._stride == 0
            if not keep.any():
                continue
            value = np.zeros(units.shape, np.int64)
            if kind is Kind.WRITE:
                written = _values(state, step, touch.row, lanes, self.unit)
                value = (written if these is None else written[these]).astype(np.int64)
            order = self.between.orders[operation.position]
            event = Event(operation, kind, order.strong, clocks.now(), state.time, len(state.trail),
                          kind is Kind.UPDATE and order.block_only)  # fmt: skip
            row = np.broadcast_to(mine[:, None], units.shape)[keep]
            self._parts.append(Accesses(units[keep] + base // self.unit, row.astype(np.int64),
                                        np.full(row.size, len(self._events), np.int64), value[keep]))  # fmt: skip
            self._events.append(event)
            self._size += row.size
            if self._size > _MOST_ACCESSES:
                self._thin()

    def _thin(self) -> None:
        """Leave out every second location."""
        self._stride *= 2
        found = Accesses.joined(self._parts)
        keep = found.unit % self._stride == 0
        self._parts = [Accesses(found.unit[keep], found.lane[keep], found.event[keep], found.value[keep])]
        self._size = int(keep.sum())

    def finish(self) -> None:
        """The launch has ended: look for races."""
        if not self._parts:
            return
        search = PairSearch(self._events, Accesses.joined(self._parts), None, set(), self.flags.writes)
        for pair in search.pairs():
            (one, lane), (two, other) = pair.first, pair.second
            blocks = one.moment.state.block_name(lane), two.moment.state.block_name(other)
            address = pair.unit * self.unit
            apart = blocks[0] != blocks[1]
            waited = ordered(one.moment, np.array([lane]), two.moment, np.array([other]), fenced=False).any()
            remedy = SCOPE_REMEDY if apart and (one.in_block or two.in_block) else FENCE_REMEDY if waited else ""
            self.log.add(pair.rank, Hazard(pair.kind, address, blocks[0], _side(one, lane, apart),
                                           _side(two, other, apart), pair.across_warps, self.memory.place(address),
                                           apart, remedy=remedy))  # fmt: skip


def _values(state: WaveState, step: Bundle[Any], n: int, lanes: Array, unit: int) -> Array:
    """What the n-th operation of a bundle of stores wrote, by lane and location."""
    assert step.access is not None
    columns = []
    for source in step.sources:
        found = np.asarray(state.fetch(source, lanes))
        found = found[n] if found.ndim == 2 else found
        columns.append(np.broadcast_to(found, lanes.shape))
    joined = np.ascontiguousarray(np.stack(columns, axis=-1))
    return joined.view(np.uint8).reshape(lanes.size, -1).view(RAW[unit])


def _side(event: Event, lane: int, apart: bool) -> Side:
    i, state = event.operation.instruction, event.moment.state
    who = f"thread {state.thread_name(lane)}"
    if apart:
        who += f" of block {state.block_name(lane)}"
    return Side(event.operation.traits.verb, i.where, i.text, who, spot(state, event.operation, lane, event.turn))


Look = FirstLook | SecondLook


def watched(lowered: Lowered) -> frozenset[int]:
    """The positions of operations that a look wants to see: accesses to global memory, strong ones, and fences."""
    between = lowered.fact(shared_between_threads)
    return frozenset(_watched(lowered.operations, between))


def _watched(operations: Iterable[Operation[Any]], between: SharedBetweenThreads) -> Iterable[int]:
    for operation in operations:
        order, access = between.orders[operation.position], operation.access
        spaces = (Space.GLOBAL, Space.GENERIC)
        reaches = access is not None and (access.space in spaces or access.effect is Effect.COPY)
        if order.fence or order.strong or reaches:
            yield operation.position


def touches(state: WaveState, step: Bundle[Any], lanes: Lanes, space: Space, addresses: Array) -> Iterable[Touch]:
    """What the operations of a bundle touched. An asynchronous copy reads global memory, where it is not cut short."""
    access = step.access
    assert access is not None
    if isinstance(step.detail, Footprint):
        for mine, at in step.detail.touched(state):
            yield Touch(step.first, 0, Space.GLOBAL, mine, at)
        return
    if access.effect is not Effect.COPY:
        for row, (operation, at) in enumerate(zip(step.operations, addresses.reshape(step.count, -1), strict=True)):
            yield Touch(operation, row, space, lanes, at)
        return
    mine = state.indices(lanes)
    source = state.addresses(step.pointers[1], lanes, step.count).reshape(step.count, -1)
    size = np.broadcast_to(step.detail.size(state.fetch(step.sources[0], lanes), access.width), source.shape)
    for row, operation in enumerate(step.operations):
        whole = size[row] == access.width
        yield Touch(operation, row, Space.GLOBAL, mine[whole], source[row][whole])
