"""The mbarrier objects of a wave's shared memory: arrivals, phases, and what a phase orders.

PTX leaves the 64 bits of an object open. Here the low 20 are the arrivals that the current phase still lacks, the next
20 those that a phase expects, and the others the number of the phase. ``mbarrier.arrive`` returns these bits as they
were before the arrival. The bytes that a phase still expects (its transactions) are kept beside them. A phase is
complete when it lacks neither arrivals nor bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.lowering.traits import Space
from gemmsmith.sim.memory.access_faults import AccessFault, LaneFault, Unwritten
from gemmsmith.sim.memory.global_memory import RAW
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.async_hazards import side
from gemmsmith.sim.races.clocks import Clock, Moment, ordered
from gemmsmith.sim.races.copy_waits import CopyWaits
from gemmsmith.sim.races.hazards import Hazard, HazardKind

BYTES = 8
MOST = (1 << 20) - 1  # arrivals
_FIELD = np.uint64(MOST)
_EXPECTED, _PHASE = np.uint64(20), np.uint64(40)
_PHASES = 4  # of an object, whose order is kept: most waits are for the last one
_COUNTS = np.uint64((1 << 40) - 1)  # the bits of both counts


def state(pending: int | Array, expected: int | Array, phase: int | Array) -> Array:
    """The bits of an object."""
    parts = (np.asarray(x, np.uint64) for x in (pending, expected, phase))
    low, middle, high = parts
    result: Array = low | middle << _EXPECTED | high << _PHASE
    return result


def pending_count(bits: Array) -> Array:
    """Arrivals that a phase lacked."""
    return (bits & _FIELD).astype(np.uint32)


def expected_count(bits: Array) -> Array:
    return (bits >> _EXPECTED & _FIELD).astype(np.int64)


def phase_number(bits: Array) -> Array:
    return (bits >> _PHASE).astype(np.int64)


INIT_CLUSTER = (
    "fence.mbarrier_init by the initialising thread, then barrier.cluster by both blocks, must come between them"
)


class MBarriers:
    """Objects are named by their byte position in the wave's shared memory."""

    def __init__(self, machine: Execution) -> None:
        self.machine = machine
        # What arrivals released: those of the current phase; those of each of the last phases, with all before it.
        self._released: dict[int, Clock] = {}
        self._completed: dict[int, list[tuple[int, Clock]]] = {}
        # Who initialised an object, and when: of clusters, if races are looked for.
        self._inits: dict[int, tuple[Operation[Any], Moment, int]] = {}
        # By lane: what its initialisations release, and what a fence.mbarrier_init made of them.
        self._unfenced: dict[int, Clock] = {}
        self._fenced: dict[int, Clock] = {}
        self._bytes: dict[int, int] = {}  # that the current phase still expects; below 0 if they came early
        # By object: how many phases had ended when each lane last waited for one, if races are looked for.
        self._ended: dict[int, Array] = {}
        # The wait that each lane was last told to repeat, by its position in the program.
        self.repeated = np.full(machine.wave.lanes, -1, np.int64)
        # Where the objects of the step that asked last are: step, lanes, time, addresses, lane numbers, positions.
        self.located: tuple[Bundle[Any], Lanes, int, tuple[Space, Array], Array, Array] | None = None
        self._changes = 0  # phases that ended, and objects that were initialised
        # By the identity of lanes that wait: at which step, and how many changes there were when none could go on.
        self._refused: dict[int, tuple[Lanes, Bundle[Any], int, Array]] = {}

    def refused_before(self, step: Bundle[Any], lanes: Lanes) -> Array | None:
        """The answer "none" to lanes that wait, if no phase has ended since they got it; they ask at every arrival."""
        known = self._refused.get(id(lanes))
        if known is None or known[0] is not lanes or known[1] is not step or known[2] != self._changes:
            return None
        return known[3]

    def refuse(self, step: Bundle[Any], lanes: Lanes, answer: Array) -> None:
        """Keep the answer; not where races are looked for, which an object may be part of."""
        if self.machine.log is None:
            self._refused[id(lanes)] = lanes, step, self._changes, answer

    def asked_again(self, lanes: Lanes) -> None:
        """These lanes execute their wait, and may wait for another object next."""
        self._refused.pop(id(lanes), None)

    def initialise(self, index: Array, counts: Array) -> None:
        """Set objects to phase 0; a count of 0 makes them invalid."""
        self._changes += 1
        self.machine.shared.scatter(index, BYTES, state(counts, counts, 0).view(RAW[BYTES]))
        for place in np.unique(index).tolist():
            self._released.pop(place, None)
            self._completed.pop(place, None)
            self._bytes.pop(place, None)
            self._ended.pop(place, None)

    def initialised(self, operation: Operation[Any], lanes: Array, index: Array) -> None:
        """These lanes have initialised objects: other blocks of the cluster may not know yet."""
        if self.machine.log is None:
            return
        if self.machine.wave.cluster_blocks > 1:
            now = self.machine.clocks.now()
            self._inits.update({place: (operation, now, lane)
                                for place, lane in zip(index.tolist(), lanes.tolist(), strict=True)})  # fmt: skip
        if self.machine.shadow is not None:
            moment = self.machine.shadow.arrive(lanes)
            for lane in lanes.tolist():
                self._unfenced[lane] = self.machine.clocks.known(moment, np.array([lane]))

    def fence(self, lanes: Array) -> None:
        """These lanes execute fence.mbarrier_init, which releases their initialisations and nothing else."""
        for lane in self._unfenced.keys() & set(lanes.tolist()) if self._unfenced else ():
            clock = self._unfenced.pop(lane)
            self._fenced[lane] = clock.joined(self._fenced.get(lane, clock))

    def fenced(self, lanes: Array) -> list[tuple[int, Clock]]:
        """Those of the lanes whose initialisations are released, and the clocks that tell of them."""
        return [(lane, self._fenced[lane]) for lane in sorted(self._fenced.keys() & set(lanes.tolist()))]

    def check_visible(self, operation: Operation[Any], lanes: Array, index: Array) -> None:
        """Lanes of another block than an object's must come after its initialisation."""
        if not self._inits:
            return
        machine = self.machine
        for place in np.unique(index).tolist():
            users = np.unique(lanes[index == place])
            users = users[machine.block[users] != place // machine.shared.stride]
            if not users.size or place not in self._inits:
                continue
            by, moment, lane = self._inits[place]
            unaware = users[~ordered(moment, np.full(users.size, lane), machine.clocks.now(), users)]
            if unaware.size:
                assert machine.log is not None
                machine.log.add((0, by.position, operation.position), Hazard(
                    HazardKind.READ_AFTER_WRITE, place % machine.shared.stride, machine.block_name(lane),
                    side(machine, by, lane), side(machine, operation, int(unaware[0])), across_warps=True,
                    across_blocks=True, remedy=INIT_CLUSTER))  # fmt: skip

    def load(self, index: Array) -> Array:
        """The states of valid objects."""
        try:
            found: Array = self.machine.shared.gather(index, BYTES).view(np.uint64)
        except Unwritten as fault:  # no value can stand for an object that another thread may yet initialise
            first = int(np.argmax(self.machine.block == fault.index // self.machine.shared.stride))
            block = self.machine.block_name(first)
            detail = f"{fault.detail}: the mbarrier there, in block {block}, is not initialised"
            raise AccessFault(fault.kind, fault.position, fault.address, detail, fault.space) from None
        invalid = found & _COUNTS == 0
        if invalid.any():
            place = int(np.argmax(invalid))
            raise LaneFault(place, "mbarrier at shared address "
                            f"{int(index[place]) % self.machine.shared.stride:#x} is not initialised")  # fmt: skip
        return found

    def add(self, index: Array, count: int) -> None:
        """Each phase that is current needs ``count`` arrivals more, for each time that an object is named."""
        self.load(index)
        for place, times in zip(*(x.tolist() for x in np.unique(index, return_counts=True)), strict=True):
            pending, expected, phase = self._parts(place)
            self._store(place, pending + count * times, expected, phase)

    def arrive(
        self,
        lanes: Array,
        index: Array,
        counts: Array,
        moment: Moment | None,
        drop: bool = False,
        completes: bool = True,
    ) -> Array:
        """Arrivals, in the order of lanes; the state that each found.

        ``moment``: when they arrived, if races are looked for.
        ``drop``: the phases after this one expect so many arrivals less. ``completes``: whether a phase may end.
        """
        self.load(index)
        found = np.zeros(lanes.size, np.uint64)
        order = np.argsort(index, kind="stable")
        places, starts = np.unique(index[order], return_index=True)
        for place, members in zip(places.tolist(), np.split(order, starts[1:]), strict=True):
            while members.size:
                members = self._some(place, members, counts, found, lanes, moment, drop, completes)
        self.machine.progress += 1
        return found

    def _some(self, place: int, members: Array, counts: Array, found: Array, lanes: Array, moment: Moment | None,
              drop: bool, completes: bool) -> Array:  # fmt: skip
        """The arrivals that belong to the current phase; returns the others."""
        pending, expected, phase = self._parts(place)
        sums = np.cumsum(counts[members].astype(np.int64))
        here = int(np.searchsorted(sums, pending, side="right"))
        if here == 0 or (here < members.size and int(sums[here - 1]) != pending):
            at = int(members[min(here, members.size - 1)])
            lacks, flying = pending - (int(sums[here - 1]) if here else 0), self._bytes.get(place, 0)
            early = (f" and waits for {flying} bytes: this arrival is meant for the next phase; a wait for the end of "
                     f"phase {phase} must come first") if not lacks and flying > 0 else ""  # fmt: skip
            race = self.machine.before_the_end()
            raise LaneFault(at, f"{int(counts[at])} arrivals at an mbarrier whose phase lacks {lacks}{early}{race}")
        mine, total = members[:here], int(sums[here - 1])
        if total == pending and not completes:
            raise LaneFault(int(mine[-1]), "an arrival with .noComplete completes the phase of its mbarrier")
        before = sums[:here] - counts[mine]
        gone = before if drop else 0
        found[mine] = state(pending - before, expected - gone, phase)
        if moment is not None:
            new = self.machine.clocks.known(moment, lanes[mine])
            self._released[place] = new.joined(self._released.get(place, new))
        expected -= total if drop else 0
        self._store(place, pending - total, expected, phase)
        self._complete(place)
        return members[here:]

    def _complete(self, place: int) -> None:
        """End the phase if it lacks nothing."""
        pending, expected, phase = self._parts(place)
        if pending or self._bytes.get(place, 0):
            return
        self._store(place, expected, expected, phase + 1)
        self._changes += 1
        if self.machine.recorder is not None:
            self.machine.recorder.completes(self.machine, place, phase)
        if place in self._released:
            released, ended = self._released.pop(place), self._completed.setdefault(place, [])
            ended.append((phase, released.joined(ended[-1][1]) if ended else released))
            del ended[:-_PHASES]

    def expect(self, index: Array, nbytes: Array) -> None:
        """The current phases expect so many bytes more."""
        self.load(index)
        for n, place in enumerate(index.tolist()):
            self._count(n, place, int(nbytes[n]))

    def landed(self, index: Array, nbytes: Array, clock: Clock | None = None, parts: int = 1) -> None:
        """So many bytes have landed, ``parts`` times; ``clock``: what those who wait for them learn, if races are
        looked for."""
        self.load(index)
        first: dict[int, int] = {}
        totals: dict[int, int] = {}
        for lane, (place, count) in enumerate(zip(index.tolist(), nbytes.tolist(), strict=True)):
            first.setdefault(place, lane)
            totals[place] = totals.get(place, 0) + int(count)
        for place, total in sorted(totals.items()):
            if clock is not None:
                self._released[place] = clock.joined(self._released.get(place, clock))
            # A phase that lacks bytes alone may end between two of the parts.
            apart = parts if parts > 1 and self._parts(place)[0] == 0 else 1
            for _ in range(apart):
                self._count(first[place], place, -total * parts // apart)
                self._complete(place)
        self.machine.progress += 1

    def _count(self, lane: int, place: int, nbytes: int) -> None:
        total = self._bytes.get(place, 0) + nbytes
        if abs(total) > MOST:
            raise LaneFault(lane, f"an mbarrier's phase expects {total:,} bytes: at most {MOST:,} either way")
        self._bytes[place] = total

    def phases(self, index: Array) -> dict[int, int]:
        """The numbers of the current phases, by position."""
        return {place: self._parts(place)[2] for place in np.unique(index).tolist()}

    def expected_bytes(self, place: int) -> int:
        """Bytes that the current phase still expects."""
        return self._bytes.get(place, 0)

    def acquire(self, lanes: Array, index: Array, phases: Array) -> None:
        """These lanes have waited for the end of these phases. What arrived later orders nothing for them, even if it
        was there."""
        shadow = self.machine.shadow
        if shadow is None:
            return
        for place in np.unique(index).tolist():
            mine, waited = lanes[index == place], phases[index == place]
            for number in np.unique(waited).tolist() if place in self._completed else ():
                shadow.acquire(mine[waited == number], self._until(place, number))
            phase = self._parts(place)[2]
            self._ended.setdefault(place, np.zeros(self.machine.wave.lanes, np.int64))[mine] = phase
            self.machine.unit(CopyWaits).waited(place, phase, mine)

    def _until(self, place: int, phase: int) -> Clock:
        """What the arrivals released until the end of a phase; of one long ago, until the first that is kept."""
        ended = self._completed[place]
        return next((clock for number, clock in reversed(ended) if number <= phase), ended[0][1])

    def passed_over(self, place: int, lane: int) -> str:
        """In words: the phases that ended since a lane last waited, if it now waits for a later one."""
        ended, phase = self._ended.get(place), self._parts(place)[2]
        known = 0 if ended is None else int(ended[lane])
        if self.machine.shadow is None or phase < known + 2:
            return ""
        return (f"; phases {known} to {phase - 1} ended, and this thread waited for none of them: those who arrive "
                "must first wait for this thread (a barrier, or an mbarrier that it arrives at)")  # fmt: skip

    def note(self, operation: Operation[Any], lanes: Array, index: Array) -> None:
        """Tell the race detector of an atomic access to the objects."""
        if self.machine.shadow is not None:
            self.check_visible(operation, lanes, index)
            self.machine.shadow.atomic(operation, lanes, index)

    def _parts(self, place: int) -> tuple[int, int, int]:
        bits = int(self.machine.shared.data.view(np.uint64)[place // BYTES])
        return bits & MOST, bits >> 20 & MOST, bits >> 40

    def _store(self, place: int, pending: int, expected: int, phase: int) -> None:
        bits = pending | expected << 20 | phase % (1 << 24) << 40
        self.machine.shared.data.view(np.uint64)[place // BYTES] = bits
