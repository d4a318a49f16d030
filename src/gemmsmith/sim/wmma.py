"""wmma: the warp-matrix instructions that ``nvcuda::wmma`` compiles to, in terms of instructions the simulator has.

PTX leaves it open which lane holds which element of a fragment. ptxas builds 16×16×16 tiles of 16-bit elements from the
layouts of mma.sync, and so does this: A is the fragment of one mma.sync, B and the accumulator are those of two, side
by side. An fp16 fragment of A or B holds every element twice, in registers 0 to 3 and again in 4 to 7. On an H200 the
registers after each load are the same (``tests/data/tensor_cores.npz``).

What each becomes is what ptxas makes of it: ldmatrix for A and B in shared memory, loads of 32 bits (with movmatrix
where they must be transposed) elsewhere and through generic pointers, accesses of 64 bits (column by column: of 32) for
the accumulator, and two mma.sync for a product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gemmsmith.sim.ptx import Address, Entry, Immediate, Instruction, Operand, Register, Symbol, Vector

_SHAPE = "m16n16k16"
_KINDS = ("f16", "bf16")
_LANE = Symbol("%laneid")


def expand(entry: Entry) -> Entry:
    """The entry with its warp-matrix instructions replaced; one of another form is left as it is."""
    if not any(i.opcode == "wmma" for i in entry.instructions):
        return entry
    work = _Expansion(entry)
    starts: list[int] = []
    instructions: list[Instruction] = []
    for instruction in entry.instructions:
        starts.append(len(instructions))
        instructions += work.replace(instruction)
    starts.append(len(instructions))
    labels = tuple((name, starts[at]) for name, at in entry.labels)
    return replace(
        entry, registers=(*entry.registers, *work.registers), instructions=tuple(instructions), labels=labels
    )


@dataclass(frozen=True)
class _Access:
    """A wmma.load or wmma.store: which matrix, its layout in memory, where, and the registers."""

    which: str
    layout: str
    space: str
    registers: tuple[Operand, ...]
    address: Address
    pitch: Operand

    @property
    def transposed(self) -> bool:
        """Whether a register's two elements are in different rows of memory."""
        return (self.which, self.layout) in (("a", "col"), ("b", "row"))


class _Expansion:
    def __init__(self, entry: Entry) -> None:
        self.kinds = dict(entry.registers)
        self.registers: list[tuple[str, str]] = []
        self.read = {o for i in entry.instructions if i.opcode != "wmma" for o in _flat(i.operands)}
        self.of = entry.instructions[0]

    def replace(self, i: Instruction) -> list[Instruction]:
        self.of = i
        made: Iterator[Instruction] | None = None
        if i.opcode == "wmma" and i.modifiers[:1] == ("mma",):
            made = self._multiply(i)
        elif i.opcode == "wmma" and (access := _access(i)) is not None:
            if access.which in ("c", "d"):
                made = self._accumulator(access)
            elif access.space == "shared":
                made = self._matrices(access)
            else:
                made = self._elements(access)
        return [i] if made is None else list(made)

    def _make(self, name: str, *operands: Operand) -> Instruction:
        opcode, *modifiers = name.split(".")
        return replace(self.of, opcode=opcode, modifiers=tuple(modifiers), operands=operands)

    def _new(self, kind: str) -> Register:
        register = Register(f"wmma:{len(self.registers)}")
        self.registers.append((register.name, kind))
        return register

    def _value(self, made: list[Instruction], name: str, *operands: Operand) -> Register:
        """Append an instruction that computes a fresh 32-bit register."""
        target = self._new("b32")
        made.append(self._make(name, target, *operands))
        return target

    # -- addresses --------------------------------------------------------------------------------

    def _wide(self, base: Operand | None) -> bool:
        return isinstance(base, Register) and self.kinds[base.name].endswith("64")

    def _at(self, made: list[Instruction], access: _Access, elements: Register, size: int) -> Register:
        """The address that lies ``elements`` of ``size`` bytes after the access's base; its offset is not in it."""
        base: Operand = access.address.base if access.address.base is not None else Immediate(0, "int")
        target = self._new("b64" if self._wide(base) else "b32")
        form = "mad.wide.u32" if self._wide(base) else "mad.lo.u32"
        made.append(self._make(form, target, elements, Immediate(size, "int"), base))
        return target

    def _further(self, made: list[Instruction], access: _Access, start: Register, rows: int, size: int) -> Register:
        """``rows`` rows of memory after ``start``."""
        if rows == 0:
            return start
        wide = self._wide(access.address.base)
        target = self._new("b64" if wide else "b32")
        made.append(self._make("mad.wide.u32" if wide else "mad.lo.u32", target, access.pitch,
                               Immediate(rows * size, "int"), start))  # fmt: skip
        return target

    def _lane_bits(self, made: list[Instruction], low: int, count: int, scale: int = 0) -> Register:
        """``count`` bits of the lane's number from bit ``low`` on, times 2^scale."""
        lane = self._value(made, "mov.u32", _LANE)
        bits = self._value(made, "bfe.u32", lane, Immediate(low, "int"), Immediate(count, "int"))
        return self._value(made, "shl.b32", bits, Immediate(scale, "int")) if scale else bits

    # -- A and B ----------------------------------------------------------------------------------

    def _matrices(self, access: _Access) -> Iterator[Instruction]:
        """Four 8×8 matrices from shared memory."""
        made: list[Instruction] = []
        if access.layout == "row":
            row, column = self._lane_bits(made, 0, 4), self._lane_bits(made, 4, 1, 3)
        else:
            low, high = self._lane_bits(made, 0, 3), self._lane_bits(made, 4, 1, 3)
            row, column = self._value(made, "add.u32", low, high), self._lane_bits(made, 3, 1, 3)
        at = self._at(made, access, self._value(made, "mad.lo.u32", row, access.pitch, column), 2)
        form = f"ldmatrix.sync.aligned.m8n8.x4{'.trans' if access.transposed else ''}.shared.b16"
        made.append(self._make(form, Vector(access.registers[:4]), Address(at, access.address.offset)))
        yield from made
        yield from self._repeat(access)

    def _elements(self, access: _Access) -> Iterator[Instruction]:
        """The same matrices from any memory: two neighbouring elements a lane, then transposed between lanes."""
        made: list[Instruction] = []
        row, column = self._lane_bits(made, 2, 3), self._lane_bits(made, 0, 2, 1)
        start = self._at(made, access, self._value(made, "mad.lo.u32", row, access.pitch, column), 2)
        rows = start, self._further(made, access, start, 8, 2)
        space = f".{access.space}" if access.space else ""
        for number, target in enumerate(access.registers[:4]):
            # Bit 0 of a register's number is the half of A's rows, or of B's depth; bit 1 the other.
            down, across = (number & 1, number >> 1) if access.layout == "row" else (number >> 1, number & 1)
            address = Address(rows[down], access.address.offset + 16 * across)
            if access.transposed:
                loaded = self._value(made, f"ld{space}.b32", address)
                made.append(self._make("movmatrix.sync.aligned.m8n8.trans.b16", target, loaded))
            else:
                made.append(self._make(f"ld{space}.b32", target, address))
        yield from made
        yield from self._repeat(access)

    def _repeat(self, access: _Access) -> Iterator[Instruction]:
        """The second copy that an fp16 fragment has, if anything but a product reads it."""
        for first, second in zip(access.registers[:4], access.registers[4:], strict=False):
            if second in self.read:
                yield self._make("mov.b32", second, first)

    # -- accumulators and products ----------------------------------------------------------------

    def _accumulator(self, access: _Access) -> Iterator[Instruction]:
        made: list[Instruction] = []
        store = access.which == "d"
        space = f".{access.space}" if access.space else ""
        group, member = self._lane_bits(made, 2, 3), self._lane_bits(made, 0, 2, 1)
        across = access.layout == "row"
        row, column = (group, member) if across else (member, group)
        start = self._at(made, access, self._value(made, "mad.lo.u32", row, access.pitch, column), 4)
        name = f"{'st' if store else 'ld'}{space}{'.v2' if across else ''}.f32"
        rows = {n: self._further(made, access, start, n, 4) for n in ((0, 8) if across else (0, 1, 8, 9))}
        for number in range(0, 8, 2 if across else 1):
            right, down, second = number >> 2, number >> 1 & 1, number & 1
            place = rows[8 * down] if across else rows[8 * right + second]
            address = Address(place, access.address.offset + 32 * (right if across else down))
            registers: Operand = Vector(access.registers[number : number + 2]) if across else access.registers[number]
            made.append(self._make(name, *((address, registers) if store else (registers, address))))
        yield from made

    def _multiply(self, i: Instruction) -> Iterator[Instruction] | None:
        """wmma.mma.sync.aligned.ALAYOUT.BLAYOUT.SHAPE.D[.A.B].C"""
        names = i.modifiers
        kind = "f16" if names[6:] == ("f32", "f32") else names[7] if len(names) == 10 else ""
        if names[:3] != ("mma", "sync", "aligned") or names[5:6] != (_SHAPE,) or kind not in _KINDS:
            return None
        if kind != "f16" and names[6:] != ("f32", kind, kind, "f32"):
            return None
        d, a, b, c = (o.items if isinstance(o, Vector) else () for o in i.operands)
        count = 8 if kind == "f16" else 4
        if (len(d), len(a), len(b), len(c)) != (8, count, count, 8) or set(d[:4]) & {*a, *b, *c[4:]}:
            return None
        form = f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32"
        return iter([
            self._make(form, Vector(d[n : n + 4]), Vector(a[:4]), Vector(b[n // 2 : n // 2 + 2]), Vector(c[n : n + 4]))
            for n in (0, 4)
        ])  # fmt: skip


def _access(i: Instruction) -> _Access | None:
    """wmma.load.WHICH or wmma.store.d, .sync.aligned.LAYOUT.SHAPE[.SPACE].TYPE"""
    names = tuple(m.removesuffix("::cta") for m in i.modifiers)
    if len(names) not in (7, 8) or names[2:4] != ("sync", "aligned") or names[5] != _SHAPE:
        return None
    which, layout, space, kind = names[1], names[4], names[6] if len(names) == 8 else "", names[-1]
    if (names[0], which) not in (("load", "a"), ("load", "b"), ("load", "c"), ("store", "d")):
        return None
    known = kind == "f32" if which in ("c", "d") else kind in _KINDS
    if not known or layout not in ("row", "col") or space not in ("", "shared", "global"):
        return None
    at, registers = (i.operands[0], i.operands[1]) if which == "d" else (i.operands[1], i.operands[0])
    pitch: Operand = i.operands[2] if len(i.operands) == 3 else Immediate(16, "int")
    if not isinstance(at, Address) or not isinstance(registers, Vector):
        return None
    if len(registers.items) != (4 if kind == "bf16" else 8):
        return None
    return _Access(which, layout, space, registers.items, at, pitch)


def _flat(operands: tuple[Operand, ...]) -> Iterator[Operand]:
    for operand in operands:
        if isinstance(operand, Vector):
            yield from _flat(operand.items)
        else:
            yield operand
