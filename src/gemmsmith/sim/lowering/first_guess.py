"""The plain read before a loop of compare-and-swap, as CUDA's guide writes atomics of its own.

int old = *address, seen;
do { seen = old; old = atomicCAS(address, seen, f(seen)); } while (old != seen);

A value that another thread has changed meanwhile costs one more round: the swap compares it with what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gemmsmith.sim.lowering.operation import Cell, Operation, Slot
from gemmsmith.sim.lowering.traits import Effect

_COPIES = ("mov", "cvta")  # of an address


def first_guesses(operations: Sequence[Operation[Any]]) -> frozenset[int]:
    """Positions of reads whose value a compare-and-swap of the same address compares with."""
    swaps = [o for o in operations if o.instruction.name.startswith("atom.") and ".cas." in o.instruction.name]
    if not swaps:
        return frozenset()
    writers: dict[Cell, list[Operation[Any]]] = {}
    for operation in operations:
        for cell in operation.writes():
            writers.setdefault(cell, []).append(operation)
    found: set[int] = set()
    for swap in swaps:
        place, compared = _place(swap, writers), swap.sources[0] if swap.sources else None
        if place is None or not isinstance(compared, Slot):
            continue
        for operation in _before(compared.cell, writers):
            access = operation.access
            if access is not None and access.effect is Effect.READ and _place(operation, writers) == place:
                found.add(operation.position)
    return frozenset(found)


def _place(operation: Operation[Any], writers: dict[Cell, list[Operation[Any]]]) -> tuple[Cell, int] | None:
    """The address that an operation accesses: a register or a constant, before copies of it, and an offset."""
    pointer = operation.pointers[0] if operation.pointers else None
    if pointer is None:
        return None
    base, seen = pointer.base, set[Cell]()
    while isinstance(base, Slot) and base.cell not in seen:
        seen.add(base.cell)
        made = writers.get(base.cell, ())
        if len(made) != 1 or made[0].instruction.name.split(".")[0] not in _COPIES or not made[0].sources:
            return base.cell, pointer.offset
        base = made[0].sources[0]
    return None if isinstance(base, Slot) else (("", int(base)), pointer.offset)


def _before(cell: Cell, writers: dict[Cell, list[Operation[Any]]]) -> list[Operation[Any]]:
    """The operations whose results a register depends on; what memory held before is not followed."""
    ahead, seen, found = [cell], {cell}, list[Operation[Any]]()
    while ahead:
        for operation in writers.get(ahead.pop(), ()):
            found.append(operation)
            more = [] if operation.access is not None else [each for each in operation.reads() if each not in seen]
            seen.update(more)
            ahead += more
    return found
