"""Which pointer parameter an access to global memory goes through: the one that its address was computed from.

A pointer is a 64-bit parameter that the kernel takes as a global address (``cvta.to.global``). It stays one through
additions; the result of any other arithmetic is an offset.
"""

from __future__ import annotations

import re
from typing import Any

from gemmsmith.sim.lowering.operation import Cell, Lowered, Operation, Slot
from gemmsmith.sim.ptx.syntax import Address, Symbol

_KEEPS = {"mov", "add", "sub", "mad", "selp", "cvta"}
_PARAMETER = re.compile(r"_param_(\d+)$")
_DOUBT = -1


def meant_parameters(lowered: Lowered) -> dict[int, int]:
    """The index of the parameter that each access goes through, by position, where there is no doubt."""
    loaded = {cell: number for o in lowered.operations if (number := _loaded(o)) is not None for cell in o.writes()}
    origins = _origins(lowered, loaded)
    found: dict[int, int] = {}
    for operation in lowered.operations:
        for pointer in operation.pointers if operation.access is not None else ():
            if isinstance(pointer.base, Slot) and origins.get(pointer.base.cell, _DOUBT) != _DOUBT:
                found[operation.position] = origins[pointer.base.cell]
    return found


def _loaded(operation: Operation[Any]) -> int | None:
    """The index of the 64-bit parameter that an operation loads."""
    i = operation.instruction
    if not i.name.startswith("ld.param") or not i.name.endswith("64"):
        return None
    for operand in i.operands:
        if isinstance(operand, Address) and isinstance(operand.base, Symbol):
            named = _PARAMETER.search(operand.base.name)
            return int(named[1]) if named else None
    return None


def _origins(lowered: Lowered, loaded: dict[Cell, int]) -> dict[Cell, int]:
    origins: dict[Cell, int] = {}
    changed = True
    while changed:
        changed = False
        for operation in lowered.operations:
            found = _origin(operation, origins, loaded)
            if not found:
                continue
            for cell in operation.writes():
                after = {*found, origins.get(cell, next(iter(found)))}
                number = next(iter(after)) if len(after) == 1 else _DOUBT
                if origins.get(cell) != number:
                    origins[cell] = number
                    changed = True
    return origins


def _origin(operation: Operation[Any], origins: dict[Cell, int], loaded: dict[Cell, int]) -> set[int]:
    i = operation.instruction
    if operation.access is not None or i.opcode not in _KEEPS:
        return set()
    cells = [source.cell for source in operation.sources if isinstance(source, Slot)]
    if i.opcode == "mad":
        cells = cells[-1:]  # factors are no pointers
    known = origins
    if i.name.startswith("cvta.to.global"):
        known = {**loaded, **origins}
    return {known[cell] for cell in cells if cell in known}
