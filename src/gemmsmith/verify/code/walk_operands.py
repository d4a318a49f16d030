"""Where a thread's walk through integer code keeps its numbers: a slot for each register and constant."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gemmsmith.sim.ptx.syntax import Address, Entry, Immediate, Instruction, Negated, Operand, Register, Symbol, Vector
from gemmsmith.verify.code.integer_ops import Value, conversion, type_of
from gemmsmith.verify.code.integer_steps import Registers


class WalkOperands:
    """The slots of one entry's registers, constants, special registers and parameters."""

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._constants: dict[int, int] = {}
        self._special: dict[int, str] = {}
        self._parameters: dict[int, tuple[str, int, int]] = {}

    def _slot(self, name: str) -> int:
        return self._slots.setdefault(name, len(self._slots))

    def _places(self, operands: Sequence[Operand]) -> list[int] | None:
        """The slots of operands that have one; None if some have none."""
        found: list[int] = []
        for operand in operands:
            if isinstance(operand, Immediate):
                slot = self._slot(f"#{operand.bits}")
                self._constants[slot] = operand.bits
            elif isinstance(operand, Register) or (isinstance(operand, Symbol) and operand.name.startswith("%")):
                slot = self._slot(operand.name)  # of a special register: _source sees to its value
            else:
                return None
            found.append(slot)
        return found

    def _target(self, each: Instruction) -> int:
        first = each.operands[0]
        return self._slot(first.name if isinstance(first, Register) else "")

    def _width(self, each: Instruction) -> int:
        """Bits of the result."""
        kind = conversion(each.name)
        if kind is not None:
            return max(32, kind[0][1])
        last = type_of(each.name)
        width = last[1] if last is not None else 64
        return 2 * width if ".wide" in each.name else width

    def _source(self, operand: Operand) -> Callable[[Registers], Value]:
        if isinstance(operand, Immediate):
            bits = operand.bits
            return lambda _: bits
        if isinstance(operand, Negated):
            slot = self._slot(operand.register.name)
            return lambda registers: None if registers[slot] is None else 1 - (registers[slot] or 0)
        if isinstance(operand, Register):
            slot = self._slot(operand.name)
            return lambda registers: registers[slot]
        if isinstance(operand, Symbol) and operand.name.startswith("%"):
            slot = self._slot(operand.name)
            self._special[slot] = operand.name
            return lambda registers: registers[slot]
        return lambda _: None

    def read_parameters(self, entry: Entry) -> None:
        """Find which register each parameter is loaded to."""
        for each in entry.instructions:
            place = each.operands[1] if len(each.operands) == 2 else None
            kind = type_of(each.name)
            if not each.name.startswith("ld.param") or not isinstance(place, Address) or kind is None:
                continue
            base = place.base
            items = each.operands[0].items if isinstance(each.operands[0], Vector) else (each.operands[0],)
            for number, item in enumerate(items):
                if isinstance(item, Register) and item.name in self._slots and isinstance(base, Symbol):
                    offset = place.offset + number * kind[1] // 8
                    self._parameters[self._slots[item.name]] = base.name, offset, kind[1] // 8
