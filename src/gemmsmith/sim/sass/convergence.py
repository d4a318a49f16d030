"""Convergence barriers: where the lanes of a warp that went different ways come together again.

BSSY notes in a barrier which lanes are together. BSYNC lets them go on when all of those have arrived that have neither
ended nor left the barrier (BREAK).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.ptx.types import Array

_BARRIERS = 16


class Convergence:
    """For each barrier, which lanes it waits for, and which of them have arrived."""

    def __init__(self, machine: Execution) -> None:
        self.members = np.zeros((_BARRIERS, machine.wave.lanes), bool)
        self.arrived = np.zeros((_BARRIERS, machine.wave.lanes), bool)


@dataclass(frozen=True)
class Sync:
    """The detail of BSYNC."""

    number: int
    polls: bool = False

    def arrive(self, machine: Execution, step: Bundle[Any], lanes: Lanes) -> None:
        del step
        machine.unit(Convergence).arrived[self.number, lanes] = True

    def ready(self, machine: Execution, step: Bundle[Any], lanes: Lanes) -> Array:
        """Lanes of warps of which nobody is missing."""
        del step
        state = machine.unit(Convergence)
        missing = state.members[self.number] & ~state.arrived[self.number] & machine.alive
        if not missing.any():
            return np.ones(machine.indices(lanes).size, bool)
        waits = np.zeros(int(machine.warp[-1]) + 1, bool)
        waits[machine.warp[missing]] = True
        free: Array = ~waits[machine.warp[machine.indices(lanes)]]
        return free

    def describe(self, machine: Execution, step: Bundle[Any], lane: int) -> str:
        del machine, step, lane
        return f"convergence barrier B{self.number}: lanes of the warp never arrive"


def begin(machine: Execution, step: Bundle[int], lanes: Lanes) -> None:
    """BSSY: these lanes are the barrier's; others of their warps are not."""
    state = machine.unit(Convergence)
    mine = np.zeros(machine.wave.lanes, bool)
    mine[lanes] = True
    warps = np.zeros(int(machine.warp[-1]) + 1, bool)
    warps[machine.warp[lanes]] = True
    state.members[step.detail, warps[machine.warp]] = False
    state.members[step.detail] |= mine
    state.arrived[step.detail, lanes] = False


def finish(machine: Execution, step: Bundle[Sync], lanes: Lanes) -> None:
    """BSYNC: all have arrived, and are the barrier's no longer."""
    state = machine.unit(Convergence)
    state.arrived[step.detail.number, lanes] = False
    state.members[step.detail.number, lanes] = False


def leave(machine: Execution, step: Bundle[int], lanes: Lanes) -> None:
    """BREAK: these lanes will not come."""
    machine.unit(Convergence).members[step.detail, lanes] = False
    machine.progress += 1


def save(machine: Execution, step: Bundle[int], lanes: Lanes) -> None:
    """BMOV from a barrier: its lanes as a mask, in each lane."""
    rows = machine.unit(Convergence).members[step.detail]
    bits = np.where(rows, np.left_shift(np.uint64(1), (machine.thread % 32).astype(np.uint64)), np.uint64(0))
    masks = np.bincount(machine.warp, weights=bits.astype(np.float64)).astype(np.uint64).astype(np.uint32)
    machine.put(step.targets[0], lanes, masks[machine.warp[lanes]])


def restore(machine: Execution, step: Bundle[int], lanes: Lanes) -> None:
    """BMOV to a barrier."""
    mine = machine.indices(lanes)
    masks = machine.spread(machine.fetch(step.sources[0], lanes), lanes)
    per_warp = np.zeros(int(machine.warp[-1]) + 1, np.uint32)
    touched = np.zeros(per_warp.size, bool)
    per_warp[machine.warp[mine]], touched[machine.warp[mine]] = masks, True
    inside = touched[machine.warp]
    holds = (per_warp[machine.warp] >> (machine.thread % 32).astype(np.uint32) & np.uint32(1)) == 1
    machine.unit(Convergence).members[step.detail, inside] = holds[inside]
