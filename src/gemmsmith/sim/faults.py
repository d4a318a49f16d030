"""Turn what went wrong in a lane into a message: what, which instruction and line, which thread, where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gemmsmith.errors import SimulationError, TimeLimitError
from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.lanes import Lanes, WaveState
from gemmsmith.sim.memory import AccessFault, ArrayFault, LaneFault
from gemmsmith.sim.traits import Effect, Wait
from gemmsmith.sim.types import Array

# Lanes, and the bundle that they wait at.
Waiting = tuple[Lanes, Bundle[Any]]


def describe_fault(state: WaveState, step: Bundle[Any], lanes: Lanes, fault: AccessFault) -> SimulationError:
    """The error for a faulting lane."""
    mine = state.indices(lanes)
    operation = step.operations[min(fault.position // max(1, mine.size), step.count - 1)]
    lane = int(mine[fault.position % mine.size])
    if isinstance(fault, ArrayFault):
        operation = next(o for o in step.operations if o is fault.operation)
        lane = fault.lane
    i, access = operation.instruction, operation.access
    where = f"{i.where}: {i.text}; {state.place(lane)}"
    if isinstance(fault, LaneFault):
        return SimulationError(fault.detail, where)
    # A copy has an end in two spaces: the memory that faulted says which.
    space = fault.space if access is None or access.effect is Effect.COPY else access.space
    width = "" if access is None else f" of {access.width} bytes"
    return SimulationError(
        f"{fault.kind} {space} {operation.traits.verb}{width} at address {fault.address:#x}: {fault.detail}", where
    )


def left_out_of_its_mask(step: Bundle[Any], position: int) -> LaneFault:
    """A lane executes a warp-wide instruction whose member mask does not have that lane."""
    return LaneFault(position, f"{step.traits.called} by a lane that its own member mask leaves out")


def short_warp(step: Bundle[Any], position: int) -> LaneFault:
    """An instruction for whole warps in a warp that has fewer than 32 live lanes."""
    return LaneFault(position, f"{step.traits.called} needs all 32 lanes of a warp, and this warp has fewer")


def divergent_barrier(state: WaveState, block: int, waiting: Sequence[Waiting]) -> SimulationError:
    """Threads of one block wait at different barriers."""
    lines = []
    for lanes, step in waiting:
        mine = state.indices(lanes)
        inside = mine[state.block[mine] == block]
        if inside.size:
            lines.append(f"{inside.size} threads at {step.first.instruction.where} ({state.place(int(inside[0]))})")
    return SimulationError(
        "divergent barrier: threads of one block wait at different __syncthreads()", "; ".join(lines)
    )


def endless(state: WaveState, step: Bundle[Any], lanes: Lanes) -> TimeLimitError:
    """Time is up and the kernel still runs."""
    i = step.first.instruction
    return TimeLimitError(
        "the kernel did not end in the time it was given: a loop may never end",
        f"{i.where}: {i.text}; {state.place(int(state.indices(lanes)[0]))} is there",
    )


def stuck(state: WaveState, live: Array, waiting: Sequence[Waiting]) -> SimulationError:
    """No lane can go on: ``live`` threads of each block, of which some never arrive where the others wait."""
    lanes, step = waiting[0]
    first = int(state.indices(lanes)[0])
    block, i, called = int(state.block[first]), step.first.instruction, step.traits.called
    if step.traits.waits_on is Wait.EVENT:
        what = step.detail.describe(state, step, first)
    elif step.traits.waits_on is Wait.MEMBERS:
        what = f"{called} never completes: live lanes of its member mask never arrive at it"
    elif step.traits.waits_on is Wait.WARP:
        what = f"{called} never completes: other live lanes of the warp never arrive at it"
    else:
        arrived = sum(int(np.count_nonzero(state.block[state.indices(other)] == block)) for other, _ in waiting)
        what = f"barrier never completes: {arrived} of {int(live[block])} live threads arrived"
    return SimulationError(what, f"{i.where}: {i.text}; {state.place(first)} waits")
