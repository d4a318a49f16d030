"""What moves do to images: mov, loads, stores, copies, shuffles. Units move as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle, Operand
from gemmsmith.sim.instructions.async_copy import Arrive, Copy
from gemmsmith.sim.instructions.async_store import AsyncStore
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.traits import Space
from gemmsmith.sim.proof import images
from gemmsmith.sim.proof.images import Image, Kind, blank
from gemmsmith.sim.proof.session import NoProof, is_lost
from gemmsmith.sim.proof.wave import WaveImages
from gemmsmith.sim.ptx.types import Array

Run = Callable[..., None]


def check_addresses(wave: WaveImages, step: Bundle[Any], lanes: Lanes) -> None:
    for pointer in step.pointers:
        if pointer.base.constant is None and wave.tagged(pointer.base, lanes):
            raise NoProof("an address depends on data", step.first.instruction)


# -- registers ----------------------------------------------------------------------------------------


def move(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Run) -> None:
    """mov of whole registers; packing and unpacking."""
    unit = wave.session.unit
    parts: list[Image] = []
    for source in step.sources:
        count = _bytes(source, step) // unit
        constant = source.constant is not None or not wave.tagged(source, lanes)
        parts += [blank((1,)) if constant else wave.unit(source, lanes, n) for n in range(count)]
    numbers = getattr(step.detail, "numbers", None)
    run()
    if numbers is not None and len(step.sources) == 1:  # unpacking: which parts are wanted
        each = step.detail.width // unit
        _require(each, step)
        for target, number in zip(step.targets, numbers, strict=True):
            for n in range(each):
                wave.put_unit(target, lanes, n, parts[each * number + n])
        return
    target = step.targets[0]
    _require(wave.units[target.file] == len(parts), step)
    for n, part in enumerate(parts):
        wave.put_unit(target, lanes, n, part)


def _bytes(source: Operand, step: Bundle[Any]) -> int:
    """A packed part may lie in a wider register."""
    numbers = getattr(step.detail, "numbers", None)
    if numbers is not None and len(step.sources) > 1:
        return int(step.detail.width)
    return source.dtype.itemsize


def _require(holds: object, step: Bundle[Any]) -> None:
    if not holds:
        raise NoProof("moves a part of a number", step.first.instruction)


def shuffle(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Run) -> None:
    """shfl: run once with the numbers of lanes in place of values, to learn who reads whom."""
    machine = wave.machine
    mine = machine.indices(lanes)
    held = [np.array(np.broadcast_to(machine.fetch(s, lanes), mine.shape)) for s in step.sources]
    units = [wave.unit(step.sources[0], lanes, n).broadcast(mine.shape) for n in range(4 // wave.session.unit)]
    constant = tuple([Operand("", 0, s.dtype, h) for s, h in zip(step.sources, held, strict=True)])
    lanes_read = Operand("", 0, np.dtype(np.uint32), mine.astype(np.uint32))
    run(replace(step, sources=(lanes_read, *constant[1:])))
    read = np.searchsorted(mine, machine.fetch(step.targets[0], lanes).view(np.uint32).astype(np.int64))
    run(replace(step, sources=constant))
    for n, image in enumerate(units):
        wave.put_unit(step.targets[0], lanes, n, image.at(read))


# -- memory -------------------------------------------------------------------------------------------


def load(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Run) -> None:
    check_addresses(wave, step, lanes)
    machine = wave.machine
    if step.access is None:  # a parameter of the kernel
        base = step.pointers[0].base
        constant = base.constant is not None
        at: Array = np.atleast_1d(base.constant) if constant else machine.addresses(step.pointers[0], lanes, step.count)
        space, addresses, width = Space.PARAM, np.array(at), int(step.detail)
    else:
        space, addresses = machine.place_of(step, lanes)
        addresses, width = np.array(addresses), step.access.width
    run()
    units = wave.load(step, space, addresses, lanes, width)
    if units is None:
        wave.clear(step, lanes)
        return
    each = len(units) // len(step.targets)
    for n, target in enumerate(step.targets):
        _put_loaded(wave, step, target, lanes, units[n * each : (n + 1) * each])


def _put_loaded(wave: WaveImages, step: Bundle[Any], target: Operand, lanes: Lanes, units: list[Image]) -> None:
    """A signed byte may be extended to its register; of an unsigned one the other bytes are zeros."""
    room = wave.units[target.file]
    _require(len(units) <= room and units, step)
    if len(units) == room:
        for n, unit in enumerate(units):
            wave.put_unit(target, lanes, n, unit)
        return
    signed = target.dtype.kind == "i" and len(units) == 1 and wave.session.unit == 1
    extended = units[0].tag & images.FORMAT == Kind.S8 << 3 if signed else np.zeros(1, bool)
    for n in range(room):
        image = units[n] if n < len(units) else blank((1,))
        if extended.any():
            whole = Image(units[0].tag | np.uint16(n), units[0].element, units[0].tree)
            image = images.where(extended, whole, image)
        wave.put_unit(target, lanes, n, image)
    if target.dtype.kind == "i" and bool(((units[0].tag != 0) & ~extended & ~is_lost(units[0].tag)).any()):
        raise NoProof("extends the sign of a part of a number", step.first.instruction)


def store(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Run) -> None:
    assert step.access is not None
    check_addresses(wave, step, lanes)
    if isinstance(step.detail, AsyncStore):
        if step.detail.update:
            raise NoProof("adds to the shared memory of another block", step.first.instruction)
        space, addresses = Space.SHARED, wave.machine.addresses(step.pointers[0], lanes, step.count)
    else:
        space, addresses = wave.machine.place_of(step, lanes)
    addresses = np.array(addresses)
    width, unit = step.access.width, wave.session.unit
    each = width // len(step.sources)
    units: list[Image] | None = None
    if any(wave.tagged(source, lanes) for source in step.sources):
        _require(each >= unit, step)
        units = []
        for source in step.sources:
            constant = source.constant is not None or not wave.tagged(source, lanes)
            units += [blank((1,)) if constant else wave.unit(source, lanes, n) for n in range(each // unit)]
    run()
    wave.store(step, space, addresses, lanes, width, units)


def copy(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Run) -> None:
    """cp.async, which lands at once here; bytes beyond its size are zeros."""
    if isinstance(step.detail, Arrive) or "prefetch" in step.first.instruction.name:
        run()
        return
    if not isinstance(step.detail, Copy) or step.access is None:
        raise NoProof("copies in a way that is not followed", step.first.instruction)
    check_addresses(wave, step, lanes)
    machine, width, unit = wave.machine, step.access.width, wave.session.unit
    to, start = (np.array(machine.addresses(p, lanes, step.count)) for p in step.pointers)
    size = np.broadcast_to(step.detail.size(machine.fetch(step.sources[0], lanes), width), to.shape)
    run()
    some = size > 0
    units: list[Image] | None = None
    if some.any():
        source = np.where(some, start, start[some][0])
        units = wave.load(step, Space.GLOBAL, source, lanes, width if bool((size[some] == width).all()) else unit)
        if units is not None and len(units) < width // unit:
            units = [*units, *(_beyond(wave, step, source, lanes, n, size) for n in range(1, width // unit))]
    if units is not None:
        units = [images.where(size > n * unit, image, blank((1,))) for n, image in enumerate(units)]
        if bool((size % unit).any()):
            raise NoProof("copies a part of a number", step.first.instruction)
    wave.store(step, Space.SHARED, to, lanes, width, units)


def _beyond(wave: WaveImages, step: Bundle[Any], source: Array, lanes: Lanes, n: int, size: Array) -> Image:
    """Unit ``n`` of a copy, for those that are long enough."""
    unit = wave.session.unit
    some = size > n * unit
    if not some.any():
        return blank(source.shape)
    at = source + np.uint64(n * unit)
    found = wave.load(step, Space.GLOBAL, np.where(some, at, at[some][0]), lanes, unit)
    return blank(source.shape) if found is None else found[0]
