"""Where registers, variables and parameters of an entry are, for the functions that lower its instructions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gemmsmith.errors import SimulationError
from gemmsmith.sim.lowering.linking import recursive_functions
from gemmsmith.sim.lowering.operation import FILE_DTYPES, FILES, Pointer, Slot, Source
from gemmsmith.sim.ptx.syntax import Address, Entry, Function, Immediate, Instruction, Operand, Register, Symbol, Vector
from gemmsmith.sim.ptx.types import DTYPES, TYPE_BYTES
from gemmsmith.sim.special import FRAME, RESERVED, RESERVED_BYTES, SPECIAL

WARP_SIZE = Symbol("WARP_SZ")


# Addresses of functions, far from those of data.
FUNCTION_ADDRESSES = 0x0000_6000_0000_0000


# What recursion and alloca may use of a thread's local memory. CUDA's own limit is 1,024 bytes unless a program asks
# for more.
_STACK = 4096


@dataclass(frozen=True)
class Frame:
    """A function and where its parameters and local variables are, in bytes from the start of its frame."""

    function: Function
    offsets: dict[str, int]
    size: int


class Refused(Exception):  # noqa: N818 - not an error by itself: another record may take the instruction
    """This record does not take the instruction; ``register`` is an unknown special register, if that is why."""

    def __init__(self, register: str = "") -> None:
        super().__init__(register)
        self.register = register


class Lowering:
    """Turns the operands of an entry's instructions into rows, constants and pointers.

    ``addresses`` places the module's .global and .const variables. ``mod32`` takes fp32 arithmetic modulo 2³².
    """

    def __init__(self, entry: Entry, addresses: dict[str, int], mod32: bool) -> None:
        self.entry, self.mod32 = entry, mod32
        self.heights = dict.fromkeys(FILE_DTYPES, 0)
        self.rows: dict[str, tuple[str, int]] = {}
        for name, kind in entry.registers:
            file = FILES.get(TYPE_BYTES.get(kind, 0))
            if file is None:
                raise SimulationError(f"the simulator has no registers of type .{kind}, which {name} has")
            self.rows[name] = self._new_row(file)
        self.special: dict[str, Slot] = {}
        self._carry: Slot | None = None
        self.symbols: dict[str, int] = dict(addresses)
        self.static_shared = self.local_size = 0
        self.function = ""  # whose instructions are being lowered; the entry has no name here
        self.frames: dict[str, Frame] = {}
        self._reserve_shared()
        self._place_variables()
        for number, function in enumerate(entry.functions):
            self._place_function(function)
            self.symbols[function.name] = FUNCTION_ADDRESSES + 16 * number
        offset = 0
        for parameter in entry.parameters:
            offset = _align(offset, parameter.align)
            self.symbols[parameter.name] = offset
            offset += parameter.size

    def _new_row(self, file: str) -> tuple[str, int]:
        row = self.heights[file]
        self.heights[file] += 1
        return file, row

    def _place_variables(self) -> None:
        dynamic: dict[str, int] = {}
        for variable in self.entry.variables:
            if variable.space == "shared" and variable.size == 0:
                dynamic[variable.name] = variable.align
            elif variable.space == "shared":
                at = self.symbols[variable.name] = _align(self.static_shared, variable.align)
                self.static_shared = at + variable.size
            elif variable.space in ("local", "call"):
                at = self.symbols[variable.name] = _align(self.local_size, max(variable.align, 4))
                self.local_size = at + variable.size
        if dynamic:  # dynamic shared memory follows the static, aligned as it is declared and to at least 16 bytes
            self.static_shared = _align(self.static_shared, max(16, *dynamic.values()))
            self.symbols.update(dict.fromkeys(dynamic, self.static_shared))

    def _reserve_shared(self) -> None:
        """The shared memory that CUDA keeps for itself, if the kernel asks where it is (cooperative groups do)."""
        used = {o.name for i in self.entry.instructions for o in i.operands if isinstance(o, Symbol)}
        if any(name.startswith(RESERVED) for name in used):
            ends = {"begin": 0, "0": 0, "1": 0, "end": RESERVED_BYTES, "cap": RESERVED_BYTES}
            self.symbols.update({f"{RESERVED}{end}": value for end, value in ends.items()})
            self.static_shared = RESERVED_BYTES
            self._special(RESERVED, DTYPES["u32"])

    def _place_function(self, function: Function) -> None:
        """Where a function's parameters and local variables are in its frame."""
        offsets: dict[str, int] = {}
        size = 0
        for variable in (*function.results, *function.parameters, *function.variables):
            if variable.space in ("local", "call"):
                offsets[variable.name] = size = _align(size, max(variable.align, 4))
                size += variable.size
        self.frames[function.name] = Frame(function, offsets, _align(size, 16))

    def stack_size(self) -> int:
        """Local memory beyond the entry's own, for functions and for alloca."""
        frames = sum(frame.size + 16 for frame in self.frames.values())
        deep = any(frame.function.name in self.recursive for frame in self.frames.values())
        grows = deep or any(i.opcode == "alloca" for i in self.entry.instructions)
        return frames + (_STACK if grows else 0)

    @cached_property
    def recursive(self) -> frozenset[str]:
        """Functions that may be called again before they return."""
        return recursive_functions(self.entry.functions)

    def frame_offset(self, name: str) -> int | None:
        """Where a variable is in the frame of the function being lowered; None for any other symbol."""
        return self.frames[self.function].offsets.get(name) if self.function else None

    def frame(self) -> Slot:
        """The register that holds the address of a lane's frame."""
        return self._special(FRAME, DTYPES["u64"])

    def slot(self, operand: Operand, kind: str) -> Slot:
        """The row of a register, seen as the PTX type ``kind``."""
        if type(operand) is not Register:
            raise Refused
        file, row = self.rows[operand.name]
        return Slot(file, row, DTYPES[kind])

    def carry(self) -> Slot:
        """The carry flag, which .cc writes: a row that all instructions share."""
        if self._carry is None:
            self._carry = self.unused("pred")
        return self._carry

    def unused(self, kind: str) -> Slot:
        """A new row for a result that is not wanted."""
        file, row = self._new_row(FILES[DTYPES[kind].itemsize])
        return Slot(file, row, DTYPES[kind])

    def source(self, operand: Operand, kind: str) -> Source:
        """A register, literal, special register or address, as a value of the PTX type ``kind``."""
        if type(operand) is Register:
            file, row = self.rows[operand.name]
            return Slot(file, row, DTYPES[kind])
        if isinstance(operand, Immediate):
            return _constant(operand, DTYPES[kind])
        if isinstance(operand, Symbol):
            if operand.name in SPECIAL:
                return self._special(operand.name, DTYPES[kind])
            if operand.name in self.symbols:
                return scalar(self.symbols[operand.name], DTYPES[kind])
            if operand == WARP_SIZE:
                return scalar(32, DTYPES[kind])
            if operand.name.startswith("%"):
                raise Refused(operand.name)
        raise Refused

    def special_source(self, name: str) -> Slot:
        """A special register that the instruction reads without naming it."""
        return self._special(name, FILE_DTYPES[FILES[SPECIAL[name].nbytes]])

    def _special(self, name: str, dtype: np.dtype[Any]) -> Slot:
        """A special register: a row that is filled before the kernel starts."""
        if name not in self.special:
            file, row = self._new_row(FILES[SPECIAL[name].nbytes])
            self.special[name] = Slot(file, row, FILE_DTYPES[file])
        slot = self.special[name]
        return Slot(slot.file, slot.row, dtype)

    def pointer(self, operand: Operand) -> Pointer:
        """An address operand."""
        if not isinstance(operand, Address):
            raise Refused
        if isinstance(operand.base, Register):
            file, row = self.rows[operand.base.name]
            return Pointer(Slot(file, row, FILE_DTYPES[file]), operand.offset)
        base = 0
        if isinstance(operand.base, Symbol):
            if (inside := self.frame_offset(operand.base.name)) is not None:
                return Pointer(self.frame(), inside + operand.offset)
            if operand.base.name not in self.symbols:
                raise Refused
            base = self.symbols[operand.base.name]
        return Pointer(np.uint64((base + operand.offset) % (1 << 64)), 0)


def operands(i: Instruction, *counts: int) -> tuple[Operand, ...]:
    """An instruction's operands, if it has one of these numbers of them."""
    if len(i.operands) not in counts:
        raise Refused
    return i.operands


def items(operand: Operand, count: int) -> tuple[Operand, ...]:
    """The ``count`` items of a vector operand; one operand is a vector of one."""
    found = operand.items if isinstance(operand, Vector) else (operand,)
    if len(found) != count:
        raise Refused
    return found


def literal(operand: Operand) -> int:
    """The value of an operand that must be an integer literal."""
    if not isinstance(operand, Immediate):
        raise Refused
    return operand.bits


def scalar(bits: int, dtype: np.dtype[Any]) -> np.generic:
    """The scalar of ``dtype`` with the given bit pattern."""
    raw = np.array([bits % (1 << (8 * dtype.itemsize))], f"u{dtype.itemsize}")
    value: np.generic = raw.view(dtype)[0]
    return value


def _constant(operand: Immediate, dtype: np.dtype[Any]) -> np.generic:
    if dtype == np.dtype(bool):
        return np.bool_(operand.bits != 0)
    if operand.kind == "f64" and dtype == np.dtype(np.float32):
        return np.float32(np.uint64(operand.bits).view(np.float64))
    return scalar(operand.bits, dtype)


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
