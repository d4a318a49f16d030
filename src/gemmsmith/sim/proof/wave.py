"""The images of one wave: beside its registers, and beside the shared and local memory of its blocks and threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle, Operand
from gemmsmith.sim.calls import CallStack, Copy
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import FILE_DTYPES
from gemmsmith.sim.lowering.traits import Space
from gemmsmith.sim.memory.window_memory import WindowMemory
from gemmsmith.sim.proof import field, images
from gemmsmith.sim.proof.images import BYTES, DATA, Cells, Image, Kind, blank
from gemmsmith.sim.proof.session import NoProof, Session, is_lost
from gemmsmith.sim.ptx.types import DTYPES, Array

_REAL = {Kind.F16: "f16", Kind.BF16: "bf16", Kind.F32: "f32", Kind.F64: "f64", Kind.S8: "s8", Kind.U8: "u8",
         Kind.I16: "s16", Kind.I32: "s32", Kind.I64: "s64"}  # fmt: skip


_Place = tuple[int, Cells | None, Array, Array | None]


class WaveImages:
    """Images of registers by file: one for each unit of each row. ``ever``: rows that ever had one."""

    def __init__(self, machine: Execution, session: Session) -> None:
        self.machine, self.session = machine, session
        unit, lanes = session.unit, machine.wave.lanes
        heights = machine.lowered.heights
        self.units = {f: FILE_DTYPES[f].itemsize // unit for f in heights}
        self.files = {f: blank((self.units[f], h, lanes)) for f, h in heights.items()}
        self.ever = {f: np.zeros(h, bool) for f, h in heights.items()}
        self.shared = Cells(machine.shared.data.size // unit)
        self.local = Cells(machine.local.data.size // unit)
        self._shared_updates: Array | None = None
        machine._units[CallStack] = _CallStack(machine, self)

    # -- registers --------------------------------------------------------------------------------

    def tagged(self, operand: Operand, lanes: Lanes) -> bool:
        """Whether a register has an image in any of these lanes."""
        if operand.constant is not None or not self._ever(operand):
            return False
        content = self.files[operand.file]
        return any(_pick(content.tag[u], operand.rows, lanes).any() for u in range(self.units[operand.file]))

    def _ever(self, operand: Operand) -> bool:
        rows, ever = operand.rows, self.ever[operand.file]
        if isinstance(rows, int):
            if rows >= ever.size:
                self._check_apart()
                return False
            return bool(ever[rows])
        return bool(ever[rows].any())

    def _check_apart(self) -> None:
        """Lanes that execute one instruction at different places have spare registers there, without images."""
        for step, lanes in self.machine.apart:
            if any(self.tagged(source, lanes) for source in step.sources):
                raise NoProof("lanes of a warp exchange values of the matrices from different places of the program",
                              step.first.instruction)  # fmt: skip
            self.clear(step, lanes)

    def unit(self, operand: Operand, lanes: Lanes, number: int) -> Image:
        content = self.files[operand.file]
        return Image(*(_pick(x[number], operand.rows, lanes) for x in (content.tag, content.element, content.tree)))

    def put_unit(self, operand: Operand, lanes: Lanes, number: int, image: Image | None) -> None:
        """None makes the unit plain."""
        if image is not None:
            self.ever[operand.file][operand.rows] = True
        elif not self._ever(operand):
            return
        content = self.files[operand.file]
        _place(content.tag[number], operand.rows, lanes, 0 if image is None else image.tag)
        if image is not None:
            _place(content.element[number], operand.rows, lanes, image.element)
            _place(content.tree[number], operand.rows, lanes, image.tree)

    def clear(self, step: Bundle[Any], lanes: Lanes) -> None:
        """The targets hold plain values."""
        for target in step.targets:
            if self._ever(target):
                for number in range(self.units[target.file]):
                    self.put_unit(target, lanes, number, None)

    # -- numbers ----------------------------------------------------------------------------------

    def number(self, step: Bundle[Any], operand: Operand, lanes: Lanes, kind: Kind, at: int = 0) -> Image:
        """The numbers of a kind that lie ``at`` bytes into a register; constants have the images of their values."""
        image, bad = self.read(operand, lanes, kind, at)
        if bad is not None and image is not None:
            what = f"reads the bits of other numbers as {images.NAMES[kind]}"
            image = images.where(bad & ~is_lost(image.tag), self.session.lose(bad.shape, what, step.first.instruction),
                                 image)  # fmt: skip
        return self.with_constants(step, operand, lanes, kind, at, image)

    def read(self, operand: Operand, lanes: Lanes, kind: Kind, at: int = 0) -> tuple[Image | None, Array | None]:
        """Numbers, and where there are none of this kind; None if all are plain."""
        if operand.constant is not None or not self._ever(operand):
            return None, None
        unit = self.session.unit
        if BYTES[kind] < unit or at % unit:
            if self.tagged(operand, lanes):
                raise NoProof(f"takes {images.NAMES[kind]} numbers out of wider ones")
            return None, None
        first, count = at // unit, BYTES[kind] // unit
        units = [self.unit(operand, lanes, first + n) for n in range(count)]
        if not any(u.tag.any() for u in units):
            return None, None
        zero = (
            [self._raw(operand, lanes, np.dtype(f"u{unit}"), at + n * unit) == 0 for n in range(count)]
            if count > 1
            else []
        )
        image, bad = self.session.joined(units, kind, zero)
        if bad is not None and self.session.lost:
            for u in units:
                gone = is_lost(u.tag)
                image = images.where(gone, u, image)
        return image, bad

    def with_constants(
        self, step: Bundle[Any], operand: Operand, lanes: Lanes, kind: Kind, at: int, image: Image | None
    ) -> Image:
        if image is not None and not image.plain:
            return image
        return self.constants_in(step, image, self._raw(operand, lanes, DTYPES[_REAL[kind]], at).astype(np.float64))

    def shared_values(self, positions: Array, kind: Kind) -> Array:
        """Real values at positions of the wave's shared memory."""
        dtype = DTYPES[_REAL[kind]]
        raw = np.ascontiguousarray(self.machine.shared.gather(positions, dtype.itemsize))
        return raw.view(dtype).reshape(positions.shape).astype(np.float64)

    def constants_in(self, step: Bundle[Any], image: Image | None, wide: Array) -> Image:
        """Numbers, and the images of the real values where they are plain."""
        if image is not None and not image.plain:
            return image
        if image is not None:
            wide = np.where(image.tag == 0, wide, 0.0)
        finite = np.isfinite(wide)
        if finite.all():
            return self.fill(image, wide)
        found = self.fill(image, np.where(finite, wide, 1.0))
        why = "computes with a number that was never set, or is not finite"
        return images.where(finite, found, self.session.lose(wide.shape, why, step.first.instruction))

    def fill(self, image: Image | None, real: Array) -> Image:
        """Numbers, and the images of finite constants where they are plain."""
        if image is not None:
            real = np.where(image.tag == 0, real, 0.0)
        found = self.constant_image(real)
        return found if image is None else images.where(image.tag == 0, found, image)

    def constant_image(self, real: Array) -> Image:
        if not real.any():
            return images.blank(real.shape)
        return Image(np.zeros(real.shape, np.uint16), field.image(real), self.session.trees.constants(real))

    def _raw(self, operand: Operand, lanes: Lanes, kind: np.dtype[Any], at: int) -> Array:
        """Real values of a register's part."""
        values = np.atleast_1d(np.asarray(self.machine.fetch(operand, lanes)))
        if values.dtype.itemsize == kind.itemsize and at == 0:
            return np.ascontiguousarray(values).view(kind)
        raw = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
        part: Array = (raw >> raw.dtype.type(8 * at)).astype(f"u{kind.itemsize}").view(kind)
        return part

    def put_number(
        self, operand: Operand, lanes: Lanes, image: Image, kind: Kind, at: int = 0, nbytes: int = 0
    ) -> None:
        """Write numbers; ``nbytes``: more than their own, for bytes that were extended."""
        unit = self.session.unit
        if BYTES[kind] < unit:
            raise NoProof(f"makes {images.NAMES[kind]} numbers in a program of wider ones")
        tag = images.retagged(image.tag, kind)
        for n in range((nbytes or BYTES[kind]) // unit):
            part = Image(tag if n == 0 else images.part_of(tag, n), image.element, image.tree)
            self.put_unit(operand, lanes, at // unit + n, part)

    def put_lost(self, step: Bundle[Any], lanes: Lanes, why: str) -> None:
        """All targets are lost, where a source had an image; comparisons end the proof."""
        shape: tuple[int, ...] = self.machine.indices(lanes).shape
        lost = self.session.lose(shape, why, step.first.instruction)
        for target in step.targets:
            if target.file == "p":
                raise NoProof(why, step.first.instruction)
            for n in range(self.units[target.file]):
                self.put_unit(target, lanes, n, lost)

    def has_matrices(self, operand: Operand, lanes: Lanes) -> bool:
        """Whether more than alpha and beta is in a register."""
        if not self.tagged(operand, lanes):
            return False
        return any((self.unit(operand, lanes, n).tag & DATA).any() for n in range(self.units[operand.file]))

    # -- memory -----------------------------------------------------------------------------------

    def _cells(self, space: Space, addresses: Array, lanes: Lanes) -> list[_Place]:
        """(allocation, its images, byte positions, mask of the addresses in it)"""
        if space is Space.PARAM:
            return [(0, self.session.parameters, addresses.astype(np.int64), None)]
        if space is not Space.GLOBAL:
            if space is Space.SHARED:  # of this block, or of another one of the cluster
                return [
                    (0, self.shared, self.machine.shared.index(addresses, self.machine.shared_base[lanes], 1), None)
                ]
            return [(0, self.local, addresses.astype(np.int64) + self.machine.local_base[lanes], None)]
        found = []
        for base, _, mask in self.machine.memory.parts(addresses):
            mine = addresses if mask is None else addresses[mask]
            found.append((base, self.session.memory.get(base), (mine - np.uint64(base)).astype(np.int64), mask))
        return found

    def load(self, step: Bundle[Any], space: Space, addresses: Array, lanes: Lanes, nbytes: int) -> list[Image] | None:
        """The images of the units at these addresses; None if all are plain."""
        unit = self.session.unit
        found: list[Image] | None = None
        for _, cells, at, mask in self._cells(space, addresses, lanes):
            if cells is None or cells.content is None:
                continue
            if nbytes < unit or int(np.bitwise_or.reduce(at, axis=None)) % unit:
                if cells.content.tag[at // unit].any():
                    raise NoProof("reads a part of a number", step.first.instruction)
                continue
            for n in range(nbytes // unit):
                part = cells.read(at // unit + n)
                if part is None:
                    continue
                found = found or [blank(addresses.shape) for _ in range(nbytes // unit)]
                if mask is None:
                    found[n] = part
                    continue
                for into, value in zip(_arrays(found[n]), _arrays(part), strict=True):
                    into[mask] = value
        return found

    def store(
        self, step: Bundle[Any], space: Space, addresses: Array, lanes: Lanes, nbytes: int, units: list[Image] | None
    ) -> None:
        unit = self.session.unit
        for base, cells, at, mask in self._cells(space, addresses, lanes):
            if cells is None:
                if units is None:
                    continue
                cells = self.session.memory[base] = Cells(-(-self.machine.memory.data(base).size // unit))
            if units is None and cells.content is None:
                continue
            if nbytes < unit or int(np.bitwise_or.reduce(at, axis=None)) % unit:
                if units is not None or (cells.content is not None and cells.content.tag[at // unit].any()):
                    raise NoProof("writes a part of a number", step.first.instruction)
                continue
            for n in range(nbytes // unit):
                part = None if units is None else units[n].broadcast(addresses.shape)
                cells.write(at // unit + n, part if part is None or mask is None else part.at(mask))

    def count_updates(self, space: Space, addresses: Array, lanes: Lanes) -> None:
        """An atomic addition: more than one to a place has an order that is left open."""
        for base, cells, at, _ in self._cells(space, addresses, lanes):
            if space is not Space.GLOBAL:
                if self._shared_updates is None:
                    self._shared_updates = np.zeros(self.shared.units, np.int64)
                np.add.at(self._shared_updates, at // self.session.unit, 1)
                self.session.most_shared = max(self.session.most_shared, int(self._shared_updates.max()))
            elif cells is not None:
                counts = self.session.updates.setdefault(base, np.zeros(cells.units, np.int64))
                np.add.at(counts, at // self.session.unit, 1)


def _arrays(image: Image) -> tuple[Array, Array, Array]:
    return image.tag, image.element, image.tree


def _pick(table: Array, rows: Any, lanes: Lanes) -> Array:
    """As registers are fetched: a row of lanes, or one for each operation of a bundle."""
    if isinstance(rows, int):
        picked: Array = table[rows][lanes]
    elif isinstance(rows, np.ndarray) and isinstance(lanes, np.ndarray):
        picked = table[rows[:, None], lanes]
    else:
        picked = table[rows, lanes]
    return picked


def _place(table: Array, rows: Any, lanes: Lanes, values: Any) -> None:
    if isinstance(rows, np.ndarray) and isinstance(lanes, np.ndarray):
        table[rows[:, None], lanes] = values
    else:
        table[rows, lanes] = values


class _CallStack(CallStack):
    """Calls copy parameters between frames of local memory; their images go with them."""

    def __init__(self, machine: Execution, wave: WaveImages) -> None:
        super().__init__(machine)
        self.wave = wave

    def _copy(self, memory: WindowMemory, lanes: Array, source: Array, target: Array, copy: Copy) -> None:
        super()._copy(memory, lanes, source, target, copy)
        unit, bases = self.wave.session.unit, self.machine.local_base[lanes]
        for offset in range(0, copy.size, unit):
            at, to = ((x.astype(np.int64) + bases + offset) // unit for x in (source, target))
            self.wave.local.write(to, self.wave.local.read(at))
