"""Which iteration of a source loop a thread was in, where that is certain.

The simulator counts how often a thread has jumped back in a loop of the compiled program. The compiler may have
unrolled a loop, or taken its first rounds out of it. A barrier of the loop's body has as many copies in the program as
there are rounds in one, so that these tell; so does the step of the loop's variable. Where neither does, nothing is
said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gemmsmith.sim.lowering.operation import Lowered, Operation, Slot
from gemmsmith.sim.lowering.traits import Effect, Space, Wait
from gemmsmith.sim.ptx.syntax import Immediate
from gemmsmith.sim.races.spots import LoopRound, Spot, loop_ends
from gemmsmith.userfile.text.source_tree import SourceLoop
from gemmsmith.verify.faults.kernel_source import SourceOfKernel


@dataclass(frozen=True)
class Iteration:
    """A round of a source loop: its number from 1, and the loop variable's value, if the source tells it."""

    line: int
    number: int
    variable: str = ""
    value: int | None = None

    def __str__(self) -> str:
        if self.value is None:
            return f"in the {ordinal(self.number)} iteration of the loop at line {self.line}"
        return (
            f"in iteration {self.variable} = {self.value} (the {ordinal(self.number)}) of the loop at line {self.line}"
        )

    @property
    def short(self) -> str:
        """Without the loop."""
        if self.value is None:
            return f"in the {ordinal(self.number)} iteration"
        return f"in iteration {self.variable} = {self.value}"


def ordinal(number: int) -> str:
    """'1st', '2nd', '13th'."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def iterations(spot: Spot, source: SourceOfKernel) -> tuple[Iteration, ...]:
    """The iterations that a thread was in, of the loops around a place, the outermost first."""
    place = kernel_place(spot)
    tree = source.tree(place[0])
    if spot.program is None or tree is None or not spot.loops:
        return ()
    loops = tree.loops(place[1], spot.column if place[0] == spot.file and not spot.caller else 0)
    found = []
    for around in spot.loops:
        end = spot.program.operations[around.last].instruction
        same = [loop for loop in loops if end.file == place[0] and end.line == loop.line]
        if len(same) != 1:
            continue
        found += _iteration(spot, source, same[0], around, place)
    return tuple(found)


def kernel_place(spot: Spot) -> tuple[str, int]:
    """File and line of the kernel's own code: where a helper function is called."""
    file, _, line = spot.caller.rpartition(":")
    return (file, int(line)) if file and line.isdigit() else (spot.file, spot.line)


def _iteration(
    spot: Spot, source: SourceOfKernel, loop: SourceLoop, around: LoopRound, place: tuple[str, int]
) -> list[Iteration]:
    assert spot.program is not None
    if sum(1 for first, last in loop_ends(spot.program).items()
           if _line(spot.program.operations[last]) == (place[0], loop.line)) != 1:  # fmt: skip
        return []  # one loop of the source is several of the program
    start, step = (source.constants.integer(text) if text else None for text in (loop.start, loop.step))
    number = _by_barriers(spot, loop, around, place)
    if number is None:
        number = _by_step(spot.program, loop, around, place[0], start, step)
    if number is None:
        number = _by_stores(spot, loop, around, place)
    if number is None:
        return []
    value = start + step * (number - 1) if start is not None and step is not None else None
    return [Iteration(loop.line, number, loop.variable, value)]


def _line(operation: Operation[Any]) -> tuple[str, int]:
    """The line of the kernel's own file that an operation belongs to."""
    i = operation.instruction
    file, _, line = i.caller.rpartition(":")
    return (file, int(line)) if file and line.isdigit() else (i.file, i.line)


def _copies(program: Lowered, lines: set[tuple[str, int]], stores: bool) -> dict[tuple[str, int], list[int]]:
    """The positions of barriers of the block, or of stores, by source line."""
    found: dict[tuple[str, int], list[int]] = {}
    for operation in program.operations:
        access = operation.access
        if stores:
            wanted = access is not None and access.effect is not Effect.READ and access.space is not Space.LOCAL
        else:
            wanted = operation.traits.waits_on is Wait.BLOCK
        if wanted and (line := _line(operation)) in lines:
            found.setdefault(line, []).append(operation.position)
    return found


def _by_barriers(spot: Spot, loop: SourceLoop, around: LoopRound, place: tuple[str, int]) -> int | None:
    """The number of the round, counted by the copies of the body's first barrier."""
    assert spot.program is not None
    copies = _copies(spot.program, {(place[0], line) for line in loop.own}, stores=False)
    if not copies:
        return None
    line, positions = min(copies.items())
    inside = [p for p in positions if around.first <= p <= around.last]
    outside = [p for p in positions if p not in inside]
    loops = loop_ends(spot.program)
    elsewhere = any(first <= p <= last and not first <= around.first <= last
                    for p in (*inside, *outside) for first, last in loops.items()
                    if first != around.first)  # fmt: skip
    if not inside or elsewhere:
        return None
    before = sum(p < around.first for p in outside)
    # A statement after the barrier belongs to the round of the last copy before it, others to the next one.
    passed = sum(p < spot.position for p in inside)
    within = passed - 1 if place[1] > line[1] or spot.position in inside else passed
    if spot.position in inside:
        within = inside.index(spot.position)
    if not 0 <= within < len(inside):
        return None
    return before + around.done * len(inside) + within + 1


def _by_step(
    program: Lowered, loop: SourceLoop, around: LoopRound, file: str, start: int | None, step: int | None
) -> int | None:
    """The number of the round, if the loop's variable grows by its own step, from its own start."""
    if start is None or not step:
        return None
    body = program.operations[around.first : around.last + 1]
    updates = [o for o in body if o.instruction.opcode in ("add", "sub") and o.instruction.file == file
               and (o.instruction.line, o.instruction.column) == (loop.line, loop.update)]  # fmt: skip
    if len(updates) != 1 or not isinstance(updates[0].instruction.operands[-1], Immediate):
        return None
    bits = updates[0].instruction.operands[-1].bits & 0xFFFFFFFF
    grows = bits - (1 << 32) if bits >> 31 else bits
    cell = updates[0].writes()[0]
    if grows != step or not any(isinstance(s, Slot) and s.cell == cell for s in updates[0].sources):
        return None
    first = [o for o in program.operations if cell in o.writes() and not around.first <= o.position <= around.last]
    if len(first) != 1 or first[0].instruction.opcode != "mov":
        return None
    given = first[0].instruction.operands[-1]
    if not isinstance(given, Immediate) or given.bits & 0xFFFFFFFF != start & 0xFFFFFFFF:
        return None
    return around.done + 1


def _by_stores(spot: Spot, loop: SourceLoop, around: LoopRound, place: tuple[str, int]) -> int | None:
    """The number of the round, if each store of the body has one copy in the program, in the loop."""
    assert spot.program is not None
    copies = _copies(spot.program, {(place[0], line) for line in loop.own}, stores=True)
    inner = [(f, last) for f, last in loop_ends(spot.program).items() if around.first < f and last <= around.last]
    if not copies or any(len(positions) != 1 for positions in copies.values()):
        return None
    for (position,) in copies.values():
        if not around.first <= position <= around.last or any(f <= position <= last for f, last in inner):
            return None
    return around.done + 1
