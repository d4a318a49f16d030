"""tensormap.replace and tensormap.cp_fenceproxy: tensor maps that a kernel changes, and their fences.

A thread changes one field of a map of 128 bytes in shared or global memory. A copy reads the map when it is issued. The
fences change nothing here, where memory is consistent at all times, but a copy that lacks one is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gemmsmith.errors import UnsupportedError
from gemmsmith.kernel.geometry import TensorMap
from gemmsmith.kernel.signature import MAP_BYTES
from gemmsmith.problem import UINT8
from gemmsmith.run.map_types import MAP_TYPES
from gemmsmith.run.tensor_map import decode_simulated, encode_simulated
from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record, no_form
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.lowering.places import Lowering, Refused, literal, operands
from gemmsmith.sim.lowering.traits import Bundling, Counted, Executed, Space
from gemmsmith.sim.memory.access_faults import LaneFault
from gemmsmith.sim.memory.global_memory import RAW, resolve_generic
from gemmsmith.sim.memory.map_changes import MapChanges
from gemmsmith.sim.ptx.syntax import Instruction
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.wave import WARP

_CHUNK = 16
_LARGEST_RANK = 5
_WIDE = ("global_address", "global_stride")  # fields of 64 bits
_SWIZZLES, _INTERLEAVES = (0, 32, 64, 128), (0, 16, 32)
# 128 zeros, from which a kernel makes a map field by field
_BLANK = TensorMap("a tensor", UINT8, (1,) * _LARGEST_RANK, (0,) * (_LARGEST_RANK - 1), (1,) * _LARGEST_RANK)


@dataclass(frozen=True)
class Field:
    """The field that is replaced, and the state space of the map; None is generic."""

    name: str
    space: Space | None


def _put(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    if at >= len(values):
        raise LaneFault(0, f"tensormap.replace of dimension {at} in a map that has {len(values)}")
    return (*values[:at], value, *values[at + 1 :])


def _one_of(what: str, known: tuple[int, ...], value: int) -> int:
    if value >= len(known):
        raise LaneFault(0, f"tensormap.replace with {value} as the {what}: it must be 0 to {len(known) - 1}")
    return known[value]


def _rank(old: TensorMap, value: int) -> TensorMap:
    """The field holds the rank less one. New dimensions have one element."""
    rank = value + 1
    if not 1 <= rank <= _LARGEST_RANK:
        raise LaneFault(0, f"tensormap.replace with a rank of {rank}: it must be 1 to {_LARGEST_RANK}")

    def resized(values: tuple[int, ...], count: int, new: int) -> tuple[int, ...]:
        return (*values[:count], *[new] * (count - len(values)))

    return replace(old, extents=resized(old.extents, rank, 1), strides=resized(old.strides, rank - 1, 0),
                   box=resized(old.box, rank, 1), steps=resized(old.steps, rank, 1) if old.steps else ())  # fmt: skip


def _element_type(old: TensorMap, value: int) -> TensorMap:
    found = next((each.dtype for each in MAP_TYPES if each.ptx == value), None)
    if found is None:
        raise LaneFault(0, f"tensormap.replace with {value} as the element type: it must be 0 to 12")
    return replace(old, dtype=found)


# What each field does with the map, the number of a dimension, and the new value.
_FIELDS: dict[str, Callable[[TensorMap, int, int], TensorMap]] = {
    "global_address": lambda old, at, value: old,  # noqa: ARG005 - it is not in the description
    "rank": lambda old, at, value: _rank(old, value),  # noqa: ARG005
    "box_dim": lambda old, at, value: replace(old, box=_put(old.box, at, value)),
    "global_dim": lambda old, at, value: replace(old, extents=_put(old.extents, at, value)),
    "global_stride": lambda old, at, value: replace(old, strides=_put(old.strides, at, value)),
    "element_stride": lambda old, at, value: replace(old, steps=_put(old.steps or (1,) * len(old.extents), at, value)),
    "elemtype": lambda old, at, value: _element_type(old, value),  # noqa: ARG005
    "interleave_layout": lambda old, at, value: replace(  # noqa: ARG005
        old, interleave=_one_of("interleave layout", _INTERLEAVES, value)
    ),
    "swizzle_mode": lambda old, at, value: replace(  # noqa: ARG005
        old, swizzle=_one_of("swizzle mode", _SWIZZLES, value)
    ),
    "fill_mode": lambda old, at, value: replace(  # noqa: ARG005
        old, nan_fill=bool(_one_of("fill mode", (0, 1), value))
    ),
}
_ORDINAL = ("box_dim", "global_dim", "global_stride", "element_stride")


def _decode(m: Modifiers) -> Field:
    if (m["type"] == "b64") != (m["field"] in _WIDE):
        raise Refused
    space = {"global": Space.GLOBAL, "shared::cta": Space.SHARED}.get(m.get("space", ""))
    return Field(m["field"], space)


def _lower(code: Lowering, i: Instruction, form: Field) -> Draft[Field]:
    at, *ordinal, value = operands(i, 3 if form.name in _ORDINAL else 2)
    kind = "u64" if form.name in _WIDE else "u32"
    sources = (code.source(value, kind), *[code.source(each, "u32") for each in ordinal])
    return Draft(form, (), sources, (code.pointer(at),))


def _replace(machine: Execution, step: Bundle[Field], lanes: Lanes) -> None:
    form = step.detail
    addresses = machine.addresses(step.pointers[0], lanes, 1)
    sources = [machine.spread(machine.fetch(source, lanes), lanes) for source in step.sources]
    for n, lane in enumerate(machine.indices(lanes).tolist()):
        value, dimension = int(sources[0][n]), int(sources[1][n]) if len(sources) > 1 else 0
        data = _read(machine, form.space, lane, int(addresses[n]))
        try:
            old, where = decode_simulated(data) if any(data) else (_BLANK, 0)
        except UnsupportedError:
            raise LaneFault(n, f"tensormap.replace at {int(addresses[n]):#x}: no tensor map is there, nor 128 zeros "
                            "to make one of") from None  # fmt: skip
        try:
            new = _FIELDS[form.name](old, dimension, value)
        except LaneFault as fault:
            raise LaneFault(n, fault.detail) from None
        where = value if form.name == "global_address" else where
        _write(machine, form.space, lane, int(addresses[n]), encode_simulated(new, where))
        _note(machine, step.first, form.space, lane, int(addresses[n]))


def _place(machine: Execution, space: Space | None, lane: int, address: int) -> tuple[Space, Array]:
    """The space, and the addresses or positions of the chunks of a map."""
    start = np.array([address], np.uint64)
    if space is None:
        space, start = resolve_generic(start)
    chunks = start.astype(np.uint64) + np.arange(0, MAP_BYTES, _CHUNK).astype(np.uint64)
    if space is Space.SHARED:
        chunks = machine.shared.index(chunks.astype(np.int64), machine.shared_base[np.array([lane])], _CHUNK)
    return space, chunks


def _read(machine: Execution, space: Space | None, lane: int, address: int) -> bytes:
    found, chunks = _place(machine, space, lane, address)
    memory = machine.shared if found is Space.SHARED else machine.memory
    return memory.gather(chunks, _CHUNK).tobytes()


def _write(machine: Execution, space: Space | None, lane: int, address: int, data: bytes) -> None:
    found, chunks = _place(machine, space, lane, address)
    memory = machine.shared if found is Space.SHARED else machine.memory
    memory.scatter(chunks, _CHUNK, np.frombuffer(data, RAW[_CHUNK]))


# -- to global memory, and fences ---------------------------------------------------------------------


def _lower_copy(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    to, start, size = operands(i, 3)
    if literal(size) != MAP_BYTES:
        raise Refused
    return Draft(None, (), (), (code.pointer(to), code.pointer(start)))


def _copy(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    """All threads of a warp execute it with the same addresses, and copy the map once."""
    where = machine.indices(lanes)
    to, start = (np.broadcast_to(machine.addresses(pointer, lanes, 1), where.shape) for pointer in step.pointers)
    warps = machine.block[where] << 16 | machine.thread[where] // WARP
    for first in np.unique(warps, return_index=True)[1].tolist():
        lane = int(where[first])
        _write(machine, Space.GLOBAL, lane, int(to[first]), _read(machine, Space.SHARED, lane, int(start[first])))
        _note(machine, step.first, Space.GLOBAL, lane, int(to[first]))


def _note(machine: Execution, operation: Operation[Any], space: Space | None, lane: int, address: int) -> None:
    """A map in global memory has changed."""
    found, chunks = _place(machine, space, lane, address)
    if found is Space.GLOBAL:
        machine.unit(MapChanges).changed(operation, lane, int(chunks[0]))


def _acquires(m: Modifiers) -> bool:
    return m["order"] == "acquire"


def _lower_fence(code: Lowering, i: Instruction, acquires: bool) -> Draft[bool]:
    """An acquire names the map; a release names nothing."""
    if not acquires:
        operands(i, 0)
        return Draft(False)
    at, size = operands(i, 2)
    if literal(size) != MAP_BYTES:
        raise Refused
    return Draft(True, (), (), (code.pointer(at),))


def _fence(machine: Execution, step: Bundle[bool], lanes: Lanes) -> None:
    if step.detail:
        addresses = np.asarray(machine.addresses(step.pointers[0], lanes, 1), np.uint64)
        machine.unit(MapChanges).acquired(machine.indices(lanes), np.broadcast_to(
            resolve_generic(addresses)[1], machine.indices(lanes).shape))  # fmt: skip


_SCOPES = {"scope": "cta cluster gpu sys"}

RECORDS = (
    Record("tensormap.replace.tile.field.space?.b1024.type",
           where={"field": " ".join(_FIELDS), "space": "global shared::cta", "type": "b32 b64"}, decode=_decode,
           lower=_lower, execute=_replace, called="tensormap.replace", bundling=Bundling.BOUNDARY),
    Record("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned", where=_SCOPES,
           decode=no_form, lower=_lower_copy, execute=_copy, called="tensormap.cp_fenceproxy",
           bundling=Bundling.BOUNDARY),
    Record("fence.proxy.tensormap::generic.order.scope", where={**_SCOPES, "order": "acquire release"},
           decode=_acquires, lower=_lower_fence, execute=_fence, bundling=Bundling.BOUNDARY,
           counts=Counted(executed=Executed.NEVER)),
)  # fmt: skip
