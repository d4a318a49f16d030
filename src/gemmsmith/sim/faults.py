"""Turn what went wrong in a lane into an error: what, which instruction and line, which thread, where.

Its message is for who knows PTX; ``KernelFaultError.fault`` has the facts, from which
``verify/faults/fault_report.py`` makes what a user reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.errors import SimulationError, TimeLimitError
from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.lanes import Lanes, WaveState
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.lowering.pointer_parameters import meant_parameters
from gemmsmith.sim.lowering.shared_arrays import SharedArray, array_at, meant_arrays
from gemmsmith.sim.lowering.traits import Effect, Space, Wait
from gemmsmith.sim.memory.access_faults import AccessFault, ArrayFault, LaneFault
from gemmsmith.sim.memory.global_memory import GlobalMemory
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.spots import Spot, spot

# Lanes, and the bundle that they wait at.
Waiting = tuple[Lanes, Bundle[Any]]


@dataclass(frozen=True)
class Fault:
    """What a thread did that a GPU faults on, or that never ends.

    kind       "out-of-bounds", "misaligned", "uninitialised", "forbidden" (a read), "divergent barrier", "hang", "lane"
    spots      the thread at fault; at barriers one thread of each group that waits
    counts     how many threads each spot stands for; of an access, how many threads of the block do the same
    parameter  the index of the parameter that the access goes through, −1 if that is not known
    array      the shared array that is meant, or that holds the address
    """

    kind: str
    detail: str
    spots: tuple[Spot, ...] = ()
    counts: tuple[int, ...] = ()
    space: str = ""
    verb: str = ""
    width: int = 0
    address: int = 0
    parameter: int = -1
    array: SharedArray | None = None


class KernelFaultError(SimulationError):
    """An error of the kernel while it ran, with the facts."""

    def __init__(self, message: str, hint: str, fault: Fault) -> None:
        super().__init__(message, hint)
        self.fault = fault


def describe_fault(state: WaveState, step: Bundle[Any], lanes: Lanes, fault: AccessFault) -> KernelFaultError:
    """The error for a faulting lane."""
    mine = state.indices(lanes)
    row = min(fault.position // max(1, mine.size), step.count - 1)
    operation = step.operations[row]
    lane = int(mine[fault.position % mine.size])
    if isinstance(fault, ArrayFault):
        operation = next(o for o in step.operations if o is fault.operation)
        lane = fault.lane
    i, access = operation.instruction, operation.access
    where = f"{i.where}: {i.text}; {state.place(lane)}"
    spots = (spot(state, operation, lane),)
    if isinstance(fault, LaneFault):
        return KernelFaultError(fault.detail, where, Fault("lane", fault.detail, spots))
    # A copy has an end in two spaces: the memory that faulted says which.
    space = fault.space if access is None or access.effect is Effect.COPY else access.space
    width = "" if access is None else f" of {access.width} bytes"
    verb = operation.traits.verb
    facts = Fault(
        fault.kind, fault.detail, spots, (_alike(state, step, row, lanes, lane, fault),), fault.space, verb,
        0 if access is None else access.width, fault.address,
        state.lowered.fact(meant_parameters).get(operation.position, -1), _array(state, operation, fault),
    )  # fmt: skip
    return KernelFaultError(
        f"{fault.kind} {space} {verb}{width} at {_place(fault.address)}: {fault.detail}", where, facts
    )


def _place(address: int) -> str:
    """An address in words; one that wrapped below 0 as so many bytes before the start."""
    return f"address {address:#x}" if address < 2**63 else f"{2**64 - address} bytes before the start"


def _array(state: WaveState, operation: Operation[Any], fault: AccessFault) -> SharedArray | None:
    if fault.space is not Space.SHARED:
        return None
    meant: dict[int, SharedArray] = state.lowered.fact(meant_arrays)
    return meant.get(operation.position) or array_at(state.lowered, fault.address)


def _alike(state: WaveState, step: Bundle[Any], row: int, lanes: Lanes, lane: int, fault: AccessFault) -> int:
    """How many threads of the lane's block do the same in the same instruction; 1 where that is not known."""
    memory = getattr(state, "memory", None)
    if fault.space is not Space.GLOBAL or not step.pointers or not isinstance(memory, GlobalMemory):
        return 1
    mine = state.indices(lanes)
    addresses = np.broadcast_to(state.addresses(step.pointers[-1], lanes, step.count), (step.count, mine.size))[row]
    inside = addresses[state.block[mine] == state.block[lane]]
    width = step.access.width if step.access is not None else 1
    if fault.kind == "misaligned":
        return max(1, int(np.count_nonzero(inside % np.uint64(width))))
    if fault.kind == "out-of-bounds":
        return max(1, sum(memory.locate(int(address), width) is None for address in inside))
    return 1


def left_out_of_its_mask(step: Bundle[Any], position: int) -> LaneFault:
    """A lane executes a warp-wide instruction whose member mask does not have that lane."""
    return LaneFault(position, f"{step.traits.called} by a lane that its own member mask leaves out")


def short_warp(step: Bundle[Any], position: int) -> LaneFault:
    """An instruction for whole warps in a warp that has fewer than 32 live lanes."""
    return LaneFault(position, f"{step.traits.called} needs all 32 lanes of a warp, and this warp has fewer")


def divergent_barrier(state: WaveState, block: int, waiting: Sequence[Waiting]) -> KernelFaultError:
    """Threads of one block wait at different barriers."""
    spots, counts = _groups(state, block, waiting)
    lines = [
        f"{count} threads at {step.first.instruction.where} ({state.place(lane)})"
        for count, step, lane in _inside(state, block, waiting)
    ]
    what = "divergent barrier: threads of one block wait at different __syncthreads()"
    return KernelFaultError(what, "; ".join(lines), Fault("divergent barrier", what, spots, counts))


def _inside(state: WaveState, block: int, waiting: Sequence[Waiting]) -> list[tuple[int, Bundle[Any], int]]:
    """How many threads of a block wait where, and the lane of one of them."""
    found = []
    for lanes, step in waiting:
        mine = state.indices(lanes)
        inside = mine[state.block[mine] == block]
        if inside.size:
            found.append((int(inside.size), step, int(inside[0])))
    return found


def _groups(state: WaveState, block: int, waiting: Sequence[Waiting]) -> tuple[tuple[Spot, ...], tuple[int, ...]]:
    """One spot for each place at which threads of a block wait, and how many wait there."""
    spots: dict[int, Spot] = {}
    counts: dict[int, int] = {}
    for count, step, lane in _inside(state, block, waiting):
        at = step.first.position
        spots.setdefault(at, spot(state, step.first, lane))
        counts[at] = counts.get(at, 0) + count
    return tuple(spots.values()), tuple(counts.values())


def endless(state: WaveState, step: Bundle[Any], lanes: Lanes) -> TimeLimitError:
    """Time is up and the kernel still runs."""
    i, lane = step.first.instruction, int(state.indices(lanes)[0])
    return TimeLimitError(
        "the kernel did not end in the time it was given: a loop may never end",
        f"{i.where}: {i.text}; {state.place(lane)} is there",
    )


# Of threads that wait for each other, these say most about the cause.
_TELLING = ("mbarrier", "setmaxnreg")
_MOST_ALSO = 3  # other waits that a message has


def stuck(state: WaveState, live: Array, waiting: Sequence[Waiting]) -> KernelFaultError:
    """No lane can go on: ``live`` threads of each block, of which some never arrive where the others wait."""
    told, *others = [at for rank in (_TELLING, "") for at in waiting if at[1].traits.called.startswith(rank)]
    # Bytes that never come are a cause; arrivals may be lacking because their threads wait as well.
    told = next((at for at in (told, *others) if _lacks_bytes(state, at)), told)
    lanes, step = told
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
    spots, counts = _groups(state, block, waiting)
    where = f"{i.where}: {i.text}; {state.place(first)} waits{_also_waiting(state, waiting, what)}"
    return KernelFaultError(what, where, Fault("hang", what, spots, counts))


def _lacks_bytes(state: WaveState, at: Waiting) -> bool:
    lanes, step = at
    lacking = getattr(step.detail, "lacks_bytes", None)
    return lacking is not None and bool(lacking(state, step, int(state.indices(lanes)[0])))


def _also_waiting(state: WaveState, waiting: Sequence[Waiting], told: str) -> str:
    """What other threads wait for, if it is something else."""
    found: dict[str, str] = {}
    for lanes, step in waiting:
        if step.traits.waits_on is Wait.EVENT:
            first = int(state.indices(lanes)[0])
            text = step.detail.describe(state, step, first)
            if text != told:
                found.setdefault(text, f"; {state.place(first)} waits at {step.first.instruction.where}: "
                                       f"{text.partition(' never completes: ')[2]}")  # fmt: skip
    return "".join(list(found.values())[:_MOST_ALSO])
