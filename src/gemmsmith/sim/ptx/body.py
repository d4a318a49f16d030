"""Read the body of an entry or function: declarations, labels, source positions, nested scopes, instructions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from gemmsmith.errors import SimulationError
from gemmsmith.sim.ptx.syntax import (
    Address,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Register,
    Sampled,
    Symbol,
    Variable,
    Vector,
)
from gemmsmith.sim.ptx.text import read_immediate, read_variable, split_operands

_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:\s*,.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_REG = re.compile(r"\.reg\s*\.(\w+)\s+(.+)", re.S)
_NUMBERED = re.compile(r"([%$\w]+)\s*<\s*(\d+)\s*>")
_INSTRUCTION = re.compile(r"(?:@\s*(!?)\s*([%$\w]+)\s+)?([a-z_]\w*(?:(?:\.|::)[\w:]+)*)\s*(.*)$", re.S)
_ADDRESS = re.compile(r"([%$\w.]+)?\s*(?:([+-])\s*(-?(?:0x[0-9a-fA-F]+|\d+)))?")
# The next thing in a body: a brace, a source position (.loc and .file, not .local), a label, or a statement.
_NEXT = re.compile(
    r"\s*(?:(?P<brace>[{}])|(?P<position>\.(?:loc|file)\s[^\n]*)|(?P<label>[$%\w]+)\s*:(?!:)|(?P<statement>[^;]*);|$)"
)
_OUTERMOST = 0


class Body:
    """What a body declares, with names that are unique in it: a name of an inner scope ends with its number.

    ``function`` is the name of a device function, and ``formals`` are its results and parameters. Its names are made
    unique in the whole module.
    """

    def __init__(self, files: dict[int, str], text: str, function: str = "", formals: Sequence[Variable] = ()) -> None:
        self.files, self.function = files, function
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.tables: dict[str, tuple[str, ...]] = {}
        self.scopes: list[dict[str, Register | Symbol]] = [{v.name: Symbol(self._unique(v.name)) for v in formals}]
        self.scope_numbers = [_OUTERMOST]
        self.scope_count = _OUTERMOST
        self.file, self.line, self.column, self.caller, self.library = "", 0, 0, "", ""
        self.vague = False  # the compiler gives no line, as for a load that several statements share
        self.vague_loads: list[int] = []
        self.callers: dict[tuple[str, ...], tuple[str, ...]] = {}
        parts = list(_parts(text))
        self.scoped_labels = self._find_labels(parts)
        self._read(parts)
        if self.vague_loads:
            self._place_vague_loads()

    def formals(self, declared: Sequence[Variable]) -> tuple[Variable, ...]:
        """A function's parameters under their unique names."""
        return tuple(replace(variable, name=self._unique(variable.name), space="call") for variable in declared)

    def _unique(self, name: str, scope: int = _OUTERMOST) -> str:
        inner = f"@{scope}" if scope != _OUTERMOST else ""
        return f"{name}@{self.function}{inner}" if self.function else f"{name}{inner}"

    def _find_labels(self, parts: list[tuple[str, str]]) -> dict[int, dict[str, str]]:
        """The labels of each scope with their unique names; a branch may come before its label."""
        found: dict[int, dict[str, str]] = {_OUTERMOST: {}}
        numbers, count = [_OUTERMOST], _OUTERMOST
        for kind, text in parts:
            if kind == "brace" and text == "{":
                count += 1
                numbers.append(count)
                found[count] = {}
            elif kind == "brace":
                numbers.pop()
            elif kind == "label":
                scope = found[numbers[-1]]
                if text in scope:
                    raise SimulationError(f"label {text!r} occurs twice in one scope")
                scope[text] = self._unique(text, numbers[-1])
        return found

    def _read(self, parts: list[tuple[str, str]]) -> None:
        label = ""
        for kind, text in parts:
            if kind == "statement":
                self._statement(text, label)
                label = ""
            elif kind == "position":
                self._location(text)
            elif kind == "brace":
                self._scope(text)
            else:
                label = self.scoped_labels[self.scope_numbers[-1]][text]
                self.labels[label] = len(self.instructions)

    def _scope(self, brace: str) -> None:
        if brace == "{":
            self.scope_count += 1
            self.scope_numbers.append(self.scope_count)
            self.scopes.append({})
        else:
            self.scopes.pop()
            self.scope_numbers.pop()

    def _location(self, text: str) -> None:
        match = _LOC.match(text)
        self.vague = match is not None and int(match.group(2)) == 0
        if match is not None and not self.vague:
            self.file, self.line = self.files.get(int(match.group(1)), "?"), int(match.group(2))
            here, caller = match.group(1, 2, 3), match.group(4, 5, 6)
            self.column = int(match.group(3))
            if caller[0]:
                self.callers[here] = caller
            self.caller, self.library = self._called_at(here, caller) if caller[0] else ("", "")

    def _place_vague_loads(self) -> None:
        """A load without a line belongs to the first statement that uses its result."""
        wanted, first_use = set(self.vague_loads), dict[Operand, Instruction]()
        for at in range(len(self.instructions) - 1, -1, -1):
            i = self.instructions[at]
            if at in wanted:
                used = next((first_use[o] for o in _registers(i.operands[:1]) if o in first_use), None)
                if used is not None:
                    self.instructions[at] = replace(
                        i, file=used.file, line=used.line, column=used.column, caller=used.caller
                    )
            else:
                sources = i.operands if i.name.startswith("st.") else i.operands[1:]
                first_use.update(dict.fromkeys(_registers(sources), i))

    def _called_at(self, here: tuple[str, ...], place: tuple[str, ...]) -> tuple[str, str]:
        """The innermost call, in a chain of inlined calls, that stands in the kernel's own file (file 1), and the file
        of the function that it calls."""
        called = here[0]
        for _ in range(len(self.callers)):
            if place[0] != "1":
                called, place = place[0], self.callers.get(place, place)
        return f"{self.files.get(int(place[0]), '?')}:{place[1]}", self.files.get(int(called), "?")

    def _statement(self, text: str, label: str) -> None:
        if not text.startswith("."):
            if text:
                if self.vague and text.startswith("ld."):
                    self.vague_loads.append(len(self.instructions))
                self.instructions.append(self._instruction(text))
        elif text.startswith(".reg"):
            self._declare_registers(text)
        elif text.startswith(".branchtargets"):
            names = [self._operand(part) for part in split_operands(text.removeprefix(".branchtargets"))]
            self.tables[label] = tuple(name.name for name in names if isinstance(name, Symbol))
        elif not text.startswith((".pragma", ".callprototype", ".calltargets")):
            self._declare_variable(read_variable(text))

    def _declare_variable(self, variable: Variable) -> None:
        """A variable; ``.param`` in a body is a parameter of a call."""
        space = "call" if variable.space == "param" else variable.space
        if space == "call" or self.function or self.scope_numbers[-1] != _OUTERMOST:
            unique = self._unique(variable.name, self.scope_numbers[-1])
            self.scopes[-1][variable.name] = Symbol(unique)
            variable = replace(variable, name=unique, space=space)
        self.variables.append(variable)

    def _declare_registers(self, text: str) -> None:
        match = _REG.match(text)
        if match is None:
            raise SimulationError(f"cannot read register declaration {text!r}")
        kind = match.group(1)
        suffix = self._unique("", self.scope_numbers[-1])
        scope, registers = self.scopes[-1], self.registers
        for item in match.group(2).split(","):
            names = [item.strip()]
            if (numbered := _NUMBERED.fullmatch(names[0])) is not None:
                names = [f"{numbered.group(1)}{i}" for i in range(int(numbered.group(2)))]
            for name in names:
                scope[name] = Register(name + suffix)
                registers[name + suffix] = kind

    def _instruction(self, text: str) -> Instruction:
        match = _INSTRUCTION.match(text)
        if match is None:
            raise SimulationError(f"cannot read PTX instruction {text!r}")
        negated, guard, name, rest = match.groups()
        operands = tuple([self._operand(part) for part in split_operands(rest)])
        register = self._operand(guard) if guard else None
        if register is not None and not isinstance(register, Register):
            raise SimulationError(f"the guard of {text!r} is not a predicate register")
        place = self.file, self.line, text, self.caller, self.column, self.library
        return Instruction(name, operands, register, bool(negated), *place)

    def _operand(self, text: str) -> Operand:
        for scope in reversed(self.scopes):
            if (declared := scope.get(text)) is not None:
                return declared
        first = text[:1]
        if first == "[":
            return self._address(text[1:-1].strip())
        if first in ("{", "("):  # a vector, or the parameters of a call
            return Vector(tuple([self._operand(part) for part in split_operands(text[1:-1])]))
        if first == "!" and isinstance(inner := self._operand(text[1:].strip()), Register):
            return Negated(inner)
        if (number := read_immediate(text)) is not None:
            return number
        for number_of_scope in reversed(self.scope_numbers):
            if (label := self.scoped_labels[number_of_scope].get(text)) is not None:
                return Symbol(label)
        return Symbol(text)

    def _address(self, text: str) -> Address | Symbol | Sampled:
        match = _ADDRESS.fullmatch(text)
        if match is None:  # such as a texture or a tensor map with coordinates
            parts = split_operands(text)
            if len(parts) == 2 and isinstance(at := self._operand(parts[1]), Vector):
                return Sampled(self._operand(parts[0]), at)
            return Symbol(f"[{text}]")
        base, sign, offset = match.groups()
        value = int(offset, 0) if offset else 0
        value = -value if sign == "-" else value
        if base is None:
            return Address(None, value)
        operand = self._operand(base)
        if isinstance(operand, Immediate):
            return Address(None, operand.bits + value)
        if not isinstance(operand, (Register, Symbol)):
            raise SimulationError(f"cannot read PTX address [{text}]")
        return Address(operand, value)


def _registers(operands: Sequence[Operand]) -> list[Operand]:
    """The registers of operands, those in vectors and addresses too."""
    found: list[Operand] = []
    for operand in operands:
        if isinstance(operand, Vector):
            found += _registers(operand.items)
        elif isinstance(operand, Address) and operand.base is not None:
            found.append(operand.base)
        elif isinstance(operand, Register):
            found.append(operand)
    return found


def _parts(text: str) -> list[tuple[str, str]]:
    """The body as braces, source positions, labels and statements, in order."""
    parts: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        found = _NEXT.match(text, position)
        if found is None:
            start = text[position:].lstrip()
            raise SimulationError(f"PTX statement without an end: {start[:60]!r}")
        position = found.end()
        if (kind := found.lastgroup) is not None:
            parts.append((kind, found.group(kind).strip()))
    return parts
