"""Accesses to the shared memory of other blocks of a cluster: those blocks must not have ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gemmsmith.sim.execution import Execution
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.async_hazards import side
from gemmsmith.sim.races.clocks import Moment, ordered
from gemmsmith.sim.races.hazards import Hazard, HazardKind

REMEDY = "barrier.cluster by all threads, or a wait for what follows the access, must come before the block ends"


class RemoteAccesses:
    """The latest access of each instruction by each block to each other one."""

    def __init__(self, machine: Execution) -> None:
        self.machine = machine
        self._latest: dict[tuple[int, int, int], tuple[Operation[Any], Moment, int]] = {}
        if machine.shadow is not None and machine.wave.cluster_blocks > 1:
            machine.shadow.watchers.append(self)
            machine.at_end.append(self._end)

    def nothing_new(self, lanes: Array, index: Array) -> bool:
        """Whether all of these lanes access the memory of their own block."""
        return bool((index // self.machine.shared.stride == self.machine.block[lanes]).all())

    def accessed(self, operation: Operation[Any], lanes: Array, index: Array) -> None:
        lanes, blocks = lanes.reshape(-1), index.reshape(-1) // self.machine.shared.stride
        remote = np.flatnonzero(blocks != self.machine.block[lanes])
        if not remote.size:
            return
        now = self.machine.clocks.now()
        own = self.machine.block[lanes]
        pairs, where = np.unique(np.stack((own[remote], blocks[remote])), axis=1, return_index=True)
        for (here, there), at in zip(pairs.T.tolist(), where.tolist(), strict=True):
            self._latest[operation.position, here, there] = operation, now, int(lanes[remote[at]])

    def _end(self) -> None:
        """Some thread of the other block must know of the access when it ends."""
        machine = self.machine
        now = machine.clocks.now()
        for (_, _, block), (operation, moment, lane) in self._latest.items():
            there = np.flatnonzero(machine.block == block)
            if ordered(moment, np.full(there.size, lane), now, there).any():
                continue
            assert machine.log is not None
            first = side(machine, operation, lane)
            name = machine.block_name(int(there[0]))
            machine.log.add((0, operation.position), Hazard(
                HazardKind.ENDED_BLOCK, 0, name, first, replace(first, verb="end of the block", thread=f"block {name}"),
                across_warps=True, place="shared memory", remedy=REMEDY))  # fmt: skip
