"""Who has waited for what TMA copied: until then no thread may touch it, whatever else orders the thread.

A copy ends when its mbarrier's phase does, not when the thread that issued it goes on. So a barrier of the block after
the issue orders nothing; only a wait for the phase does, by the thread itself or by one that it is ordered after.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gemmsmith.sim.execution import Execution
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.async_hazards import ProxyFences, side
from gemmsmith.sim.races.clocks import Moment, ordered
from gemmsmith.sim.races.hazards import WAIT_PHASE, Hazard, HazardKind

CHUNK = 16
TOO_FEW = "the mbarrier's phase ended without this copy: expect_tx must count the bytes of all its copies"
_MOST_COPIES = 1024  # that are remembered


@dataclass
class _Landed:
    """A copy, whose it is at each place, the phases it counts for by the positions of their mbarriers, and who has
    waited for them: perhaps ``everyone``."""

    operation: Operation[Any]
    lane_of: Callable[[int], int]
    phases: dict[int, int]
    waited: Array
    waits: list[tuple[Moment, int]] = field(default_factory=list)
    everyone: bool = False


class CopyWaits:
    """For each 16 bytes of shared memory: the number of the copy that wrote them; 0 if threads did."""

    def __init__(self, machine: Execution) -> None:
        self.machine = machine
        self._owner = np.zeros(machine.shared.data.size // CHUNK, np.int32)
        self._copies: dict[int, _Landed] = {}
        self._by_barrier: dict[int, list[int]] = {}
        self._number = 0
        if machine.shadow is not None:
            machine.shadow.watchers.append(self)
            machine.unit(ProxyFences).written.append(self.wrote)

    def landed(
        self, operation: Operation[Any], lane_of: Callable[[int], int], targets: Array, phases: dict[int, int]
    ) -> None:
        """A copy has written ``targets``; ``lane_of`` tells whose it is at one of them."""
        self._number += 1
        self._owner[targets // CHUNK] = self._number
        self._copies[self._number] = _Landed(operation, lane_of, phases, np.zeros(self.machine.wave.lanes, bool))
        for place in phases:
            self._by_barrier.setdefault(place, []).append(self._number)
        if len(self._copies) > _MOST_COPIES:
            self._copies.pop(next(iter(self._copies)))

    def waited(self, place: int, phase: int, lanes: Array) -> None:
        """These lanes have waited for an mbarrier, whose current phase is ``phase``."""
        numbers = self._by_barrier.get(place)
        if not numbers:
            return
        now, left = self.machine.clocks.now(), []
        for number in numbers:
            copy = self._copies.get(number)
            if copy is None:
                continue
            if copy.phases[place] < phase and not copy.waited[lanes].all():
                copy.waited[lanes] = True
                copy.waits.append((now, int(lanes[0])))
                copy.everyone = bool(copy.waited.all())
            left.append(number)
        self._by_barrier[place] = left[-_MOST_COPIES:]

    def nothing_new(self, lanes: Array, index: Array) -> bool:
        """Whether these lanes, the columns of ``index``, have waited for all that they access."""
        if not self._copies:
            return True
        owners = self._owner[index // CHUNK]
        for number in np.unique(owners).tolist():
            copy = self._copies.get(number)
            if copy is None or copy.everyone:
                continue
            if not copy.waited[lanes[(owners == number).any(axis=0)]].all():
                return False
        return True

    def accessed(self, operation: Operation[Any], lanes: Array, index: Array) -> None:
        """Threads, or wgmma for them, access shared memory."""
        if not self._copies:
            return
        owners = self._owner[index.reshape(-1) // CHUNK]
        if not owners.any():
            return
        lanes = lanes.reshape(-1)
        for number in np.unique(owners[owners > 0]).tolist():
            copy = self._copies.get(number)
            if copy is None:
                continue
            early = np.unique(lanes[owners == number])
            early = early[~copy.waited[early]]
            if early.size and (early := self._unordered(copy, early)).size:
                these = np.flatnonzero(np.isin(lanes, early) & (owners == number))
                places = index.reshape(-1)[these].tolist()
                at = min(range(these.size), key=lambda n: (copy.lane_of(places[n] // CHUNK * CHUNK), lanes[these[n]]))
                self._report(copy, operation, int(lanes[these[at]]), places[at])

    def _unordered(self, copy: _Landed, lanes: Array) -> Array:
        now = self.machine.clocks.now()
        for moment, waiter in copy.waits:
            after = ordered(moment, np.full(lanes.size, waiter), now, lanes)
            copy.waited[lanes[after]] = True
            lanes = lanes[~after]
            if not lanes.size:
                break
        return lanes

    def wrote(self, index: Array, width: int) -> None:
        """Threads have written here, in the right order or not."""
        del width
        self._owner[index.reshape(-1) // CHUNK] = 0

    def _report(self, copy: _Landed, operation: Operation[Any], lane: int, index: int) -> None:
        machine = self.machine
        assert machine.log is not None
        assert machine.shadow is not None
        first = side(machine, copy.operation, copy.lane_of(index // CHUNK * CHUNK))
        machine.log.add((0, copy.operation.position, operation.position), Hazard(
            HazardKind.IN_FLIGHT_COPY, index % machine.shared.stride, machine.block_name(lane), first,
            side(machine, operation, lane), across_warps=True,
            remedy=machine.shadow.why_in_flight(copy.operation.position) or WAIT_PHASE))  # fmt: skip
