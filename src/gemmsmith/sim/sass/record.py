"""The record of a machine opcode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gemmsmith.sim.sass.code import Code
from gemmsmith.sim.sass.meaning import Part
from gemmsmith.sim.sass.syntax import MachineInstruction

Lower = Callable[[Code, MachineInstruction], Part | Sequence[Part]]


@dataclass(frozen=True, eq=False)
class Opcode:
    """One opcode, or several that differ in what they read their operands from (IADD3 and UIADD3).

    ``lower`` makes operations of an instruction, and raises ``Refused`` for a form that it does not take. ``ignored``
    are modifiers that change neither operands nor results; any that ``lower`` does not look at must be here.
    """

    names: str
    lower: Lower
    known: str = ""
    ignored: str = ""

    @property
    def opcodes(self) -> tuple[str, ...]:
        return tuple(self.names.split())

    def takes(self, modifiers: tuple[str, ...]) -> bool:
        """Whether every modifier is one that the record knows."""
        known = set(self.known.split()) | set(self.ignored.split())
        return "*" in known or set(modifiers) <= known
