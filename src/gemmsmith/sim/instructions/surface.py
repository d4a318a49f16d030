"""Surface reads and writes: suld and sust of bytes (``.b``). x counts bytes; other coordinates count texels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.memory import joined, put_vector
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import FILE_DTYPES, Pointer, Slot
from gemmsmith.sim.lowering.places import Lowering, Refused, items, operands
from gemmsmith.sim.lowering.traits import Access, Bundling, Counted, Effect, Mix, Profiled, Space
from gemmsmith.sim.memory.access_faults import LaneFault
from gemmsmith.sim.memory.global_memory import RAW, TextureObject
from gemmsmith.sim.memory.textures import TextureUnit, touched
from gemmsmith.sim.ptx.syntax import Instruction, Operand, Register, Sampled
from gemmsmith.sim.ptx.types import TYPE_BYTES, Array
from gemmsmith.sim.races.global_shadow import Footprint

_DIMENSIONS = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2}


@dataclass(frozen=True)
class SurfaceAccess(Footprint):
    """``mode`` is what happens beyond the edge: trap, clamp or zero."""

    dimensions: int
    layered: bool
    count: int
    kind: str
    mode: str

    @property
    def width(self) -> int:
        return self.count * TYPE_BYTES[self.kind]

    def access(self, effect: Effect) -> Access:
        return Access(Space.GLOBAL, effect, self.width, TYPE_BYTES[self.kind], self.width)

    def touched(self, state: Execution) -> list[tuple[Array, Array]]:
        return touched(state)


def _decode(m: Modifiers) -> SurfaceAccess:
    geometry = m["geometry"]
    form = SurfaceAccess(_DIMENSIONS[geometry], geometry.startswith("a"), int(m.get("vec", "v1")[1:]), m["type"],
                         m.get("mode", "trap"))  # fmt: skip
    if form.width > 16:
        raise Refused
    return form


def _lower_read(code: Lowering, i: Instruction, form: SurfaceAccess) -> Draft[SurfaceAccess]:
    into, at = operands(i, 2)
    targets = tuple([code.slot(target, form.kind) for target in items(into, form.count)])
    return Draft(form, targets, (), _place(code, at, form), form.access(Effect.READ))


def _lower_write(code: Lowering, i: Instruction, form: SurfaceAccess) -> Draft[SurfaceAccess]:
    at, values = operands(i, 2)
    sources = tuple([code.source(source, form.kind) for source in items(values, form.count)])
    return Draft(form, (), sources, _place(code, at, form), form.access(Effect.WRITE))


def _place(code: Lowering, at: Operand, form: SurfaceAccess) -> tuple[Pointer, ...]:
    """The surface, the layer if there are layers, and the coordinates, as pointers: they say where, not what."""
    if not isinstance(at, Sampled):
        raise Refused
    needed = form.dimensions + form.layered
    if len(at.coordinates.items) < needed:
        raise Refused
    return (_pointer(code, at.base, "u64"), *[_pointer(code, each, "u32") for each in at.coordinates.items[:needed]])


def _pointer(code: Lowering, operand: Operand, kind: str) -> Pointer:
    if isinstance(operand, Register):
        file, row = code.rows[operand.name]
        return Pointer(Slot(file, row, FILE_DTYPES[file]), 0)
    return Pointer(code.source(operand, kind), 0)


def _read(machine: Execution, step: Bundle[SurfaceAccess], lanes: Lanes) -> None:
    raw = np.zeros(machine.indices(lanes).size, RAW[step.detail.width])
    for here, inside, addresses in _addresses(machine, step, lanes):
        if inside.any():
            raw[here[inside]] = machine.memory.gather(addresses[inside], step.detail.width)
    put_vector(machine, step, lanes, raw)


def _write(machine: Execution, step: Bundle[SurfaceAccess], lanes: Lanes) -> None:
    size = machine.indices(lanes).size
    columns = [np.broadcast_to(machine.fetch(source, lanes), (size,)) for source in step.sources]
    values = joined(columns, step.detail.width)
    for here, inside, addresses in _addresses(machine, step, lanes):
        if inside.any():
            machine.memory.scatter(addresses[inside], step.detail.width, values[here[inside]])


def _addresses(machine: Execution, step: Bundle[SurfaceAccess], lanes: Lanes) -> list[tuple[Array, Array, Array]]:
    """For each surface: the positions of its lanes, which of them are inside, and the address of each."""
    form, unit, mine = step.detail, machine.unit(TextureUnit), machine.indices(lanes)
    handles, *at = [machine.addresses(pointer, lanes, 1) for pointer in step.pointers]
    found = []
    for surface, here in unit.objects(handles, lanes, surface=True):
        places = [each[here].astype(np.uint32).view(np.int32).astype(np.int64) for each in at]
        addresses, inside = _within(form, surface, places, here)
        unit.note(mine[here], addresses, inside)
        found.append((here, inside, addresses))
    return found


def _within(form: SurfaceAccess, surface: TextureObject, at: list[Array], here: Array) -> tuple[Array, Array]:
    """The address of each access, and whether it is inside; raises for one that traps."""
    texels, name = surface.texels, surface.name or "the surface"
    if form.dimensions != texels.dimensions or form.layered != bool(texels.layers):
        shape = f"{texels.dimensions}-D{' and layered' if texels.layers else ''}"
        wanted = f"{form.dimensions}-D{' and layered' if form.layered else ''}"
        raise LaneFault(int(here[0]), f"{name} is {shape}, and the kernel accesses a surface that is {wanted}")
    layer, axes = (at[0], at[1:]) if form.layered else (np.zeros(here.size, np.int64), at)
    row = texels.extent[0] * texels.texel_bytes
    limits = [row - form.width, *[extent - 1 for extent in texels.extent[1 : len(axes)]]]
    names = ["x (in bytes)", "y", "z"]
    checks = [*zip(names, axes, limits, strict=False), *([("layer", layer, texels.layers - 1)] if form.layered else [])]
    inside = np.ones(here.size, bool)
    for label, each, limit in checks:
        inside &= (each >= 0) & (each <= limit)
        if form.mode == "trap" and not inside.all():
            first = int(np.argmin(inside))
            raise LaneFault(int(here[first]), f"out-of-bounds surface access: {label} is {int(each[first])}, and "
                            f"{name} has 0 to {limit}; cudaBoundaryModeZero or Clamp would allow it")  # fmt: skip
    if (axes[0] % form.width).any():
        first = int(np.argmax(axes[0] % form.width != 0))
        raise LaneFault(int(here[first]), f"misaligned surface access: x is {int(axes[0][first])} bytes, which must be "
                        f"a multiple of {form.width} (x counts bytes)")  # fmt: skip
    if form.mode == "clamp":
        inside = np.ones(here.size, bool)
    clipped = [np.clip(each, 0, limit) for _, each, limit in checks]
    x, others = clipped[0], clipped[1 : len(axes)]
    y = others[0] if others else np.zeros(here.size, np.int64)
    z = clipped[-1] if form.layered else others[1] if len(others) > 1 else np.zeros(here.size, np.int64)
    return (surface.address + (z * texels.rows + y) * row + x).astype(np.uint64), inside


_FORM = {"geometry": "1d 2d 3d a1d a2d", "vec": "v2 v4", "type": "b8 b16 b32 b64", "mode": "trap clamp zero",
         "hint": "ca cg cs cv wb wt"}  # fmt: skip

RECORDS = (
    Record("suld.b.geometry.hint?.vec?.type.mode?", where=_FORM, decode=_decode, lower=_lower_read, execute=_read,
           verb="surface read", counts=Counted(Profiled(Mix.GLOBAL_LOAD)), bundling=Bundling.ALONE),
    Record("sust.b.geometry.hint?.vec?.type.mode?", where=_FORM, decode=_decode, lower=_lower_write, execute=_write,
           verb="surface write", counts=Counted(Profiled(Mix.GLOBAL_STORE)), bundling=Bundling.ALONE),
)  # fmt: skip
