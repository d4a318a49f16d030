"""Where in the source a thread is when it accesses memory or waits: line, call, and the rounds of the loops around it.

A machine writes down each jump back to the start of a loop (``BackEdge``), for all lanes that take part. How often
one lane has jumped back is counted from that when a message needs it, so that counting costs a launch nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gemmsmith.sim.lanes import Lanes, WaveState
from gemmsmith.sim.lowering.operation import Lowered, Operation
from gemmsmith.sim.wave import Size, triple

_MOST_EDGES = 1 << 18  # that are looked through for one message


@dataclass(frozen=True, slots=True)
class BackEdge:
    """Lanes at the end of a loop: some jump back to its first operation, the others leave it."""

    first: int
    back: Lanes | None
    left: Lanes | None


@dataclass(frozen=True)
class LoopRound:
    """A loop of the program, by its first and last operation, and how many of its rounds a thread has completed."""

    first: int
    last: int
    done: int


@dataclass(frozen=True)
class Spot:
    """An instruction that one thread executes.

    ``verb`` is what it does; ``caller`` the line of the kernel's own file that calls the function it is in, if any.
    ``loops`` are those around it, the outermost first; empty where the rounds are not known.
    """

    verb: str
    file: str
    line: int
    column: int
    caller: str
    ptx: str
    position: int
    thread: Size
    block: Size
    block_size: Size
    grid: Size
    loops: tuple[LoopRound, ...] = ()
    program: Lowered | None = field(default=None, repr=False, compare=False)


def spot(state: WaveState, operation: Operation[Any], lane: int, turn: int | None = None) -> Spot:
    """The place of a lane at an operation. ``turn`` is how many jumps back had been written down then; None: all."""
    i, wave = operation.instruction, state.wave
    return Spot(
        operation.traits.verb, i.file, i.line, i.column, i.caller, i.text, operation.position,
        triple(int(state.thread[lane]), wave.block),
        triple(int(wave.blocks[state.block[lane]]), wave.grid), wave.block, wave.grid,
        loop_rounds(state, operation.position, lane, turn), state.lowered,
    )  # fmt: skip


def loop_rounds(state: WaveState, position: int, lane: int, turn: int | None = None) -> tuple[LoopRound, ...]:
    """The loops around a position with the rounds that a lane has completed of each."""
    loops = state.lowered.fact(loop_ends)
    around = [(first, last) for first, last in loops.items() if first <= position <= last]
    edges = state.trail[:turn]
    # In a function that is called, a loop may begin anew without the loop around it doing so.
    if not around or position < state.lowered.start or len(edges) > _MOST_EDGES:
        return ()
    done = dict.fromkeys(loops, 0)
    for edge in edges:
        if _has(edge.back, lane):
            done[edge.first] += 1
            for first, last in loops.items():
                if edge.first < first and last <= loops[edge.first]:
                    done[first] = 0
        elif _has(edge.left, lane):
            done[edge.first] = 0
    return tuple(LoopRound(first, last, done[first]) for first, last in sorted(around))


def loop_ends(lowered: Lowered) -> dict[int, int]:
    """The last operation of each loop, by its first."""
    found: dict[int, int] = {}
    for first, last in lowered.loops():
        found[first] = max(last, found.get(first, last))
    return found


def _has(lanes: Lanes | None, lane: int) -> bool:
    if lanes is None:
        return False
    if isinstance(lanes, slice):
        return (lanes.start or 0) <= lane and (lanes.stop is None or lane < lanes.stop)
    at = int(np.searchsorted(lanes, lane))
    return at < lanes.size and int(lanes[at]) == lane
