"""What TMA and wgmma do to images: boxes land at once here, and a product of a warpgroup is one for each warp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.instructions.bulk_copy import Moved, Transfer, moved_elements
from gemmsmith.sim.instructions.wgmma import Product, element_positions
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.traits import Space
from gemmsmith.sim.proof import images
from gemmsmith.sim.proof.arithmetic import has_constants
from gemmsmith.sim.proof.images import BYTES, KINDS, Image, Kind, blank
from gemmsmith.sim.proof.matrices import fragment, gathered, places_of, product, put_fragment
from gemmsmith.sim.proof.moves import check_addresses
from gemmsmith.sim.proof.session import NoProof, is_lost
from gemmsmith.sim.proof.wave import WaveImages
from gemmsmith.sim.ptx.types import Array

Run = Callable[..., None]
_ROWS = 16  # of a warp in a product of a warpgroup


def bulk_copy(wave: WaveImages, step: Bundle[Transfer], lanes: Lanes, run: Run) -> None:
    """cp.async.bulk and cp.async.bulk.tensor between global and shared memory."""
    form, machine = step.detail, wave.machine
    if form.reduce is not None or (form.to_shared and form.from_shared):
        raise NoProof("copies in a way that is not followed", step.first.instruction)
    check_addresses(wave, step, lanes)
    if any(wave.tagged(source, lanes) for source in step.sources):
        raise NoProof("a coordinate depends on data", step.first.instruction)
    run()
    for moved in moved_elements(machine, step, lanes):
        if moved.rounds:
            raise NoProof("rounds to tf32 while it copies", step.first.instruction)
        if form.to_shared:
            _loaded(wave, step, lanes, moved)
        else:
            _stored(wave, step, lanes, moved)


def _loaded(wave: WaveImages, step: Bundle[Transfer], lanes: Lanes, moved: Moved) -> None:
    """Elements outside the tensor are plain zeros or NaN."""
    unit, inside = wave.session.unit, moved.inside
    units = wave.load(step, Space.GLOBAL, moved.addresses[inside], lanes, moved.itemsize) if inside.any() else None
    for positions in moved.shared:
        for n in range(max(1, moved.itemsize // unit)):
            image: Image | None = None
            if units is not None:
                image = blank(inside.shape)
                for into, found in zip((image.tag, image.element, image.tree), _parts(units[n]), strict=True):
                    into[inside] = found
            wave.shared.write(positions // unit + n, image)


def _stored(wave: WaveImages, step: Bundle[Transfer], lanes: Lanes, moved: Moved) -> None:
    unit, inside = wave.session.unit, moved.inside
    if not inside.any():
        return
    positions = moved.shared[0][inside]
    if moved.itemsize < unit:
        raise NoProof("writes a part of a number", step.first.instruction)
    found = [wave.shared.read(positions // unit + n) for n in range(moved.itemsize // unit)]
    units = [blank(positions.shape) if image is None else image for image in found] if any(found) else None
    wave.store(step, Space.GLOBAL, moved.addresses[inside], lanes, moved.itemsize, units)


def _parts(image: Image) -> tuple[Array, Array, Array]:
    return image.tag, image.element, image.tree


# -- wgmma --------------------------------------------------------------------------------------------


def multiply(wave: WaveImages, step: Bundle[Product], lanes: Lanes, run: Run) -> None:
    """D = A·B + D, or A·B: A from shared memory or registers, B from shared memory."""
    detail, form, machine = step.detail, step.detail.form, wave.machine
    kinds = [KINDS.get(kind) for kind in (form.a, form.b, form.d)]
    if None in kinds or step.count != 1 or form.sparse:
        raise NoProof("multiplies matrices of a type that is not followed", step.first.instruction)
    ka, kb, kd = (Kind(kind) for kind in kinds if kind is not None)
    of_a = step.sources[:4] if detail.a_in_registers else step.sources[:1]
    plain = step.sources[len(of_a) :] if detail.a_in_registers else step.sources
    if any(wave.tagged(source, lanes) for source in plain):
        raise NoProof("a descriptor depends on data", step.first.instruction)
    a_at, b_at, keep = element_positions(machine, step, lanes)
    if a_at is None:
        a = fragment(gathered(wave, step, lanes, of_a, ka), places_of("a", 4, form.size, _ROWS))
    else:
        a = _shared_numbers(wave, step, a_at, ka)
    b = _shared_numbers(wave, step, b_at, kb)
    places = _accumulators(form.columns, form.accumulator)
    c = fragment(gathered(wave, step, lanes, step.targets, kd), places)
    c = images.where(np.broadcast_to(keep, c.tag.shape), c, blank(c.tag.shape))
    a = wave.session.negative(a) if detail.negate_a else a
    b = wave.session.negative(b) if detail.negate_b else b
    total = product(wave, a, b, c, form.a, kd)
    if has_constants(total):
        run()
    put_fragment(wave, step, lanes, total, places, kd)


def _accumulators(columns: int, size: int) -> tuple[Array, Array, Array]:
    """(register, element, lane) of each accumulator (16, columns) of a warp."""
    register, element, lane = places_of("c", size, size, _ROWS)
    tiles = np.arange(columns // 8)
    across = np.concatenate([register + size * tile for tile in tiles], axis=1)
    return across, np.tile(element, (1, tiles.size)), np.tile(lane, (1, tiles.size))


def _shared_numbers(wave: WaveImages, step: Bundle[Any], at: Array, kind: Kind) -> Image:
    """The numbers at these positions of the wave's shared memory; constants have the images of their values."""
    session, size, cells = wave.session, BYTES[kind], wave.shared
    real = wave.shared_values(at, kind)
    if cells.content is None:
        return wave.constants_in(step, None, real)
    if size < session.unit:
        raise NoProof("takes parts out of numbers", step.first.instruction)
    units = [cells.content.at(at // session.unit + n) for n in range(size // session.unit)]
    image, bad = session.joined(units, kind, [np.asarray(real == 0) for _ in units])
    if bad is not None:
        for unit in units:
            image = images.where(is_lost(unit.tag), unit, image)
        why = f"reads the bits of other numbers as {images.NAMES[kind]}"
        image = images.where(bad & ~is_lost(image.tag), session.lose(bad.shape, why, step.first.instruction), image)
    return wave.constants_in(step, image, real)
