"""The numbered barriers of blocks at which some threads meet: bar.sync, bar.arrive and bar.red with a count."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gemmsmith.sim.execution import Execution
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.memory.access_faults import LaneFault
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.async_hazards import side
from gemmsmith.sim.races.clocks import Clock, Moment, joined, ordered
from gemmsmith.sim.races.hazards import Hazard, HazardKind, Side
from gemmsmith.sim.races.spots import spot
from gemmsmith.sim.wave import WARP

NUMBERS = 16
_LAST = 9  # after races, which this often leads to
_REMEDY = ("this thread arrives again (bar.arrive), and nothing made it wait until the other one had come the last "
           "time: two arrivals of one thread may complete the barrier; wait (bar.sync) for a barrier at which the "
           "others arrive afterwards, or give each stage a barrier of its own")  # fmt: skip

_STRANGER = (
    "this thread was not among those who met there the last time, and nothing made it wait until they had "
    "come: it may be counted in place of one of them; give each group of threads a barrier of its own"
)


@dataclass
class Meeting:
    """How many threads have arrived at a barrier so far, who of them waits, and what all of them have released.

    A warp of which all live lanes have arrived counts as 32 threads; ``parts`` are arrivals of other warps. ``whole``
    are the warps of the first kind.
    """

    count: int
    warps: int = 0
    whole: set[int] = field(default_factory=set)
    parts: dict[int, int] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)
    released: Clock | None = None
    arrivals: list[tuple[Moment, Array, bool, Operation[Any]]] = field(default_factory=list)  # when, who, do they wait

    @property
    def arrived(self) -> int:
        return WARP * self.warps + sum(self.parts.values())


class NamedBarriers:
    """Meetings by block and number. Lanes are released when the count of their barrier is reached."""

    def __init__(self, machine: Execution) -> None:
        self.machine = machine
        self.open: dict[tuple[int, int], Meeting] = {}
        self._before: dict[tuple[int, int], Meeting] = {}  # the last that was completed
        self.hasty: dict[tuple[int, int], int] = {}  # a lane that arrived twice before the others had come
        self.free = np.zeros(machine.wave.lanes, bool)
        self._acquired: dict[int, Clock] = {}  # by lane: what it learns as it goes on
        self.votes = np.zeros(machine.wave.lanes, bool)  # the predicates of bar.red
        self.members: dict[int, Array] = {}  # the lanes that each lane of a bar.red met

    def arrive(self, lanes: Array, numbers: Array, counts: Array, operation: Operation[Any], *, waits: bool) -> None:
        """These lanes arrive; warp by warp, since a barrier may be used again as soon as its count is reached."""
        self.check_numbers(numbers)
        self._check_counts(counts)
        moment = None if self.machine.shadow is None else self.machine.shadow.arrive(lanes)
        block, warp = self.machine.block[lanes], self.machine.warp[lanes]
        keys = np.stack((warp, numbers.astype(np.int64)), axis=1)
        _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        for number, start in enumerate(first.tolist()):
            members = np.flatnonzero(inverse.reshape(-1) == number)
            key = int(block[start]), int(numbers[start])
            meeting = self.open.setdefault(key, Meeting(int(counts[start])))
            if meeting.count != int(counts[start]):
                raise LaneFault(
                    start, f"barrier {key[1]} is used with counts of {meeting.count} and {int(counts[start])}"
                )
            if self._count(meeting, int(warp[start]), members.size):
                self.hasty.setdefault(key, int(lanes[start]))
            meeting.waiting += lanes[members].tolist() if waits else []
            if moment is not None:
                self._check_again(key, lanes[members], moment, operation)
                meeting.arrivals.append((moment, lanes[members], waits, operation))
                meeting.released = joined((meeting.released, self.machine.clocks.known(moment, lanes[members])))
            if meeting.arrived >= meeting.count:
                self._complete(self.open.pop(key))
                self._before[key] = meeting
        self.machine.progress += 1

    def _check_again(self, key: tuple[int, int], lanes: Array, moment: Moment, operation: Operation[Any]) -> None:
        """Who arrives must know that all who met the last time have come: else, under another schedule, it is counted
        among them, a second time or in place of one of them. Who waited there knows it.
        """
        before, log = self._before.get(key), self.machine.log
        if before is None or log is None:
            return
        waited = [who for _, who, waited, _ in before.arrivals if waited]
        unsure = lanes[~np.isin(lanes, np.concatenate(waited))] if waited else lanes
        if not unsure.size:
            return
        went_on = [who for _, who, waited, _ in before.arrivals if not waited]
        is_again = bool(went_on) and bool(np.isin(unsure, np.concatenate(went_on)).any())
        for then, who, _, arrival in before.arrivals:
            for other in (int(who[0]), int(who[-1])):
                if ordered(then, np.full(unsure.size, other), moment, unsure).all():
                    continue
                here = self._side(operation, int(unsure[0]))
                there = replace(self._side(arrival, other), verb="last arrival")
                log.add((_LAST, operation.position), Hazard(
                    HazardKind.BARRIER_REUSED, 0, self.machine.block_name(other), there, here, across_warps=True,
                    place=f"barrier {key[1]}", remedy=_REMEDY if is_again else _STRANGER))  # fmt: skip
                return

    def _side(self, operation: Operation[Any], lane: int) -> Side:
        return replace(side(self.machine, operation, lane), spot=spot(self.machine, operation, lane))

    def _count(self, meeting: Meeting, warp: int, lanes: int) -> bool:
        """Count lanes of a warp; whether the whole warp has arrived before."""
        again = warp in meeting.whole
        arrived = meeting.parts.pop(warp, 0) + lanes
        if arrived >= int(np.count_nonzero(self.machine.alive[self.machine.warp == warp])):
            meeting.warps += 1
            meeting.whole.add(warp)
        else:
            meeting.parts[warp] = arrived
        return again

    def passed(self, lanes: Array) -> None:
        """These lanes go on."""
        self.free[lanes] = False
        shadow = self.machine.shadow
        if shadow is None:
            return
        met: dict[int, tuple[Clock, list[int]]] = {}
        for lane in lanes.tolist():
            clock = self._acquired.pop(lane)
            met.setdefault(id(clock), (clock, []))[1].append(lane)
        for clock, together in met.values():
            shadow.acquire(np.array(together), clock)

    def _complete(self, meeting: Meeting) -> None:
        waiting = np.array(meeting.waiting, np.intp)
        self.free[waiting] = True
        for lane in meeting.waiting:
            self.members[lane] = waiting
            if meeting.released is not None:
                self._acquired[lane] = meeting.released

    def check_numbers(self, numbers: Array) -> None:
        beyond = numbers >= NUMBERS
        if beyond.any():
            at = int(np.argmax(beyond))
            raise LaneFault(at, f"barrier {int(numbers[at])}: a block has barriers 0 to {NUMBERS - 1}")

    def _check_counts(self, counts: Array) -> None:
        odd = (counts % WARP != 0) | (counts == 0)
        if odd.any():
            at = int(np.argmax(odd))
            raise LaneFault(at, f"a barrier for {int(counts[at])} threads: the number must be a multiple of {WARP}")
