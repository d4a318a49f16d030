"""wmma: the warp-matrix instructions that ``nvcuda::wmma`` compiles to, built from other instructions.

PTX leaves it open which lane holds which element of a fragment. ptxas builds 16×16×16 tiles of 16-bit elements from the
layouts of mma.sync, and so does this: A is the fragment of one mma.sync; B and the accumulator are those of two, side
by side. An fp16 fragment of A or B holds every element twice, in registers 0 to 3 and again in 4 to 7. On an H200 the
registers after each load are the same (``tests/data/tensor_cores.npz``).

Each instruction becomes what ptxas makes of it: ldmatrix for A and B in shared memory; loads of 32 bits elsewhere and
through generic pointers, with movmatrix where they must be transposed; accesses of 64 bits for the accumulator (of 32
if it is stored by columns); and two mma.sync for a product.
"""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Composite
from gemmsmith.sim.lowering import Refused, items, operands
from gemmsmith.sim.rewriting import Rewriting, like
from gemmsmith.sim.syntax import Address, Immediate, Instruction, Operand, Register, Symbol, Vector
from gemmsmith.sim.types import TYPE_BYTES

_LANE = Symbol("%laneid")


@dataclass(frozen=True)
class Fragment:
    """A wmma.load or wmma.store: the matrix, its layout and place in memory, and its registers.

    ``transposed``: a register's two elements are in different rows of memory.
    """

    by_rows: bool
    transposed: bool
    space: str
    registers: tuple[Operand, ...]
    address: Address
    pitch: Operand


def _fragment(i: Instruction, m: Modifiers, address: int, count: int) -> Fragment:
    """The address is operand number ``address``, the ``count`` registers are the other of the first two."""
    *both, pitch = (*operands(i, 2, 3), Immediate(16, "int"))[:3]
    at, registers = both[address], both[1 - address]
    if not isinstance(at, Address) or not isinstance(registers, Vector):
        raise Refused
    by_rows = m["layout"] == "row"
    transposed = by_rows if m.get("matrix") == "b" else not by_rows
    return Fragment(by_rows, transposed, m.get("space", "").removesuffix("::cta"), items(registers, count), at, pitch)


class _Code:
    """The instructions that one wmma instruction becomes."""

    def __init__(self, work: Rewriting, i: Instruction) -> None:
        self.work, self.i = work, i
        self.made: list[Instruction] = []

    def add(self, name: str, *operands: Operand) -> None:
        self.made.append(like(self.i, name, *operands))

    def value(self, name: str, *operands: Operand, kind: str = "b32") -> Register:
        """Add an instruction that computes a new register."""
        target = self.work.new(kind)
        self.add(name, target, *operands)
        return target

    # -- addresses --------------------------------------------------------------------------------

    def start(self, of: Fragment, row: Register, column: Register, size: int) -> Register:
        """The address of an element of ``size`` bytes; the address's own offset is not in it."""
        base: Operand = of.address.base if of.address.base is not None else Immediate(0, "int")
        elements = self.value("mad.lo.u32", row, of.pitch, column)
        return self._after(of, elements, size, base)

    def rows_after(self, of: Fragment, start: Register, rows: int, size: int) -> Register:
        """``rows`` rows of memory after ``start``."""
        return start if rows == 0 else self._after(of, of.pitch, rows * size, start)

    def _after(self, of: Fragment, count: Operand, size: int, base: Operand) -> Register:
        declared = self.work.types[of.address.base.name] if isinstance(of.address.base, Register) else "b32"
        wide = TYPE_BYTES[declared] == 8
        return self.value("mad.wide.u32" if wide else "mad.lo.u32", count, Immediate(size, "int"), base,
                          kind="b64" if wide else "b32")  # fmt: skip

    def lane_bits(self, low: int, count: int, scale: int = 0) -> Register:
        """``count`` bits of the lane's number from bit ``low`` on, times 2^scale."""
        lane = self.value("mov.u32", _LANE)
        bits = self.value("bfe.u32", lane, Immediate(low, "int"), Immediate(count, "int"))
        return self.value("shl.b32", bits, Immediate(scale, "int")) if scale else bits

    # -- A and B ----------------------------------------------------------------------------------

    def load_matrices(self, of: Fragment) -> None:
        """Four 8×8 matrices from shared memory."""
        if of.by_rows:
            row, column = self.lane_bits(0, 4), self.lane_bits(4, 1, 3)
        else:
            low, high = self.lane_bits(0, 3), self.lane_bits(4, 1, 3)
            row, column = self.value("add.u32", low, high), self.lane_bits(3, 1, 3)
        at = self.start(of, row, column, 2)
        form = f"ldmatrix.sync.aligned.m8n8.x4{'.trans' if of.transposed else ''}.shared.b16"
        self.add(form, Vector(of.registers[:4]), Address(at, of.address.offset))

    def load_elements(self, of: Fragment) -> None:
        """The same matrices from any memory: two neighbouring elements per lane, then transposed between lanes."""
        row, column = self.lane_bits(2, 3), self.lane_bits(0, 2, 1)
        start = self.start(of, row, column, 2)
        rows = start, self.rows_after(of, start, 8, 2)
        load = f"ld.{of.space}.b32" if of.space else "ld.b32"
        for number, target in enumerate(of.registers[:4]):
            # Bit 0 of a register's number is the half of A's rows, or of B's depth; bit 1 is the other half.
            down, across = (number & 1, number >> 1) if of.by_rows else (number >> 1, number & 1)
            address = Address(rows[down], of.address.offset + 16 * across)
            if of.transposed:
                self.add("movmatrix.sync.aligned.m8n8.trans.b16", target, self.value(load, address))
            else:
                self.add(load, target, address)

    def repeat(self, of: Fragment) -> None:
        """The second copy that an fp16 fragment has, if anything but a product reads it."""
        for first, second in zip(of.registers[:4], of.registers[4:], strict=False):
            if second in self.work.used:
                self.add("mov.b32", second, first)

    # -- accumulators -----------------------------------------------------------------------------

    def accumulator(self, of: Fragment, opcode: str) -> None:
        """Load or store the accumulator: pairs of neighbours where it is stored by rows."""
        space = f".{of.space}" if of.space else ""
        group, member = self.lane_bits(2, 3), self.lane_bits(0, 2, 1)
        row, column = (group, member) if of.by_rows else (member, group)
        start = self.start(of, row, column, 4)
        rows = {n: self.rows_after(of, start, n, 4) for n in ((0, 8) if of.by_rows else (0, 1, 8, 9))}
        for number in range(0, 8, 2 if of.by_rows else 1):
            right, down, second = number >> 2, number >> 1 & 1, number & 1
            place = rows[8 * down] if of.by_rows else rows[8 * right + second]
            address = Address(place, of.address.offset + 32 * (right if of.by_rows else down))
            pair = Vector(of.registers[number : number + 2])
            registers: Operand = pair if of.by_rows else of.registers[number]
            name = f"{opcode}{space}{'.v2' if of.by_rows else ''}.f32"
            self.add(name, *((address, registers) if opcode == "st" else (registers, address)))


def _load(work: Rewriting, i: Instruction, m: Modifiers) -> list[Instruction]:
    code = _Code(work, i)
    of = _fragment(i, m, 1, 8 if m["type"] == "f16" else 4)
    if of.space == "shared":
        code.load_matrices(of)
    else:
        code.load_elements(of)
    code.repeat(of)
    return code.made


def _load_accumulator(work: Rewriting, i: Instruction, m: Modifiers) -> list[Instruction]:
    code = _Code(work, i)
    code.accumulator(_fragment(i, m, 1, 8), "ld")
    return code.made


def _store_accumulator(work: Rewriting, i: Instruction, m: Modifiers) -> list[Instruction]:
    code = _Code(work, i)
    code.accumulator(_fragment(i, m, 0, 8), "st")
    return code.made


def _multiply(work: Rewriting, i: Instruction, m: Modifiers) -> list[Instruction]:
    del work
    kind = m.get("a", "f16")
    of_one = 8 if kind == "f16" else 4
    d, a, b, c = (items(operand, n) for operand, n in zip(operands(i, 4), (8, of_one, of_one, 8), strict=True))
    if set(d[:4]) & {*a, *b, *c[4:]}:  # the first product would overwrite what the second reads
        raise Refused
    form = f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32"
    return [
        like(i, form, Vector(d[n : n + 4]), Vector(a[:4]), Vector(b[n // 2 : n // 2 + 2]), Vector(c[n : n + 4]))
        for n in (0, 4)
    ]


_PLACE = {"layout": "row col", "space": "shared shared::cta global"}
_LAYOUTS = {"rows": "row col", "columns": "row col"}

COMPOSITES = (
    Composite("wmma.load.matrix.sync.aligned.layout.m16n16k16.space?.type", _load,
              where={**_PLACE, "matrix": "a b", "type": "f16 bf16"}),
    Composite("wmma.load.c.sync.aligned.layout.m16n16k16.space?.f32", _load_accumulator, where=_PLACE),
    Composite("wmma.store.d.sync.aligned.layout.m16n16k16.space?.f32", _store_accumulator, where=_PLACE),
    Composite("wmma.mma.sync.aligned.rows.columns.m16n16k16.d.c", _multiply,
              where={**_LAYOUTS, "d": "f32", "c": "f32"}),
    Composite("wmma.mma.sync.aligned.rows.columns.m16n16k16.d.a.b.c", _multiply,
              where={**_LAYOUTS, "d": "f32", "c": "f32", "a": "bf16", "b": "bf16"}),
)  # fmt: skip
