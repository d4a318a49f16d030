"""Registers, constants and addresses of a kernel's machine code, as rows, scalars and pointers.

General and uniform registers are rows of 32 bits, predicates rows of booleans. A uniform register has a value in every
lane; all lanes of a warp that execute an instruction together have the same one. Constants of bank 0 that are known
only at launch are rows that are filled when a wave starts, as PTX's special registers are.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from gemmsmith.sim.lowering.operation import FILE_DTYPES, Pointer, Slot, Source
from gemmsmith.sim.lowering.places import Refused, scalar
from gemmsmith.sim.memory.global_memory import PEER_SHIFT, SHARED_WINDOW, WINDOW_SIZE
from gemmsmith.sim.ptx.types import DTYPES, Array
from gemmsmith.sim.sass.meaning import PLAIN, WIDE, Part, applied, join, lanewise, ptx, word_kind
from gemmsmith.sim.sass.syntax import Bracketed, Immediate, MachineInstruction, Operand, Register, Symbol

_ROWS = {"R": "w", "UR": "w", "P": "p", "UP": "p"}
_WORD = DTYPES["u32"]


class Places:
    """The position of the first operation of each instruction, by the instruction's offset in bytes."""

    def __init__(self) -> None:
        self.positions = np.zeros(0, np.int64)

    def positions_of(self, offsets: Array) -> Array:
        found: Array = self.positions[np.asarray(offsets) >> 4]
        return found


class Code:
    """Turns the operands of a kernel's instructions into rows, constants and pointers.

    ``before`` are parts that the instruction at hand needs first, such as the sum of an address.
    """

    def __init__(self, arch: int, mod32: bool = False, clusters: bool = False) -> None:
        self.arch, self.mod32 = arch, mod32
        # Machine code has a block's rank in the cluster above the lower 24 bits of a shared address. Shared memory here
        # has the rank plus one there, so that zero is the own block.
        self.rank = 1 << PEER_SHIFT if clusters else 0
        self.heights = dict.fromkeys(FILE_DTYPES, 0)
        self.special: dict[str, Slot] = {}
        self.before: list[Part] = []
        self.published = False  # a fence for the cluster has followed the last access to memory
        self.places = Places()
        self._rows: dict[tuple[str, int], int] = {}

    # -- rows -------------------------------------------------------------------------------------

    def row(self, file: str, number: int, kind: str) -> Slot:
        """A register's row."""
        table = _ROWS[file]
        if (file, number) not in self._rows:
            self._rows[file, number] = self._new_row(table)
        return Slot(table, self._rows[file, number], DTYPES[kind])

    def _new_row(self, file: str) -> int:
        self.heights[file] += 1
        return self.heights[file] - 1

    def unused(self, kind: str) -> Slot:
        """A new row: for a result that nobody reads, or one between two parts."""
        file = {1: "p", 2: "w", 4: "w", 8: "d"}[max(1, DTYPES[kind].itemsize)]
        return Slot(file, self._new_row(file), DTYPES[kind])

    def hidden(self, name: str, kind: str) -> Slot:
        """A row for state that has no register: the result of a barrier's reduction."""
        return self.special_row(name, kind, file="p" if kind == "pred" else "w")

    def special_row(self, name: str, kind: str = "u32", file: str = "w") -> Slot:
        """A row that is filled when a wave starts: a special register or a constant."""
        if name not in self.special:
            self.special[name] = Slot(file, self._new_row(file), FILE_DTYPES[file])
        slot = self.special[name]
        return Slot(slot.file, slot.row, DTYPES[kind])

    # -- sources and targets ----------------------------------------------------------------------

    def targets(self, operand: Operand, kind: str, count: int = 1) -> tuple[Slot, ...]:
        """The rows that a result of ``count`` values is written to; two rows for each wide value."""
        if not isinstance(operand, Register) or operand.sign:
            raise Refused
        if operand.predicate != (kind == "pred"):
            raise Refused
        each, count = word_kind(kind), 2 * count if kind in WIDE else count
        if operand.number is None:
            return tuple([self.unused(each) for _ in range(count)])
        return tuple([self.row(operand.file, operand.number + n, each) for n in range(count)])

    def words(self, operand: Operand, count: int, kind: str = "u32") -> tuple[Source, ...]:
        """``count`` consecutive registers, without signs."""
        if not isinstance(operand, Register) or operand.sign or operand.absolute:
            raise Refused
        if operand.number is None:
            return (scalar(0, DTYPES[kind]),) * count
        return tuple([self.row(operand.file, operand.number + n, kind) for n in range(count)])

    def source(self, i: MachineInstruction, operand: Operand, kind: str) -> tuple[Source, ...]:
        """The words of one operand as a value of ``kind``, without its sign: two for a wide one."""
        if isinstance(operand, Register):
            return self._register(operand, kind)
        if isinstance(operand, Immediate):
            return _literal(i, operand, kind)
        if isinstance(operand, Bracketed) and operand.name == "c":
            bank, offset = constant_place(operand)
            each = word_kind(kind)
            return tuple([self.special_row(f"c[{bank}][{offset + 4 * n}]", each) for n in range(1 + (kind in WIDE))])
        raise Refused

    def _register(self, operand: Register, kind: str) -> tuple[Source, ...]:
        if operand.predicate:
            if kind != "pred":
                raise Refused
            return (np.bool_(True),) if operand.number is None else (self.row(operand.file, operand.number, "pred"),)
        if operand.file not in ("R", "UR") or kind == "pred":
            raise Refused
        return self.words(Register(operand.file, operand.number), 2 if kind in WIDE else 1,
                          word_kind(kind))  # fmt: skip

    # -- functions of lanes -----------------------------------------------------------------------

    def apply(
        self, i: MachineInstruction, found: Any, results: list[tuple[Operand | Slot, str]],
        given: list[tuple[Operand | Source, str]], like: str = "",
    ) -> Part:  # fmt: skip
        """A part that computes ``results`` from ``given``, each an operand with the kind of its value.

        It is counted as the PTX instruction ``like`` is.
        """
        sources: list[Source] = []
        changes: list[tuple[str, ...]] = []
        for operand, kind in given:
            if isinstance(operand, (Slot, np.generic)):
                sources.append(operand)
                changes.append(())
                continue
            sources += self.source(i, operand, kind)
            changes.append(changes_of(operand))
        targets: list[Slot] = []
        for target, kind in results:
            targets += (target,) if isinstance(target, Slot) else self.targets(target, kind)
        function = applied(found, tuple([k for _, k in given]), tuple(changes), tuple([k for _, k in results]))
        traits = ptx(like).record if like else PLAIN
        return lanewise(function, tuple(targets), tuple(sources), traits=traits)

    # -- addresses --------------------------------------------------------------------------------

    def pointer(self, operand: Operand, space: str = "shared") -> Pointer:
        """An address operand: the sum of the terms of its last brackets. ``space``: as PTX names it, "" if generic.

        Addresses of global memory and generic ones have 64 bits.
        """
        if not isinstance(operand, Bracketed) or operand.name not in ("", "desc") or operand.suffixes:
            raise Refused
        wide = space in ("global", "")
        terms, offset = operand.groups[-1], self.rank if space == "shared" else 0
        registers: list[Register] = []
        for term in terms:
            if isinstance(term, Immediate) and term.value is not None:
                offset += term.value
            elif isinstance(term, Register):
                registers.append(term)
            else:
                raise Refused
        registers = [r for r in registers if r.number is not None]
        if not registers:
            return Pointer(np.uint64(offset % (1 << 64)) if wide else np.uint32(offset % (1 << 32)), 0)
        plain = len(registers) == 1 and not registers[0].suffixes and not wide
        if plain:
            return Pointer(self.words(registers[0], 1)[0], offset)
        total = self._sum(tuple(registers), wide)
        if not space and self.rank:
            return Pointer(self._with_rank(total, offset), 0)
        return Pointer(total, offset)

    def _with_rank(self, base: Slot, offset: int) -> Slot:
        """A new row with generic addresses: in those of shared memory, the rank is counted as in a shared address."""
        target = self.unused("u64")
        plus = np.uint64(offset % (1 << 64)), np.uint64(self.rank)
        self.before.append(lanewise(_ranked, (target,), (base, *plus), counted=False))
        return target

    def _sum(self, registers: tuple[Register, ...], wide: bool) -> Slot:
        """A new row with the sum of registers: pairs, scaled and sign-extended ones as their suffixes say."""
        sources: list[Source] = []
        forms: list[tuple[bool, int]] = []
        for register in registers:
            pair = wide and "U32" not in register.suffixes
            scale = next((int(s[1:]) for s in register.suffixes if s[0] == "X" and s[1:].isdigit()), 1)
            if set(register.suffixes) - {"64", "U32", "X4", "X8", "X16"}:
                raise Refused
            sources += self.words(Register(register.file, register.number), 2 if pair else 1)
            forms.append((pair, scale))
        target = self.unused("u64" if wide else "u32")
        self.before.append(lanewise(_summing(tuple(forms), wide), (target,), tuple(sources), counted=False))
        return target


def _ranked(base: Any, offset: Any, rank: Any) -> Array:
    address = np.asarray(base) + offset
    inside = address - np.uint64(SHARED_WINDOW) < np.uint64(WINDOW_SIZE)  # a smaller address wraps around
    found: Array = np.where(inside, address + rank, address)
    return found


@cache
def _summing(forms: tuple[tuple[bool, int], ...], wide: bool) -> Any:
    """One function for each form of a sum, so that like sums are bundled."""
    kind = np.uint64 if wide else np.uint32

    def total(*words: Array) -> Array:
        result: Any = kind(0)
        at = 0
        for pair, scale in forms:
            value: Any = join(words[at], words[at + 1]) if pair else np.asarray(words[at]).astype(kind)
            at += 2 if pair else 1
            result = result + (value * kind(scale) if scale != 1 else value)
        return np.asarray(result)

    return total


def constant_place(operand: Bracketed) -> tuple[int, int]:
    """Bank and offset of a constant whose place is known."""
    numbers: list[int] = []
    for group in operand.groups:
        known = [0 if isinstance(term, Register) and term.number is None else _number(term) for term in group]
        numbers.append(sum(known))
    if len(numbers) != 2:
        raise Refused
    return numbers[0], numbers[1]


def _number(operand: Operand) -> int:
    if not isinstance(operand, Immediate) or operand.value is None:
        raise Refused
    return operand.value


def changes_of(operand: Operand) -> tuple[str, ...]:
    """What is done to an operand's value before it is used: parts of it are taken, then its sign applied."""
    if isinstance(operand, (Register, Bracketed)):
        parts = tuple([s for s in operand.suffixes if s != "reuse"])
        sign = operand.sign + ("|" if operand.absolute else "")
        return (*parts, sign) if sign else parts
    if isinstance(operand, Symbol):
        raise Refused
    return ()


def _literal(i: MachineInstruction, operand: Immediate, kind: str) -> tuple[Source, ...]:
    """A floating-point literal has its bits in the encoding; of an fp64 one, the upper half."""
    if kind == "f64":
        return np.uint32(0), np.uint32(i.immediate)
    if kind.startswith("f"):
        return (scalar(i.immediate, DTYPES[kind]),)
    if operand.value is None:
        return (scalar(i.immediate, DTYPES[kind]),)
    if kind in WIDE:
        return tuple([scalar(operand.value >> shift & 0xFFFFFFFF, _WORD) for shift in (0, 32)])
    return (scalar(operand.value, DTYPES[kind]),)
