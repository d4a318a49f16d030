"""Registers of whole warps, for instructions that a warp executes as one."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle, Operand
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.memory.access_faults import LaneFault
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.wave import WARP


def check_whole(machine: Execution, step: Bundle[Any], lanes: Lanes) -> None:
    """The guard may have left out lanes of a warp that has arrived as a whole."""
    if not machine.whole_warps(lanes):
        raise LaneFault(0, f"{step.traits.called} by a part of a warp: all 32 lanes must execute it")


def words(machine: Execution, source: Operand, lanes: Lanes, count: int) -> Array:
    """A register's words as (operations, warps, 32)."""
    values, width = np.asarray(machine.fetch(source, lanes)), machine.indices(lanes).size
    if values.size < count * width:
        values = np.broadcast_to(values, (count, width))
    return values.reshape(count, -1, WARP)


def put(machine: Execution, target: Operand, lanes: Lanes, values: Array, count: int) -> None:
    """Write words (operations × warps × 32, in any shape) to a register."""
    machine.put(target, lanes, values.reshape(-1) if count == 1 else values.reshape(count, -1))
