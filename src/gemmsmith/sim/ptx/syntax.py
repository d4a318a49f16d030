"""What a PTX text consists of: operands, instructions, variables, entries and modules.

These are the results of the reader (``reader.py``). They say what is written, not what it means.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gemmsmith.errors import SimulationError


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register by its scoped name."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal. ``bits`` is the raw pattern; ``kind`` is 'int', 'f32' or 'f64'."""

    bits: int
    kind: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable, a label, or a special register such as %tid.x."""

    name: str


@dataclass(frozen=True, slots=True)
class Address:
    """``[base+offset]`` where the base is a register, a symbol, or nothing."""

    base: Register | Symbol | None
    offset: int


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, …}``, or the parenthesised lists of a call."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    """``!p``: a predicate that is taken the other way round."""

    register: Register


@dataclass(frozen=True, slots=True)
class Sampled:
    """``[object, {x, y, …}]``: coordinates of a texture, a surface or a tensor map."""

    base: Operand
    coordinates: Vector


Operand = Register | Immediate | Symbol | Address | Vector | Negated | Sampled

# ``_`` as an operand: the result is not wanted.
SINK = Symbol("_")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One PTX instruction and the source line it comes from.

    ``name`` is the opcode with all modifiers, ``written`` the whole statement as the PTX has it. ``library`` is the
    header whose function the kernel's own file calls for it, if one does.
    """

    name: str
    operands: tuple[Operand, ...]
    guard: Register | None
    negated: bool
    file: str
    line: int
    written: str
    caller: str = ""
    column: int = 0
    library: str = ""

    @property
    def text(self) -> str:
        """The statement with single blanks, as messages give it."""
        return " ".join(self.written.split())

    @property
    def opcode(self) -> str:
        return self.name.partition(".")[0]

    @property
    def where(self) -> str:
        """The source line, as messages give it."""
        if not self.line:
            return "an unknown line"
        own = f"{self.file}:{self.line}"
        return own + (f" (called at {self.caller})" if self.caller and self.caller != own else "")


@dataclass(frozen=True, slots=True)
class Relocation:
    """A place in a variable's initial value that holds the address of a symbol."""

    offset: int
    symbol: str
    addend: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in .shared, .local, .global, .const or .param space; the parameters of calls are in space ``call``."""

    name: str
    space: str
    align: int
    size: int
    element: str
    initial: bytes = b""
    relocations: tuple[Relocation, ...] = ()


@dataclass(frozen=True)
class Function:
    """A device function that the compiler did not inline. Names in it are unique in the whole module.

    ``tables`` are the targets of indirect branches, by name.
    """

    name: str
    results: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    variables: tuple[Variable, ...]
    registers: tuple[tuple[str, str], ...]
    instructions: tuple[Instruction, ...]
    labels: tuple[tuple[str, int], ...]
    tables: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class Entry:
    """A kernel: parameters, variables, registers by name, instructions and label positions.

    ``tables`` are the targets of indirect branches, by name; ``functions`` those that the kernel may call.
    """

    name: str
    parameters: tuple[Variable, ...]
    variables: tuple[Variable, ...]
    registers: tuple[tuple[str, str], ...]
    instructions: tuple[Instruction, ...]
    labels: tuple[tuple[str, int], ...]
    tables: tuple[tuple[str, tuple[str, ...]], ...] = ()
    functions: tuple[Function, ...] = ()

    @cached_property
    def register_types(self) -> dict[str, str]:
        """The declared type of each register."""
        return dict(self.registers)


@dataclass(frozen=True)
class Module:
    """All entries of a PTX text, with the variables they share."""

    version: str
    target: str
    entries: tuple[Entry, ...]

    def entry(self, name: str) -> Entry:
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise SimulationError(f"no entry {name!r} in the PTX", f"entries: {', '.join(e.name for e in self.entries)}")
