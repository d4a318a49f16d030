"""What atomic additions do to images, and how often each place was added to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.instructions.atomic import Form, turns
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.traits import Space
from gemmsmith.sim.proof.images import BYTES, KINDS, NAMES, WHOLE, Image, Kind, part_of, retagged
from gemmsmith.sim.proof.moves import check_addresses
from gemmsmith.sim.proof.session import NoProof
from gemmsmith.sim.proof.wave import WaveImages
from gemmsmith.sim.ptx.types import DTYPES, Array


def update(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Callable[..., None]) -> None:
    """atom.add and red.add. Other updates only of plain values: flags, counters, locks."""
    form = step.detail
    assert isinstance(form, Form)
    assert step.access is not None
    check_addresses(wave, step, lanes)
    space, addresses = wave.machine.place_of(step, lanes)
    addresses = np.array(addresses)
    held = wave.load(step, space, addresses, lanes, step.access.width)
    given = any(wave.tagged(source, lanes) for source in step.sources)
    if held is None and not given:
        run()
        wave.clear(step, lanes)
        return
    kind = KINDS.get(form.kind)
    if form.op != "add" or kind is None:
        raise NoProof(f"an atomic {form.op} of data", step.first.instruction)
    size = BYTES[kind]
    places = [(n, at) for n in range(form.count) for at in range(0, step.access.element, size)]
    values = [wave.number(step, step.sources[n], lanes, kind, at).broadcast(addresses.shape) for n, at in places]
    before = [_real(wave, space, addresses, lanes, n * step.access.element + at, kind) for n, at in places]
    run()
    for (n, at), value, real in zip(places, values, before, strict=True):
        there = addresses + addresses.dtype.type(n * step.access.element + at)
        old = _add(wave, step, space, there, lanes, value, kind, real)
        if n < len(step.targets):
            wave.put_number(step.targets[n], lanes, old, kind, at)


def _real(wave: WaveImages, space: Space, addresses: Array, lanes: Lanes, offset: int, kind: Kind) -> Array:
    """What memory holds before the update."""
    at = addresses + addresses.dtype.type(offset)
    if space is Space.GLOBAL:
        raw = wave.machine.memory.gather(at, BYTES[kind])
    else:
        memory, bases = wave.machine.window(space, lanes)
        raw = memory.gather(memory.index(at, bases, BYTES[kind]), BYTES[kind])
    name = NAMES[kind]
    return raw.view(DTYPES["s" + name[1:] if kind in WHOLE else name]).astype(np.float64)


def _add(
    wave: WaveImages, step: Bundle[Any], space: Space, at: Array, lanes: Lanes, value: Image, kind: Kind, real: Array
) -> Image:  # fmt: skip
    """Lanes that meet at one address add one after another; what was there before each."""
    session, size = wave.session, BYTES[kind]
    shape = at.shape
    old = Image(np.zeros(shape, np.uint16), np.zeros(shape, np.uint64), np.zeros(shape, np.uint64))
    mine = wave.machine.indices(lanes)
    for turn in turns(at):
        some = mine[turn]
        units = wave.load(step, space, at[turn], some, size)
        if units is None:
            first, bad = wave.constant_image(real[turn]), None
        else:
            first, bad = session.joined(units, kind, [u.tag == 0 for u in units])
            first = wave.fill(first, real[turn])
        if bad is not None:
            raise NoProof("an atomic addition to other numbers", step.first.instruction)
        for into, values in zip((old.tag, old.element, old.tree), (first.tag, first.element, first.tree), strict=True):
            into[turn] = values
        added = session.add(first, value.at(turn), kind, NAMES[kind])
        tags = retagged(added.tag, kind)
        new = [Image(part_of(tags, n), added.element, added.tree)
               for n in range(size // session.unit)]  # fmt: skip
        wave.store(step, space, at[turn], some, size, new)
    wave.count_updates(space, at, lanes)
    return old
