"""Turn what went wrong in a lane into a message: what, which instruction and line, which thread, where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gemmsmith.errors import SimulationError
from gemmsmith.sim.bundle import ALIGNED, Bundle
from gemmsmith.sim.memory import AccessFault, LaneFault

if TYPE_CHECKING:
    from gemmsmith.sim.lanes import Lanes, WaveState
    from gemmsmith.sim.machine import Group, Machine

VERBS = {"load": "read", "store": "write", "copy": "asynchronous copy", "atomic": "atomic update", "wait": "copy",
          "ldmatrix": "read", "stmatrix": "write"}  # fmt: skip


def place(machine: WaveState, lane: int) -> str:
    """'block (1,0,0), thread (3,2,0)' of a lane."""
    return f"block {block_text(machine, lane)}, thread {thread_text(machine, lane)}"


def block_text(machine: WaveState, lane: int) -> str:
    """'(1,0,0)', the block of a lane."""
    return _triple(int(machine.wave.blocks[machine.block[lane]]), machine.wave.grid)


def thread_text(machine: WaveState, lane: int) -> str:
    """'(3,2,0)', the thread of a lane within its block."""
    return _triple(int(machine.thread[lane]), machine.wave.block)


def _triple(linear: int, size: tuple[int, int, int]) -> str:
    return f"({linear % size[0]},{linear // size[0] % size[1]},{linear // (size[0] * size[1])})"


def describe_fault(machine: WaveState, step: Bundle, lanes: Lanes, fault: AccessFault) -> SimulationError:
    """The error for a faulting access."""
    mine = machine.indices(lanes)
    number = min(fault.position // max(1, mine.size), step.count - 1)
    lane = int(mine[fault.position % mine.size])
    operation = step.operations[number]
    i = operation.instruction
    if isinstance(fault, LaneFault):
        return SimulationError(fault.detail, f"{i.where}: {i.text}; {place(machine, lane)}")
    space = operation.space or ("shared" if fault.address < 1 << 32 else "global")  # a copy has one end in each
    verb = VERBS.get(operation.kind, operation.kind)
    return SimulationError(
        f"{fault.kind} {space} {verb} of {operation.width} bytes at address {fault.address:#x}: {fault.detail}",
        f"{i.where}: {i.text}; {place(machine, lane)}",
    )


def divergent_barrier(machine: Machine, block: int, waiting: list[tuple[Group, Bundle]]) -> SimulationError:
    """Threads of one block wait at different barriers."""
    lines = []
    for group, step in waiting:
        lanes = machine.indices(group.lanes)
        inside = lanes[machine.block[lanes] == block]
        if inside.size:
            lines.append(f"{inside.size} threads at {step.first.instruction.where} ({place(machine, int(inside[0]))})")
    return SimulationError(
        "divergent barrier: threads of one block wait at different __syncthreads()", "; ".join(lines)
    )


def endless(machine: Machine, step: Bundle, lanes: Lanes) -> SimulationError:
    """Time is up, and the kernel still runs."""
    i = step.first.instruction
    return SimulationError(
        "the kernel did not end in the time it was given: a loop may never end",
        f"{i.where}: {i.text}; {place(machine, int(machine.indices(lanes)[0]))} is there",
    )


def stuck_barrier(machine: Machine, waiting: list[tuple[Group, Bundle]]) -> SimulationError:
    """Nobody can go on: some threads of a block never arrive."""
    group, step = waiting[0]
    lanes = machine.indices(group.lanes)
    block = int(machine.block[lanes[0]])
    arrived = sum(int(np.count_nonzero(machine.block[machine.indices(g.lanes)] == block)) for g, _ in waiting)
    what = f"barrier never completes: {arrived} of {int(machine.live[block])} live threads arrived"
    if step.first.kind == "shuffle":
        what = "shfl.sync never completes: live lanes of its member mask never arrive at it"
    elif step.first.kind in ALIGNED:
        name = f"{step.first.instruction.opcode}.sync.aligned"
        what = f"{name} never completes: other live lanes of the warp never arrive at it"
    return SimulationError(
        what,
        f"{step.first.instruction.where}: {step.first.instruction.text}; {place(machine, int(lanes[0]))} waits",
    )
