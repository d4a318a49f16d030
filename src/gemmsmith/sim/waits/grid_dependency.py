"""Programmatic dependent launch: until griddepcontrol.wait the launch before may still be running."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.sim.execution import Execution
from gemmsmith.sim.lowering.operation import Lowered, Operation
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.async_hazards import side
from gemmsmith.sim.races.clocks import Moment, ordered
from gemmsmith.sim.races.hazards import Hazard, HazardKind

REMEDY = (
    "griddepcontrol.wait must come first, by this thread or before a barrier: the launch before may still be writing"
)


def grid_wait(lowered: Lowered) -> int:
    """The position of a griddepcontrol.wait; -1 if the program has none."""
    names = (o.position for o in lowered.operations if o.instruction.name == "griddepcontrol.wait")
    return next(names, -1)


class GridDependency:
    """Which threads have waited for the launch before, or know a thread that has."""

    def __init__(self, machine: Execution) -> None:
        self.machine = machine
        self._position = machine.lowered.fact(grid_wait)
        self.active = machine.log is not None and self._position >= 0
        self._done = np.zeros(machine.wave.lanes, bool)
        self._waits: list[tuple[Moment, Array]] = []  # when, and one lane of each block

    def wait(self, lanes: Array) -> None:
        if not self.active or self._done[lanes].all():
            return
        self._done[lanes] = True
        one = np.full(len(self.machine.wave.blocks), -1)
        one[self.machine.block[lanes][::-1]] = lanes[::-1]
        self._waits.append((self.machine.clocks.now(), one))

    def touched(self, operation: Operation[Any], lanes: Array) -> None:
        """These lanes access global memory."""
        early = lanes[~self._done[lanes]]
        if not early.size:
            return
        now = self.machine.clocks.now()
        for moment, one in self._waits:
            waiters = one[self.machine.block[early]]
            known = np.flatnonzero(waiters >= 0)
            after = ordered(moment, waiters[known], now, early[known])
            self._done[early[known[after]]] = True
        early = early[~self._done[early]]
        if early.size:
            self._report(operation, int(early[0]))

    def _report(self, operation: Operation[Any], lane: int) -> None:
        machine, wait = self.machine, self.machine.lowered.operations[self._position]
        assert machine.log is not None
        machine.log.add((0, operation.position), Hazard(
            HazardKind.BEFORE_GRID_WAIT, 0, machine.block_name(lane), side(machine, operation, lane),
            side(machine, wait, lane), across_warps=False, place="global memory", remedy=REMEDY))  # fmt: skip
