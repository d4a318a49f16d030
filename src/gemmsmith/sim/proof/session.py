"""What the images of a launch share: trees, global memory, the scalars, and why a value was lost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.proof import field, images
from gemmsmith.sim.proof.images import BYTES, DATA, FORMAT, Cells, Image, Kind
from gemmsmith.sim.proof.trees import Trees
from gemmsmith.sim.ptx.syntax import Instruction
from gemmsmith.sim.ptx.types import Array

_MOST_REASONS = 64


class NoProof(Exception):  # noqa: N818 - not an error: the kernel is outside the class
    """The kernel is not one whose sums can be read; ``reason`` has the source line."""

    def __init__(self, reason: str, instruction: Instruction | None = None) -> None:
        self.reason = reason if instruction is None else f"{instruction.where} {reason} ({instruction.name})"
        super().__init__(self.reason)


@dataclass(frozen=True)
class Pattern:
    """Formats of the units of a register that hold a number; 0 is a plain unit of zero bits.

    ``head`` is the unit to take the image from. ``rounds`` is the type that reading it so rounds to.
    """

    formats: tuple[int, ...]
    head: int = 0
    rounds: str = ""


def patterns(kind: Kind, unit: int) -> tuple[Pattern, ...]:
    """How a number of a kind may lie in units: as itself, or as another that has the same value there."""
    n = BYTES[kind] // unit
    own = Pattern(_formats(kind, 0, n))
    if kind is Kind.F32 and n > 1:  # bf16 is the upper half of fp32; without the lower half, fp32 is cut to bf16
        half, zeros = n // 2, (0,) * (n // 2)
        return (own, Pattern(zeros + _formats(Kind.BF16, 0, half), half),
                Pattern(zeros + _formats(Kind.F32, half, half), half, "bf16.rz"))  # fmt: skip
    if kind is Kind.BF16:
        return own, Pattern(_formats(Kind.F32, n, n), 0, "bf16.rz")
    if kind in (Kind.I16, Kind.I32, Kind.I64) and unit == 1:
        extended = (Pattern(_formats(byte, 0, n)) for byte in (Kind.S8, Kind.U8))
        return own, *extended, Pattern((Kind.U8 << 3,) + (0,) * (n - 1))
    return (own,)


def _formats(kind: Kind, first: int, count: int) -> tuple[int, ...]:
    return tuple([kind << 3 | first + i for i in range(count)])


class Session:
    """The state of a proof beyond one wave. ``unit``: the bytes that have an image of their own."""

    def __init__(self, unit: int, trees: Trees) -> None:
        self.unit, self.trees = unit, trees
        self.memory: dict[int, Cells] = {}
        self.parameters = Cells(0)
        self.reasons: list[str] = []
        self.lost = False  # whether any value was ever lost
        self.signed = False  # whether anything was subtracted or negated
        self.compared: dict[str, None] = {}  # comparisons of scalars, as text
        # How often atomics added to each unit of global memory, and at most to one of shared memory.
        self.updates: dict[int, Array] = {}
        self.most_shared = 0
        known = [kind for kind in Kind if kind is not Kind.LOST and BYTES[kind] >= unit]
        self._patterns: dict[Kind, tuple[Pattern, ...]] = {kind: patterns(kind, unit) for kind in known}

    def lose(self, shape: tuple[int, ...], reason: str, instruction: Instruction) -> Image:
        """Images of numbers that are no sums of products any more."""
        self.lost = True
        text = NoProof(reason, instruction).reason
        if text not in self.reasons and len(self.reasons) < _MOST_REASONS:
            self.reasons.append(text)
        number = self.reasons.index(text) if text in self.reasons else 0
        return Image(np.full(shape, images.tag_of(Kind.LOST, True)), np.full(shape, number, np.uint64),
                     np.ones(shape, np.uint64))  # fmt: skip

    def reason_of(self, image: Image) -> str:
        """Why the first lost one of these numbers was lost."""
        at = np.flatnonzero(is_lost(image.tag).reshape(-1))
        return self.reasons[int(image.element.reshape(-1)[at[0]])] if at.size else ""

    def joined(self, units: list[Image], kind: Kind, zero: list[Array]) -> tuple[Image, Array | None]:
        """The numbers that units hold, and where they hold none; ``zero``: which units have only zero bits."""
        first, *others = self._patterns[kind]
        good = self._fits(units, first, zero)
        image = units[first.head]
        if good.all():
            return image, None
        tagged = units[0].tag != 0
        for unit in units[1:]:
            tagged = tagged | (unit.tag != 0)
        image = Image(np.where(tagged, image.tag, 0), image.element, image.tree)
        good = good | ~tagged
        for pattern in others:
            if good.all():
                break
            fits = self._fits(units, pattern, zero) & ~good
            if fits.any():
                found = units[pattern.head]
                if pattern.rounds:
                    found = Image(found.tag, found.element, self.trees.rounded(found.tree, pattern.rounds, fits))
                image, good = images.where(fits, found, image), good | fits
        return image, None if good.all() else ~good

    def _fits(self, units: list[Image], pattern: Pattern, zero: list[Array]) -> Array:
        head = units[pattern.head]
        good: Array = np.ones(head.tag.shape, bool)
        for n, (unit, code) in enumerate(zip(units, pattern.formats, strict=True)):
            if code == 0:
                good = good & (unit.tag == 0) & zero[n]
                continue
            good = good & ((unit.tag & FORMAT) == code)
            if unit is not head:
                good = good & (unit.element == head.element) & (unit.tree == head.tree)
        return good

    def place(self, cells: Cells, offsets: Array, image: Image) -> None:
        """Give numbers at these bytes their images, which say what kind they are."""
        kind = Kind(int(image.tag.reshape(-1)[0]) >> 3 & 15)
        for n in range(BYTES[kind] // self.unit):
            cells.write(offsets // self.unit + n, Image(image.tag | np.uint16(n), image.element, image.tree))

    def numbers(self, cells: Cells | None, offsets: Array, kind: Kind) -> tuple[Image, Array]:
        """The numbers of a kind at these bytes, and which of them are of that kind."""
        if cells is None or cells.content is None:
            return images.blank(offsets.shape), np.zeros(offsets.shape, bool)
        units = [cells.content.at(offsets // self.unit + n) for n in range(BYTES[kind] // self.unit)]
        image, bad = self.joined(units, kind, [np.zeros(offsets.shape, bool) for _ in units])
        for unit in units:
            gone = is_lost(unit.tag)
            if gone.any():
                image = images.where(gone, unit, image)
        return image, (image.tag != 0) if bad is None else (image.tag != 0) & ~bad

    # -- arithmetic -------------------------------------------------------------------------------

    def add(self, a: Image, b: Image, kind: Kind, name: str) -> Image:
        tree = self.trees.add(a.tree, b.tree, name, a.plain or b.plain)
        found = Image(images.summed([a.tag, b.tag], kind), field.add(a.element, b.element), tree)
        return self.kept(found, a, b)

    def negative(self, a: Image) -> Image:
        self.signed = True
        tree = np.where(a.tree == 0, a.tree, self.trees.negated(a.tree))
        return self.kept(Image(a.tag, field.negative(a.element), tree), a)

    def multiply(self, a: Image, b: Image, kind: Kind, name: str) -> Image:
        tree = self.trees.multiply(a.tree, b.tree, name, a.plain or b.plain)
        found = Image(images.multiplied(a.tag, b.tag, kind), field.multiply(a.element, b.element), tree)
        return self.kept(self._without_zeros(found), a, b)

    def fma(self, a: Image, b: Image, c: Image, kind: Kind, name: str) -> Image:
        tree = self.trees.fma(a.tree, b.tree, c.tree, name, a.plain or b.plain or c.plain)
        product = images.multiplied(a.tag, b.tag, kind)
        if a.plain or b.plain:
            product = np.where((a.tree == 0) | (b.tree == 0), np.uint16(0), product)
        element = field.add(field.multiply(a.element, b.element), c.element)
        return self.kept(Image(images.summed([product, c.tag], kind), element, tree), a, b, c)

    def _without_zeros(self, found: Image) -> Image:
        """A product with a constant zero is zero, and no longer depends on anything."""
        return Image(np.where(found.tree == 0, np.uint16(0), found.tag), found.element, found.tree)

    def kept(self, found: Image, *operands: Image) -> Image:
        """What is lost stays lost."""
        if self.lost:
            for operand in operands:
                gone = is_lost(operand.tag)
                if gone.any():
                    found = images.where(gone, operand, found)
        return found

    def vanished(self, found: Image, instruction: Instruction) -> Image:
        """Terms that cancel hide what they were: a value less its own rounded copy is no zero to the machine."""
        if not self.signed:
            return found
        zero = (field.canonical(found.element) == 0) & ((found.tag & DATA) != 0) & ~is_lost(found.tag)
        if not zero.any():
            return found
        why = "a value is subtracted from its own rounded copy, which is zero only in exact arithmetic"
        return images.where(zero, self.lose(zero.shape, why, instruction), found)


def is_lost(tag: Array) -> Array:
    lost: Array = (tag >> 3 & 15) == Kind.LOST
    return lost
