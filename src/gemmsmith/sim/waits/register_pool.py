"""The registers of a block: setmaxnreg gives some back, or waits until it gets more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.memory.access_faults import LaneFault
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.wave import WARP


class RegisterPool:
    """Registers per thread of each warp, and how many of a warp's are free in each block."""

    def __init__(self, machine: Execution) -> None:
        self.machine = machine
        self.known = machine.wave.registers > 0
        self.held = np.full(int(machine.warp[-1]) + 1, machine.wave.registers, np.int64)
        self.free = np.zeros(len(machine.wave.blocks), np.int64)

    def warps(self, lanes: Lanes) -> Array:
        return np.unique(self.machine.warp[lanes])

    def block(self, warps: Array) -> Array:
        found: Array = warps // self.machine.warps_per_block
        return found


@dataclass(frozen=True)
class RegisterRequest:
    """setmaxnreg to ``count`` registers per thread: ``more`` waits until the block has them."""

    count: int
    more: bool
    polls: bool = False

    def arrive(self, machine: Execution, step: Bundle[Any], lanes: Lanes) -> None:
        """Asking for fewer than the thread has, or giving back what it does not have, is undefined."""
        pool = machine.unit(RegisterPool)
        held = pool.held[machine.warp[lanes]]
        wrong = held > self.count if self.more else held < self.count
        if pool.known and wrong.any():
            at = int(np.argmax(wrong))
            raise LaneFault(at, f"{step.traits.called}{'.inc' if self.more else '.dec'} to {self.count} registers by a "
                            f"thread that has {int(held[at])}")  # fmt: skip

    def ready(self, machine: Execution, step: Bundle[Any], lanes: Lanes) -> Array:
        del step
        pool = machine.unit(RegisterPool)
        if not pool.known or not self.more:
            return np.ones(machine.indices(lanes).size, bool)
        warps = pool.warps(lanes)
        left, go = pool.free.copy(), np.zeros(pool.held.size, bool)
        for warp, block in zip(warps.tolist(), pool.block(warps).tolist(), strict=True):
            needed = self.count - int(pool.held[warp])
            go[warp] = needed <= left[block]
            left[block] -= needed if go[warp] else 0
        found: Array = go[machine.warp[lanes]]
        return found

    def take(self, machine: Execution, lanes: Lanes) -> None:
        pool = machine.unit(RegisterPool)
        if not pool.known:
            return
        warps = pool.warps(lanes)
        np.add.at(pool.free, pool.block(warps), pool.held[warps] - self.count)
        pool.held[warps] = self.count
        machine.progress += 1

    def describe(self, machine: Execution, step: Bundle[Any], lane: int) -> str:
        pool, warp = machine.unit(RegisterPool), int(machine.warp[lane])
        lacking, free = self.count - int(pool.held[warp]), int(pool.free[machine.block[lane]])
        return (f"{step.traits.called}.inc to {self.count} never completes: the warp lacks {lacking * WARP:,} "
                f"registers and {free * WARP:,} of the block are free; the block has {machine.wave.registers} x "
                f"{machine.wave.threads} threads")  # fmt: skip
