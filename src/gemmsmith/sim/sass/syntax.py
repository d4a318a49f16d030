"""What a machine instruction consists of: operands, guard, control bits. It says what is written, not what it means.

Every operand prints as nvdisasm printed it, which the tests use: whatever is decoded can be read back.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gemmsmith.sim.sass.control import Control

# The register of each file that reads as zero, or as true, and ignores what is written.
_ZERO = {"R": "RZ", "UR": "URZ", "P": "PT", "UP": "UPT"}


@dataclass(frozen=True, slots=True)
class Register:
    """A register of a file: R, UR (uniform), P, UP (predicates), B (convergence), SB (scoreboard).

    ``number`` is None for the one that is always zero or true. ``sign`` is '-', '~', '!' or ''. ``suffixes`` are parts
    and hints, in their order: 'reuse', '64', 'H1_H1', 'X4'.
    """

    file: str
    number: int | None
    sign: str = ""
    absolute: bool = False
    suffixes: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = _ZERO[self.file] if self.number is None else f"{self.file}{self.number}"
        name = f"|{name}|" if self.absolute else name
        return self.sign + ".".join((name, *self.suffixes))

    @property
    def uniform(self) -> bool:
        return self.file in ("UR", "UP")

    @property
    def predicate(self) -> bool:
        return self.file in ("P", "UP")


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal as it is printed. ``value`` is None for a floating-point literal, whose bits are in the encoding."""

    text: str
    value: int | None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name: a special register (SR_TID.X), all predicates (PR), a wgmma group (gsb0)."""

    name: str
    sign: str = ""

    def __str__(self) -> str:
        return self.sign + self.name


@dataclass(frozen=True, slots=True)
class Label:
    """A place in the code, by name."""

    name: str

    def __str__(self) -> str:
        return f"`({self.name})"


Term = Register | Immediate | Symbol | Label


@dataclass(frozen=True, slots=True)
class Bracketed:
    """``c[0x0][0x160]``, ``[R2.64+UR4+0x10]``, ``desc[UR4][R2.64]``, ``gdesc[UR8].tnspB``: sums in brackets."""

    name: str
    groups: tuple[tuple[Term, ...], ...]
    sign: str = ""
    absolute: bool = False
    suffixes: tuple[str, ...] = ()

    def __str__(self) -> str:
        between = " " if self.name == "c" and any(s.startswith("H") for s in self.suffixes) else ""  # as nvdisasm
        text = self.name + between.join(f"[{'+'.join(map(str, group))}]" for group in self.groups)
        text = f"|{text}|" if self.absolute else text
        return self.sign + ".".join((text, *self.suffixes))


Operand = Register | Immediate | Symbol | Label | Bracketed


@dataclass(frozen=True)
class MachineInstruction:
    """One instruction. ``offset`` is in bytes from the function's start; ``encoding`` has its 128 bits.

    ``hints`` are what newer versions of nvdisasm print after the operands: control bits in words.
    """

    offset: int
    guard: Register | None
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    encoding: int
    file: str = ""
    line: int = 0
    hints: tuple[str, ...] = ()

    @cached_property
    def control(self) -> Control:
        return Control.of(self.encoding)

    @property
    def name(self) -> str:
        """The opcode with its modifiers: LDG.E.128."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def immediate(self) -> int:
        """The 32 bits in which an arithmetic instruction keeps its literal."""
        return self.encoding >> 32 & 0xFFFFFFFF

    def __str__(self) -> str:
        guard = f"@{self.guard} " if self.guard is not None else ""
        listed: list[str] = []
        for n, operand in enumerate(self.operands):
            # A return prints its register and where the function starts without a comma between them.
            joined = n and isinstance(operand, Label) and self.opcode == "RET"
            listed = [*listed[:-1], f"{listed[-1]} {operand}"] if joined else [*listed, str(operand)]
        notes = [hint for hint in self.hints if hint.startswith("(*")]  # a spill, printed as one more operand
        words = [hint for hint in self.hints if not hint.startswith("(*")]
        return " ".join(filter(None, (f"{guard}{self.name}", ", ".join((*listed, *notes)), *words)))
