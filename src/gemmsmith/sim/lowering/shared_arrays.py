"""Which shared array an access means: the one whose name its address was computed from.

PTX names static shared arrays and gives their sizes. An address that comes from one name only, by moves, additions and
the like, must stay in that array. An access past its end reads or writes a neighbour, and a GPU does not complain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gemmsmith.sim.lowering.operation import Cell, Lowered, Operation, Slot
from gemmsmith.sim.lowering.traits import Space
from gemmsmith.sim.ptx.syntax import Address, Symbol

# What keeps an address an address of the same array.
_KEEPS = {"mov", "add", "sub", "mad", "cvta", "cvt", "and", "or", "xor", "selp"}
_UNKNOWN, _NONE = "?", ""


@dataclass(frozen=True)
class SharedArray:
    """A shared variable: its bytes within the block's shared memory; 0 for dynamic shared memory."""

    name: str
    start: int
    size: int

    @property
    def stop(self) -> int:
        return self.start + self.size


def meant_arrays(lowered: Lowered) -> dict[int, SharedArray]:
    """The array that each access to shared memory means, by position, where there is no doubt."""
    arrays = {name: SharedArray(plain_name(name), start, size) for name, start, size in lowered.shared_variables}
    if not arrays:
        return {}
    origins = _origins(lowered, arrays)
    found: dict[int, SharedArray] = {}
    for operation in lowered.operations:
        access = operation.access
        if access is None or not operation.pointers or access.space not in (Space.SHARED, Space.GENERIC):
            continue
        name = _meant(operation, origins)
        if name in arrays and arrays[name].size:
            found[operation.position] = arrays[name]
    return found


def array_at(lowered: Lowered, address: int) -> SharedArray | None:
    """The shared array that holds an address; all beyond the static ones is dynamic shared memory, if it has a name."""
    dynamic = None
    for name, start, size in lowered.shared_variables:
        if start <= address < start + size:
            return SharedArray(plain_name(name), start, size)
        if size == 0 and address >= start:
            dynamic = SharedArray(plain_name(name), start, 0)
    return dynamic


def _meant(operation: Operation[Any], origins: dict[Cell, str]) -> str:
    base = operation.pointers[0].base
    if isinstance(base, Slot):
        return origins.get(base.cell, _NONE)
    address = next((o for o in operation.instruction.operands if isinstance(o, Address)), None)
    return address.base.name if address is not None and isinstance(address.base, Symbol) else _NONE


def _origins(lowered: Lowered, arrays: dict[str, SharedArray]) -> dict[Cell, str]:
    """The variable that each register's values come from: a name, none, or in doubt."""
    origins: dict[Cell, str] = {}
    changed = True
    while changed:
        changed = False
        for operation in lowered.operations:
            cells = operation.writes()
            if not cells:
                continue
            origin = _origin(operation, origins, arrays)
            for cell in cells:
                before = origins.get(cell)
                after = origin if before in (None, origin) else _UNKNOWN
                if after != before:
                    origins[cell] = after
                    changed = True
    return origins


def _origin(operation: Operation[Any], origins: dict[Cell, str], arrays: dict[str, SharedArray]) -> str:
    names = {name for name in _names(operation, origins, arrays) if name != _NONE}
    if not names:
        return _NONE
    if operation.access is not None:
        return _NONE
    return names.pop() if len(names) == 1 and operation.instruction.opcode in _KEEPS else _UNKNOWN


def _names(operation: Operation[Any], origins: dict[Cell, str], arrays: dict[str, SharedArray]) -> Iterator[str]:
    for source in operation.sources:
        if isinstance(source, Slot):
            yield origins.get(source.cell, _NONE)
    for operand in operation.instruction.operands:
        if isinstance(operand, Symbol) and operand.name in arrays:
            yield operand.name


def plain_name(mangled: str) -> str:
    """The last identifier of a C++ name: 'As' of _ZZ5sgemmE2As, 'tile' of _ZN4mine4tileE."""
    if mangled.startswith("_ZN") and (last := _last_part(mangled[3:])):
        return last
    for match in re.finditer(r"\d+", mangled):
        rest = mangled[match.end() :]
        length = int(match.group())
        if 0 < length <= len(rest) and re.fullmatch(r"(_\d+)?", rest[length:]):
            return rest[:length]
    return mangled


def _last_part(nested: str) -> str:
    """The last of the identifiers, each after its length, before 'E'; nothing if it is no such name."""
    found = ""
    while (length := re.match(r"\d+", nested)) is not None:
        start, stop = length.end(), length.end() + int(length.group())
        found, nested = nested[start:stop], nested[stop:]
    return found if nested == "E" else ""
