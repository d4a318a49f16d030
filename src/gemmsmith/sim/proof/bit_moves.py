"""Which units of a result are units of an operand: for prmt, shifts, masks and other moves of bits.

Units that have an image are replaced by random bits and the instruction is computed again, several times. A unit of
the result that always equals the same unit of an operand is that unit; one that never changes is plain.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.proof import images
from gemmsmith.sim.proof.images import Image, blank
from gemmsmith.sim.proof.wave import WaveImages
from gemmsmith.sim.ptx.types import Array

_PROBES = 10


def move_bits(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Callable[..., None]) -> None:
    """The rule of an instruction that one function of its operands computes."""
    if not callable(step.detail) or len(step.targets) != 1 or step.targets[0].file == "p":
        run()
        wave.put_lost(step, lanes, "computes with the bits of a number")
        return
    real = [np.atleast_1d(np.asarray(wave.machine.fetch(s, lanes))) for s in step.sources]
    known = [_units(wave, s, lanes, r) for s, r in zip(step.sources, real, strict=True)]
    into = step.targets[0]
    count, unit = wave.units[into.file], wave.session.unit
    random = Random(0)
    shape = np.broadcast_shapes(*(r.shape for r in real))
    same: dict[tuple[int, int, int], Array] = {}
    steady: list[Array] = [np.ones(shape, bool) for _ in range(count)]
    before: list[Array] = []
    for _ in range(_PROBES):
        probes = [[random.randrange(1 << (8 * unit)) for _ in of] for of in known]
        values = [_probed(r, of, p, unit) for r, of, p in zip(real, known, probes, strict=True)]
        result = _cut(np.asarray(step.detail(*values)), into.dtype, count, unit, shape)
        for n, part in enumerate(result):
            if before:
                steady[n] &= part == before[n]
            for s, of in enumerate(known):
                for u, image in enumerate(of):
                    equal = (part == probes[s][u]) & (image.tag != 0)
                    same[n, s, u] = same[n, s, u] & equal if (n, s, u) in same else equal
        before = result
    run()
    for n in range(count):
        found = blank(shape)
        left = ~steady[n]
        for s, of in enumerate(known):
            for u, image in enumerate(of):
                mine = same[n, s, u] & left
                if mine.any():
                    found, left = images.where(mine, image, found), left & ~mine
        if left.any():
            why = "computes with the bits of a number"
            found = images.where(left, wave.session.lose(shape, why, step.first.instruction), found)
        wave.put_unit(into, lanes, n, found)


def _units(wave: WaveImages, source: Any, lanes: Lanes, real: Array) -> list[Image]:
    unit = wave.session.unit
    count = max(0, real.dtype.itemsize // unit)
    if source.constant is not None or source.file == "p" or not wave.tagged(source, lanes):
        return []
    return [wave.unit(source, lanes, n) for n in range(min(count, wave.units[source.file]))]


def _probed(real: Array, of: list[Image], probes: list[int], unit: int) -> Array:
    if not of:
        return real
    raw = np.ascontiguousarray(real).view(f"u{real.dtype.itemsize}")
    for n, (image, probe) in enumerate(zip(of, probes, strict=True)):
        mask = ((1 << (8 * unit)) - 1) << (8 * unit * n)
        raw = np.where(image.tag != 0, (raw & raw.dtype.type(~mask % (1 << (8 * raw.dtype.itemsize))))
                       | raw.dtype.type(probe << (8 * unit * n)), raw)  # fmt: skip
    return raw.view(real.dtype)


def _cut(result: Array, dtype: np.dtype[Any], count: int, unit: int, shape: tuple[int, ...]) -> list[Array]:
    """The units of a result as it lies in its register."""
    wide = np.asarray(result).astype(dtype)
    if dtype.itemsize < count * unit:
        wide = wide.astype(f"{dtype.kind if dtype.kind in 'iu' else 'u'}{count * unit}")
    raw = np.ascontiguousarray(np.broadcast_to(wide, shape)).view(f"u{wide.dtype.itemsize}")
    return [(raw >> raw.dtype.type(8 * unit * n)).astype(f"u{unit}") for n in range(count)]
