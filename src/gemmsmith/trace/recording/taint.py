"""Which registers can hold an element of an array as it was loaded: only these are followed."""

from __future__ import annotations

from typing import Any

from gemmsmith.sim.lowering.operation import FILES, Cell, Lowered, Operation, Slot
from gemmsmith.sim.lowering.traits import Effect, Space

# What moves a value, whole or in parts, or converts it: it stays that element.
KEEPS = frozenset({"mov", "cvt", "selp", "abs", "neg", "prmt"})
# What stays an element as long as only that element goes into it: a scaled one, the parts of a split, x − hi(x).
DERIVES = frozenset({"and", "sub", "shr", "shl", "or", "mul"})
_FOLLOWED = frozenset(file for file in FILES.values() if file != "p")
_MEMORY = (Space.GLOBAL, Space.SHARED, Space.GENERIC, Space.LOCAL)


def loads(operation: Operation[Any]) -> bool:
    """Whether it brings elements from memory into registers."""
    access = operation.access
    return access is not None and access.effect is Effect.READ and access.space in _MEMORY and bool(operation.targets) \
        and bool(operation.pointers)  # fmt: skip


def element_cells(lowered: Lowered) -> frozenset[Cell]:
    """The cells that can hold elements."""
    found: set[Cell] = set()
    changed = True
    moves = []
    for operation in lowered.operations:
        if loads(operation):
            found.update(operation.writes())
        elif operation.instruction.opcode in KEEPS | DERIVES and operation.targets:
            moves.append(operation)
    while changed:
        changed = False
        for operation in moves:
            if any(isinstance(s, Slot) and s.cell in found for s in operation.sources):
                new = set(operation.writes()) - found
                found |= new
                changed |= bool(new)
    return frozenset(cell for cell in found if cell[0] in _FOLLOWED)
