"""Texture reads: tex, and tld4, which gathers one channel of four texels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import Source
from gemmsmith.sim.lowering.places import Lowering, Refused, items, operands
from gemmsmith.sim.lowering.traits import Access, Bundling, Counted, Effect, Mix, Profiled, Space
from gemmsmith.sim.memory.access_faults import LaneFault
from gemmsmith.sim.memory.global_memory import TextureObject
from gemmsmith.sim.memory.texture_filter import Axis, as_float, axis, combined, corners_of, four_channels, integer_axis
from gemmsmith.sim.memory.textures import TextureUnit, touched
from gemmsmith.sim.ptx.syntax import Instruction, Operand, Sampled
from gemmsmith.sim.ptx.types import DTYPES, Array
from gemmsmith.sim.races.global_shadow import Footprint

_DIMENSIONS = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2}
# The texels that tld4 returns, in the order of its results: (x, y) of the two by two.
_GATHERED = ((0, 1), (1, 1), (1, 0), (0, 0))


@dataclass(frozen=True)
class Read(Footprint):
    """What a texture instruction reads: ``coordinate`` is s32 or f32; ``component`` is the channel of tld4."""

    dimensions: int
    layered: bool
    result: str
    coordinate: str
    component: int | None = None

    def touched(self, state: Execution) -> list[tuple[Array, Array]]:
        return touched(state)


def _decode(m: Modifiers) -> Read:
    geometry = m["geometry"]
    return Read(_DIMENSIONS[geometry], geometry.startswith("a"), m["type"], m["coordinate"])


def _decode_gather(m: Modifiers) -> Read:
    return Read(2, False, m["type"], "f32", "rgba".index(m["component"]))


def _lower(code: Lowering, i: Instruction, form: Read) -> Draft[Read]:
    """A level of detail and gradients choose among mipmaps; a texture here has one level."""
    into, at, *_ = operands(i, 2, 3, 4)
    if not isinstance(at, Sampled):
        raise Refused
    targets = tuple([code.slot(target, form.result) for target in items(into, 4)])
    sources = (code.source(at.base, "u64"), *_coordinates(code, at.coordinates.items, form))
    return Draft(form, targets, sources, access=Access(Space.GLOBAL, Effect.READ, 4, 4, 16))


def _coordinates(code: Lowering, given: tuple[Operand, ...], form: Read) -> tuple[Source, ...]:
    """The layer, if there are layers, and a coordinate for each axis; PTX may add one that is ignored."""
    layer = (code.source(given[0], "u32"),) if form.layered else ()
    axes = given[len(layer) : len(layer) + form.dimensions]
    if len(axes) < form.dimensions:
        raise Refused
    return (*layer, *[code.source(each, form.coordinate) for each in axes])


def _execute(machine: Execution, step: Bundle[Read], lanes: Lanes) -> None:
    form, unit = step.detail, machine.unit(TextureUnit)
    mine = machine.indices(lanes)
    results = np.zeros((mine.size, 4), DTYPES[form.result])
    values = [machine.spread(machine.fetch(source, lanes), lanes) for source in step.sources]
    for texture, here in unit.objects(values[0], lanes, surface=False):
        results[here] = _read(unit, form, texture, [value[here] for value in values[1:]], mine[here])
    for n, target in enumerate(step.targets):
        machine.put(target, lanes, results[:, n])


def _read(unit: TextureUnit, form: Read, texture: TextureObject, at: list[Array], lanes: Array) -> Array:
    """The four results of each lane."""
    texels, sampling = texture.texels, texture.sampling
    assert sampling is not None
    _check(form, texture, lanes)
    layer = np.zeros(lanes.size, np.int64)
    if form.layered:
        layer = np.minimum(at[0].astype(np.int64), texels.layers - 1)  # as unsigned: below 0 is the last layer
        at = at[1:]
    gather = form.component is not None
    linear = sampling.filter == "linear" and form.coordinate == "f32" and not gather
    axes = []
    for n, coordinate in enumerate(at):
        if form.coordinate == "f32":
            axes.append(axis(coordinate, texels.extent[n], sampling.address[n], sampling, linear=linear, gather=gather))
        else:
            axes.append(integer_axis(coordinate, texels.extent[n]))
    if gather:
        return _gather(unit, form, texture, axes, layer, lanes)
    if not linear:
        return _result(form, _texels(unit, form, texture, axes, (0,) * len(axes), layer, lanes), texture)
    corners = corners_of(axes)
    found = [_texels(unit, form, texture, axes, corner.at, layer, lanes) for corner in corners]
    return four_channels(combined(found, corners), texels)


def _check(form: Read, texture: TextureObject, lanes: Array) -> None:
    """Refuse what the texture cannot give: these reads are undefined on a GPU."""
    del lanes
    texels, name = texture.texels, texture.name or "the texture"
    shape = f"{texels.dimensions}-D{' and layered' if texels.layers else ''}"
    if form.dimensions != texels.dimensions or form.layered != bool(texels.layers):
        wanted = f"{form.dimensions}-D{' and layered' if form.layered else ''}"
        raise LaneFault(0, f"{name} is {shape}, and the kernel reads it as a texture that is {wanted}")
    if texels.resource == "linear" and form.coordinate == "f32":
        raise LaneFault(0, f"{name} is linear memory, which tex1Dfetch reads, and the kernel calls tex1D: pass "
                        'resource="array"')  # fmt: skip
    if texels.resource == "array" and form.coordinate == "s32" and form.dimensions == 1:
        raise LaneFault(0, f"{name} is a CUDA array, and the kernel calls tex1Dfetch, which reads linear memory: pass "
                        'resource="linear"')  # fmt: skip
    floats = texels.dtype.kind == "f" or (texture.sampling is not None and texture.sampling.normalized_values)
    if floats != (form.result == "f32"):
        got, asked = ("floats", "integers") if floats else ("integers", "floats")
        raise LaneFault(0, f"{name} gives {got} ({texels.dtype}), and the kernel reads {asked}")


def _texels(
    unit: TextureUnit, form: Read, texture: TextureObject, axes: list[Axis], corner: tuple[int, ...], layer: Array,
    lanes: Array,
) -> Array:  # fmt: skip
    """The texels at one corner of each lane's neighbourhood, or the border's value: lanes x channels."""
    texels = texture.texels
    inside = np.ones(lanes.size, bool)
    index = []
    for each, which in zip(axes, corner, strict=True):
        inside &= each.inside[which]
        index.append(each.index[which])
    index += [np.zeros(lanes.size, np.int64)] * (3 - len(index))
    slices = layer if texels.layers else index[2]
    rows = slices * texels.rows + index[1]
    addresses = (texture.address + rows * texels.row_bytes + index[0] * texels.texel_bytes).astype(np.uint64)
    raw = unit.machine.memory.gather(addresses, texels.texel_bytes)
    values = np.ascontiguousarray(raw).view(texels.dtype).reshape(lanes.size, texels.channels)
    unit.note(lanes, addresses, inside)
    if not inside.all():
        values = values.copy()
        values[~inside] = _border(form, texture)
    return values


def _border(form: Read, texture: TextureObject) -> Array:
    """The value beyond the edge, in the texture's format; of integer coordinates it is 0."""
    texels, how = texture.texels, texture.sampling
    assert how is not None
    if form.coordinate == "s32":
        return np.zeros(texels.channels, texels.dtype)
    border = np.array(how.border[: texels.channels])
    if how.normalized_values:
        limits = np.iinfo(texels.dtype)
        border = np.clip(np.ceil(border * limits.max - 0.5), max(limits.min, -limits.max), limits.max)
    return border.astype(texels.dtype)


def _result(form: Read, values: Array, texture: TextureObject) -> Array:
    assert texture.sampling is not None
    found = as_float(values, texture.sampling) if form.result == "f32" else values.astype(DTYPES[form.result])
    return four_channels(found, texture.texels)


def _gather(
    unit: TextureUnit, form: Read, texture: TextureObject, axes: list[Axis], layer: Array, lanes: Array
) -> Array:
    found = [_result(form, _texels(unit, form, texture, axes, corner, layer, lanes), texture) for corner in _GATHERED]
    assert form.component is not None
    return np.stack([values[:, form.component] for values in found], axis=1)


_FORM = {"geometry": "1d 2d 3d a1d a2d", "type": "f32 s32 u32", "coordinate": "s32 f32", "lod": "level grad base"}
_COUNTS = Counted(Profiled(Mix.GLOBAL_LOAD))

RECORDS = (
    Record("tex.lod?.geometry.v4.type.coordinate", where=_FORM, decode=_decode, lower=_lower, execute=_execute,
           verb="texture read", counts=_COUNTS, bundling=Bundling.ALONE),
    Record("tld4.component.2d.v4.type.f32", where={"component": "r g b a", "type": "f32 s32 u32"},
           decode=_decode_gather, lower=_lower, execute=_execute, verb="texture read", counts=_COUNTS,
           bundling=Bundling.ALONE),
)  # fmt: skip
