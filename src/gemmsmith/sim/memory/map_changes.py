"""Tensor maps that a kernel changes: TMA sees the change after fence.proxy.tensormap, not before."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.sim.execution import Execution
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.async_hazards import side
from gemmsmith.sim.races.clocks import Moment, ordered
from gemmsmith.sim.races.hazards import Hazard, HazardKind

REMEDY = "fence.proxy.tensormap::generic.acquire of this map, by the thread that uses it, must come between them"


class MapChanges:
    """Maps in global memory by their addresses: who changed them last, and who has fenced since."""

    def __init__(self, machine: Execution) -> None:
        self.machine = machine
        self._changed: dict[int, tuple[Operation[Any], int]] = {}
        self._fenced: dict[int, list[tuple[Moment, Array]]] = {}

    def changed(self, operation: Operation[Any], lane: int, address: int) -> None:
        if self.machine.log is not None:
            self._changed[address] = operation, lane
            self._fenced.pop(address, None)

    def acquired(self, lanes: Array, addresses: Array) -> None:
        if self.machine.log is None:
            return
        for address in np.unique(addresses).tolist():
            if address in self._changed:
                these = lanes[addresses == address]
                self._fenced.setdefault(address, []).append((self.machine.clocks.now(), these))

    def used(self, operation: Operation[Any], lane: int, address: int) -> None:
        """TMA reads the map for this lane: it or a thread before it must have fenced."""
        if (found := self._changed.get(address)) is None:
            return
        machine = self.machine
        now = machine.clocks.now()
        for moment, lanes in self._fenced.get(address, ()):
            if (lanes == lane).any() or ordered(moment, lanes[:1], now, np.array([lane])).any():
                return
        assert machine.log is not None
        machine.log.add((0, found[0].position, operation.position), Hazard(
            HazardKind.STALE_MAP, 0, machine.block_name(lane), side(machine, *found), side(machine, operation, lane),
            across_warps=False, place=f"the tensor map at {address:#x}", remedy=REMEDY))  # fmt: skip
