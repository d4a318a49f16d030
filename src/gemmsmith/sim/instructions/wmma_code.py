"""The instructions that ptxas makes of a wmma.load or wmma.store.

ldmatrix for A and B in shared memory where a tile's rows are 16 bytes. Elsewhere plain accesses: of a register at a
time where its elements are neighbours in memory, else of single elements. movmatrix transposes 16-bit elements.
"""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.sim.instructions.wmma_fragments import Layout
from gemmsmith.sim.lowering.rewriting import Rewriting, like
from gemmsmith.sim.ptx.syntax import Address, Immediate, Instruction, Operand, Register, Symbol, Vector
from gemmsmith.sim.ptx.types import TYPE_BYTES

_LANE = Symbol("%laneid")
_TRANSPOSE = "movmatrix.sync.aligned.m8n8.trans.b16"


@dataclass(frozen=True)
class Place:
    """A matrix in memory: its state space, address, and elements from one row or column to the next."""

    by_rows: bool
    space: str
    address: Address
    pitch: Operand

    def access(self, opcode: str, kind: str) -> str:
        return f"{opcode}.{self.space}.{kind}" if self.space else f"{opcode}.{kind}"


class Code:
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

    def lane_bits(self, low: int, count: int, scale: int = 0) -> Register:
        """``count`` bits of the lane's number from bit ``low`` on, times 2^scale."""
        lane = self.value("mov.u32", _LANE)
        bits = self.value("bfe.u32", lane, _number(low), _number(count))
        return self.value("shl.b32", bits, _number(scale)) if scale else bits

    def half_register(self, register: Operand) -> tuple[Register, Register]:
        """The two 16-bit halves of a register."""
        low, high = self.work.new("b16"), self.work.new("b16")
        self.add("mov.b32", Vector((low, high)), register)
        return low, high


class Transfer:
    """Addresses of one matrix in memory, and the accesses of its fragment."""

    def __init__(self, code: Code, place: Place, layout: Layout) -> None:
        self.code, self.place, self.layout = code, place, layout
        self.pitch: Operand = place.pitch
        if layout.bits < 8:  # in bytes: a pitch is a multiple of 16 bytes
            shift = {4: 1, 1: 3}[layout.bits]
            self.pitch = code.value("shr.u32", place.pitch, _number(shift))
        self.contiguous = place.by_rows == (layout.contiguous == "row")

    # -- addresses --------------------------------------------------------------------------------

    def start(self, row: Register, column: Register) -> Register:
        """The address of a unit of the matrix in memory; the address's own offset is not in it."""
        base = self.place.address.base
        units = self.code.value("mad.lo.u32", row, self.pitch, column)
        return self._after(units, self.layout.unit, base if base is not None else _number(0))

    def rows_after(self, start: Register, rows: int) -> Register:
        """``rows`` rows of memory after ``start``."""
        return start if rows == 0 else self._after(self.pitch, rows * self.layout.unit, start)

    def at(self, start: Register, column: int = 0) -> Address:
        """``column`` units after ``start``."""
        return Address(start, self.place.address.offset + column * self.layout.unit)

    def _after(self, count: Operand, size: int, base: Operand) -> Register:
        declared = self.place.address.base
        wide = isinstance(declared, Register) and TYPE_BYTES[self.code.work.types[declared.name]] == 8
        return self.code.value("mad.wide.u32" if wide else "mad.lo.u32", count, _number(size), base,
                               kind="b64" if wide else "b32")  # fmt: skip

    # -- A and B ----------------------------------------------------------------------------------

    def load_factor(self, registers: tuple[Operand, ...]) -> None:
        layout, used = self.layout, registers[: len(self.layout.tiles)]
        if self.place.space == "shared" and layout.bits <= 16 and (self.contiguous or layout.bits == 16):
            self._load_matrices(used)
        elif self.contiguous or layout.bits == 16:
            self._load_pieces(used)
        elif layout.bits == 8:
            self._load_bytes(used)
        else:
            self._load_elements(used)
        for first, second in zip(used * layout.registers, registers[len(used) :], strict=False):
            if second in self.code.work.used:  # nothing but a product reads it otherwise
                self.code.add("mov.b32", second, first)

    def _load_matrices(self, registers: tuple[Operand, ...]) -> None:
        """ldmatrix: lanes 8j to 8j + 7 give the rows of tile j."""
        code, tiles = self.code, self.layout.tiles
        each = min(4 if self.layout.bits == 16 else 2, len(tiles))
        # Bits 3 and 4 of the lane choose the tile: which of them is the outer dimension, which the inner?
        steps = [(tiles[1 << bit][0], tiles[1 << bit][1]) for bit in range(each.bit_length() - 1)]
        outer = self._chosen([bit for bit, (o, _) in enumerate(steps) if o])
        inner = self._chosen([bit for bit, (_, i) in enumerate(steps) if i])
        line = code.lane_bits(0, 3)
        down, across = (outer, inner) if self.contiguous else (inner, outer)
        row = line if down is None else code.value("mad.lo.u32", down, _number(8), line)
        width = self.layout.inner if self.contiguous else 8
        column = (
            code.value("mov.u32", _number(0)) if across is None else code.value("mul.lo.u32", across, _number(width))
        )
        start = self.start(row, column)
        form = f"ldmatrix.sync.aligned.m8n8.x{each}{'' if self.contiguous else '.trans'}.shared.b16"
        for first in range(0, len(tiles), each):
            o, i = tiles[first]
            rows, columns = (8 * o, i * width) if self.contiguous else (8 * i, 8 * o)
            code.add(form, Vector(registers[first : first + each]), self.at(self.rows_after(start, rows), columns))

    def _chosen(self, bits: list[int]) -> Register | None:
        """The tile number along one dimension, by the bits of the lane above the third that choose it."""
        return self.code.lane_bits(3 + bits[0], len(bits)) if bits else None

    def _load_pieces(self, registers: tuple[Operand, ...]) -> None:
        """A register at a time; 16-bit elements are transposed between lanes afterwards."""
        code, layout = self.code, self.layout
        each = layout.inner // 4
        start = self.start(code.lane_bits(2, 3), code.lane_bits(0, 2, each.bit_length() - 1))
        load = self.place.access("ld", f"b{8 * each * layout.unit}")
        below = _Rows(self, start)
        for (o, i), target in zip(layout.tiles, registers, strict=True):
            rows, columns = (8 * o, i * layout.inner) if self.contiguous else (8 * i, 8 * o)
            address = self.at(below[rows], columns)
            if self.contiguous:
                code.add(load, target, address)
            else:
                code.add(_TRANSPOSE, target, code.value(load, address))

    def _load_elements(self, registers: tuple[Operand, ...]) -> None:
        """Elements as wide as a register."""
        start = self.start(self.code.lane_bits(0, 2), self.code.lane_bits(2, 3))
        load, below = self.place.access("ld", f"b{self.layout.bits}"), _Rows(self, start)
        for (o, i), target in zip(self.layout.tiles, registers, strict=True):
            self.code.add(load, target, self.at(below[4 * i], 8 * o))

    def _load_bytes(self, registers: tuple[Operand, ...]) -> None:
        """Four bytes of different rows for each register."""
        code = self.code
        start = self.start(code.lane_bits(0, 2, 2), code.lane_bits(2, 3))
        load, below = self.place.access("ld", "u8"), _Rows(self, start)
        for (o, i), target in zip(self.layout.tiles, registers, strict=True):
            found = [code.value(load, self.at(below[16 * i + e], 8 * o)) for e in range(4)]
            low = code.value("mad.lo.u32", found[1], _number(1 << 8), found[0])
            high = code.value("mad.lo.u32", found[3], _number(1 << 8), found[2])
            code.add("mad.lo.u32", target, high, _number(1 << 16), low)

    # -- accumulators -----------------------------------------------------------------------------

    def accumulator(self, opcode: str, registers: tuple[Operand, ...]) -> None:
        """Load (``ld``) or store (``st``) C or D: two elements of a tile at a time where they are neighbours."""
        if self.layout.bits == 16:
            self._half_accumulator(opcode, registers)
            return
        code, contiguous = self.code, self.contiguous
        group, member = code.lane_bits(2, 3), code.lane_bits(0, 2, 1)
        start = self.start(group, member) if contiguous else self.start(member, group)
        kind, below = f"b{self.layout.bits}", _Rows(self, start)
        for number, (o, i) in enumerate(self.layout.tiles):
            pair = registers[2 * number : 2 * number + 2]
            if contiguous:
                self._access(opcode, f"v2.{kind}", Vector(pair), self.at(below[8 * o], 8 * i))
                continue
            for second, register in enumerate(pair):
                self._access(opcode, kind, register, self.at(below[8 * i + second], 8 * o))

    def _half_accumulator(self, opcode: str, registers: tuple[Operand, ...]) -> None:
        code = self.code
        start = self.start(code.lane_bits(2, 3), code.lane_bits(0, 2, 1))
        below = _Rows(self, start)
        for register, (o, i) in zip(registers, self.layout.tiles, strict=True):
            rows, columns = (8 * o, 8 * i) if self.contiguous else (8 * i, 8 * o)
            address = self.at(below[rows], columns)
            if self.contiguous:
                self._access(opcode, "b32", register, address)
            elif opcode == "ld":
                code.add(_TRANSPOSE, register, code.value(self.place.access("ld", "b32"), address))
            else:
                self._access(opcode, "b32", code.value(_TRANSPOSE, register), address)

    def _access(self, opcode: str, kind: str, registers: Operand, address: Address) -> None:
        operands = (address, registers) if opcode == "st" else (registers, address)
        self.code.add(self.place.access(opcode, kind), *operands)


class _Rows:
    """Addresses of rows of memory below a start, each computed once."""

    def __init__(self, transfer: Transfer, start: Register) -> None:
        self._transfer, self._start = transfer, start
        self._known: dict[int, Register] = {0: start}

    def __getitem__(self, rows: int) -> Register:
        if rows not in self._known:
            self._known[rows] = self._transfer.rows_after(self._start, rows)
        return self._known[rows]


def _number(value: int) -> Immediate:
    return Immediate(value, "int")
