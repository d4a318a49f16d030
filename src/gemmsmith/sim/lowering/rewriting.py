"""Replace instructions of an entry by others, before it is lowered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gemmsmith.sim.ptx.syntax import Entry, Instruction, Operand, Register, Sampled, Vector


class Rewriting:
    """Makes new instructions and registers for one entry.

    ``kept`` are the instructions that stay: what they read tells which registers matter beyond the replaced ones.
    """

    def __init__(self, entry: Entry, kept: Iterable[Instruction]) -> None:
        self.types = entry.register_types
        self.used = {operand for i in kept for operand in _flat(i.operands)}
        self.registers: list[tuple[str, str]] = []

    def new(self, kind: str) -> Register:
        """A register that the entry does not have yet, of a PTX type."""
        register = Register(f"new:{len(self.registers)}")
        self.registers.append((register.name, kind))
        return register


def like(instruction: Instruction, name: str, *operands: Operand) -> Instruction:
    """Another instruction with the guard, the source line and the text of ``instruction``."""
    return replace(instruction, name=name, operands=operands)


def _flat(operands: Iterable[Operand]) -> Iterator[Operand]:
    for operand in operands:
        if isinstance(operand, Vector):
            yield from _flat(operand.items)
        elif isinstance(operand, Sampled):
            yield from _flat((operand.base, operand.coordinates))
        else:
            yield operand
