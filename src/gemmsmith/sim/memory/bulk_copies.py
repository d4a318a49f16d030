"""Copies that TMA makes: they read and write when the program lets them, not when they are issued.

With ``late_copies`` a load lands when no thread can go on without it, and a store reads its source when its group is
waited for; otherwise both happen at once. A kernel that waits correctly cannot tell the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import single
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.faults import describe_fault
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.lowering.traits import Access, Effect, Space
from gemmsmith.sim.memory.access_faults import AccessFault
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.async_hazards import INIT_FENCE, WAIT_READ, ProxyFences, side
from gemmsmith.sim.races.clocks import Clock, ordered
from gemmsmith.sim.races.copy_waits import TOO_FEW, CopyWaits
from gemmsmith.sim.races.hazards import WAIT_PHASE, Hazard, HazardKind
from gemmsmith.sim.races.shadow_records import Landing
from gemmsmith.sim.waits.mbarriers import BYTES, MBarriers

_BARRIER = Access(Space.SHARED, Effect.UPDATE, BYTES, BYTES, BYTES)


@dataclass
class Store:
    """A copy out of shared memory by one lane: ``read`` fetches its source, ``write`` writes what that returned.

    ``source`` are the byte positions of its 16-byte chunks.
    """

    operation: Operation[Any]
    lane: int
    group: int
    source: Array
    read: Callable[[], Array]
    write: Callable[[Array], None]
    data: Array | None = None
    done: bool = False
    waited: bool = False  # at least for its source to be read

    def fetch(self) -> Array:
        if self.data is None:
            self.data = self.read()
        return self.data


@dataclass(frozen=True)
class Load:
    """A copy into shared memory: ``read`` fetches its source, ``write`` writes it; then bytes have landed.

    ``lanes`` issue it. ``targets`` are the byte positions of what each writes, ``width`` bytes at a time, and
    ``barriers`` those of the mbarriers that count ``nbytes`` each, ``parts`` times.
    """

    operation: Operation[Any]
    lanes: Array
    targets: Array
    width: int
    read: Callable[[], Array]
    write: Callable[[Array], None]
    barriers: Array
    nbytes: int
    parts: int = 1  # copies of lanes of a warp, of one size and at one mbarrier, that are made together

    def lane_of(self, index: int) -> int:
        """Who writes a position; the first lane for one that nobody writes."""
        return int(self.lanes[int(np.argmax((self.targets <= index) & (index < self.targets + self.width)))])


class BulkCopies:
    """The copies in flight of one wave, and each lane's count of committed groups of stores."""

    def __init__(self, machine: Execution) -> None:
        self.machine = machine
        self.committed = np.zeros(machine.wave.lanes, np.int64)
        self.stores: list[Store] = []
        self.flying: list[Load] = []  # into shared memory
        self._landings: list[tuple[Load, Landing]] = []
        machine.at_end.append(self._end)
        # By the position of an instruction: the mbarriers of its copies; and those whose phase ended before the copy.
        self._barriers: dict[int, set[int]] = {}
        self._left_behind: set[int] = set()
        self._phases: list[tuple[Load, dict[int, int]]] = []  # of the copies in flight when they were issued
        if machine.shadow is not None:
            machine.shadow.why_in_flight = self._why_in_flight

    # -- into shared memory -----------------------------------------------------------------------

    def load(self, copy: Load) -> None:
        landing, released = self._issued(copy)
        phases = {} if self.machine.shadow is None else self.machine.unit(MBarriers).phases(copy.barriers)
        if self.machine.at_once():
            self._land(copy, landing, released, phases)
        else:
            self.flying.append(copy)
            self._phases.append((copy, phases))
            self.machine.postponed.append(lambda: self._land_late(copy, landing, released, phases))

    def _land_late(self, copy: Load, landing: Landing | None, released: Clock | None, issued: dict[int, int]) -> None:
        """Where nobody executes the instruction any more: a fault is still the copy's."""
        try:
            self._land(copy, landing, released, issued)
        except AccessFault as fault:
            fault.position = 0
            raise describe_fault(self.machine, single(copy.operation, 0), copy.lanes[:1], fault) from None

    def _issued(self, copy: Load) -> tuple[Landing | None, Clock | None]:
        """Tell the race detector: the copy is a write of its threads that others see through the mbarrier."""
        machine, shadow = self.machine, self.machine.shadow
        if shadow is None:
            return None, None
        lanes = np.unique(copy.lanes)
        counted = replace(copy.operation, access=_BARRIER, pointers=())  # not the address of what it writes
        fences = machine.unit(ProxyFences)
        # cuda::memcpy_async with a cuda::barrier is documented to need no fence: that is between the library's parts.
        own = "memcpy_async" not in copy.operation.instruction.library
        for place in np.unique(copy.barriers):
            # A copy by one lane may count at several mbarriers; of st.async, each lane has its own.
            one = lanes[:1] if copy.barriers.size != copy.lanes.size else copy.lanes[copy.barriers == place][:1]
            one = lanes if copy.parts > 1 else one
            there = np.full(one.size, place)
            if own:
                fences.look(copy.operation, int(one[0]), np.array([place]), BYTES, INIT_FENCE)
            machine.unit(MBarriers).check_visible(copy.operation, one, there)
            shadow.atomic(counted, one, there)
        fences.overwritten(copy.operation, copy.lanes, copy.targets, copy.width)
        shadow.copy_issued(copy.operation, copy.lanes, copy.targets)
        landing = shadow.landing()
        moment = shadow.arrive(lanes)
        clock: Clock | None = None
        for block in np.unique(machine.block[lanes]):
            known = machine.clocks.known(moment, lanes[machine.block[lanes] == block])
            clock = known if clock is None else clock.joined(known)
        if machine.wave.cluster_blocks > 1:
            self._landings.append((copy, landing))
        return landing, clock

    def _why_in_flight(self, position: int) -> str:
        """Whether a phase ended before a copy that was issued in it, or nobody expects what the copy brought."""
        for copy, issued in self._phases:
            self._look_at_phases(copy, issued)
        barriers = self.machine.unit(MBarriers)
        unexpected = any(barriers.expected_bytes(place) < 0 for place in self._barriers.get(position, ()))
        return TOO_FEW if unexpected or position in self._left_behind else ""

    def _look_at_phases(self, copy: Load, issued: dict[int, int]) -> None:
        position, current = copy.operation.position, self.machine.unit(MBarriers).phases(copy.barriers)
        self._barriers.setdefault(position, set()).update(current)
        if any(phase < current[place] for place, phase in issued.items()):
            self._left_behind.add(position)

    def _land(self, copy: Load, landing: Landing | None, released: Clock | None, issued: dict[int, int]) -> None:
        self.flying = [other for other in self.flying if other is not copy]
        self._phases = [each for each in self._phases if each[0] is not copy]
        if self.machine.moves_data:
            copy.write(copy.read())
        if self.machine.shadow is not None:
            self.machine.shadow.copy_waited(copy.lanes, copy.targets, copy.width, landing)
            phases = self.machine.unit(MBarriers).phases(copy.barriers)
            self._look_at_phases(copy, issued)
            self.machine.unit(CopyWaits).landed(copy.operation, copy.lane_of, copy.targets, phases)
        self.machine.unit(MBarriers).landed(
            copy.barriers, np.full(copy.barriers.size, copy.nbytes), released, copy.parts
        )

    def flying_to(self, index: int) -> str:
        """The copy in flight that is to write a position, in words; '' if there is none."""
        for copy in self.flying:
            if ((copy.targets <= index) & (index < copy.targets + copy.width)).any():
                i = copy.operation.instruction
                thread = self.machine.thread_name(copy.lane_of(index))
                return (f"the {copy.operation.traits.verb} at {i.where} by thread {thread} is still in flight; "
                        f"{WAIT_PHASE}")  # fmt: skip
        return ""

    # -- out of shared memory ---------------------------------------------------------------------

    def store(self, copy: Store) -> None:
        machine = self.machine
        if not machine.moves_data:
            return
        if machine.shadow is not None:
            fences = machine.unit(ProxyFences)
            fences.look(copy.operation, copy.lane, copy.source, 16)
            fences.begin(id(copy), copy.operation, copy.lane, copy.source)
            self._touch(copy)
        if machine.at_once():
            copy.write(copy.fetch())
            copy.done = True
        if machine.late_copies or machine.shadow is not None:
            self.stores.append(copy)

    def _touch(self, copy: Store) -> None:
        """The store may read its source now."""
        if self.machine.shadow is not None:
            self.machine.shadow.read(copy.operation, np.full(copy.source.size, copy.lane), copy.source)

    def commit(self, lanes: Array) -> None:
        self.committed[lanes] += 1

    def wait(self, lanes: Array, allowed: int, only_read: bool) -> None:
        """Finish what these lanes committed, except their last ``allowed`` groups; or let it only be read."""
        waits = np.zeros(self.committed.size, bool)
        waits[lanes] = True
        waited = [s for s in self.stores if waits[s.lane] and s.group < self.committed[s.lane] - allowed]
        for store in waited:
            self._was_read(store)
        if not only_read:
            self._finish(waited)

    def _was_read(self, store: Store) -> None:
        store.fetch()
        store.waited = True
        self._touch(store)
        if self.machine.shadow is not None:
            self.machine.unit(ProxyFences).end(id(store))

    def _finish(self, stores: list[Store]) -> None:
        left = [store for store in stores if not store.done]
        while left:
            store = left.pop(self.machine.completes(len(left)))
            store.write(store.fetch())
        gone = {id(store) for store in stores}
        self.stores = [store for store in self.stores if id(store) not in gone]

    # -- the end of the kernel --------------------------------------------------------------------

    def _end(self) -> None:
        for store in self.stores:
            if store.data is None:
                self._touch(store)
            if self.machine.log is not None and not store.waited:
                self._report_unread(store)
        self._finish(self.stores)
        for copy, landing in self._landings:
            self._check_ended(copy, landing)

    def _report_unread(self, store: Store) -> None:
        """The block ends, and a store may still read its shared memory. An H200 keeps that memory until it was read
        (benchmarks/micro/ended_store.cu), which is written nowhere."""
        machine = self.machine
        assert machine.log is not None
        first, name = side(machine, store.operation, store.lane), machine.block_name(store.lane)
        machine.log.add((0, store.operation.position), Hazard(
            HazardKind.UNREAD_AT_END, 0, name, first, replace(first, verb="end of the block", thread=f"block {name}"),
            across_warps=False, place="shared memory", remedy=f"{WAIT_READ} by CUDA's guide; an H200 keeps the "
            "memory of an ended block until its stores have read it"))  # fmt: skip

    def _check_ended(self, copy: Load, landing: Landing) -> None:
        """Some thread of each block that a copy writes to must have waited for it, or the block may have ended."""
        machine = self.machine
        now, lane = machine.clocks.now(), int(copy.lanes[0])
        for block in np.unique(copy.targets // machine.shared.stride).tolist():
            there = np.flatnonzero(machine.block == block)
            if block == machine.block[lane] or ordered(landing.moment, np.full(there.size, lane), now, there).any():
                continue
            assert machine.log is not None
            end = side(machine, copy.operation, lane)
            machine.log.add((0, copy.operation.position), Hazard(
                HazardKind.ENDED_BLOCK, 0, machine.block_name(int(there[0])), end,
                replace(end, verb="end of the block", thread=f"block {machine.block_name(int(there[0]))}"),
                across_warps=True, place="shared memory", remedy="a thread of the block must wait for the copy, or for "
                "the whole cluster, before the block ends"))  # fmt: skip
            return


def chunk_lanes(lane: int, targets: list[Array]) -> Array:
    """The lane, once for each chunk."""
    return np.full(sum(t.size for t in targets), lane)
