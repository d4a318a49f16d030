"""Read PTX text into modules, entries and instructions.

The reader knows PTX's grammar, not its meaning. It accepts any opcode; ``lower.py`` refuses what the simulator cannot
execute. Source lines come from the ``.loc`` directives that the compiler writes with ``-lineinfo``.
"""

from __future__ import annotations

import re

from gemmsmith.errors import SimulationError
from gemmsmith.sim.syntax import (
    Address,
    Entry,
    Immediate,
    Instruction,
    Module,
    Operand,
    Register,
    Symbol,
    Variable,
    Vector,
)
from gemmsmith.sim.types import TYPE_BYTES

# The parameters of a call, which PTX declares inside the body, become registers whose names begin with this.
CALL_PARAMETER = "call:"


def parse(text: str) -> Module:
    """Parse a whole PTX text."""
    return _Reader(text).module()


_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:\s*,.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_REG = re.compile(r"\.reg\s+\.(\w+)\s+(.+)", re.S)
_NUMBERED = re.compile(r"([%$\w]+)<(\d+)>")
_VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(shared|local|global|const|param)\s*(?:\.align\s+(\d+)\s*)?"
    r"(?:\.ptr\s*(?:\.\w+\s*)*(?:\.align\s+\d+\s*)?)?\.(\w+)\s+(?:\.ptr\s*(?:\.(?:global|shared|const|local)\s*)?"
    r"(?:\.align\s+\d+\s*)?)?([$%\w]+)(?:\[(\d*)\])?\s*(?:=\s*(.+))?$",
    re.S,
)
_INSTRUCTION = re.compile(r"(?:@(!?)([%$\w]+)\s+)?([a-z]\w*(?:(?:\.|::)[\w:]+)*)\s*(.*)$", re.S)
_ADDRESS = re.compile(r"([%$\w.]+)?\s*(?:([+-])\s*(-?(?:0x[0-9a-fA-F]+|\d+)))?")
_NUMBER = re.compile(
    r"0[fF](?P<single>[0-9a-fA-F]{8})|0[dD](?P<double>[0-9a-fA-F]{16})|"
    r"(?P<sign>-?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0(?P<octal>[0-7]+)|(?P<decimal>\d+))U?"
)
# The next thing in a body: a brace, a source position (.loc and .file, not .local), a label, or a statement.
_NEXT = re.compile(
    r"\s*(?:(?P<brace>[{}])|(?P<position>\.(?:loc|file)\s[^\n]*)|(?P<label>[$%\w]+)\s*:(?!:)|(?P<statement>[^;]*);|$)"
)


class _Reader:
    """Walks the text once, entry by entry."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.files: dict[int, str] = {}
        self.version = self.target = ""
        self.globals: list[Variable] = []
        self.entries: list[Entry] = []

    def module(self) -> Module:
        for file in _FILE.finditer(self.text):
            self.files[int(file.group(1))] = file.group(2).rsplit("/", 1)[-1]
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", self.text, flags=re.S)
        if (found := re.search(r"\.version\s+(\S+)", text)) is not None:
            self.version = found.group(1)
        if (found := re.search(r"\.target\s+([\w, ]+)", text)) is not None:
            self.target = found.group(1).split(",")[0].strip()
        position = 0
        entry = re.compile(r"\.entry\s+([$\w]+)\s*(\((?:[^()]*)\))?([^{;]*)\{", re.S)
        function = re.compile(r"\.func\b[^{;]*\{", re.S)
        while (match := entry.search(text, position)) is not None:
            self._module_variables(self._without_functions(text[position : match.start()], function))
            end = _matching_brace(text, match.end() - 1)
            self._entry(match.group(1), match.group(2) or "()", text[match.end() : end])
            position = end + 1
        self._module_variables(self._without_functions(text[position:], function))
        shared = tuple(self.globals)
        entries = tuple(
            Entry(e.name, e.parameters, shared + e.variables, e.registers, e.instructions, e.labels)
            for e in self.entries
        )
        return Module(self.version, self.target, entries)

    @staticmethod
    def _without_functions(text: str, function: re.Pattern[str]) -> str:
        while (match := function.search(text)) is not None:
            end = _matching_brace(text, match.end() - 1)
            text = text[: match.start()] + text[end + 1 :]
        return text

    def _module_variables(self, text: str) -> None:
        for statement in text.split(";"):
            if re.search(r"\.(?:shared|global|const)\b", statement) is not None:
                self.globals.append(_variable(statement))

    def _entry(self, name: str, parameters: str, body: str) -> None:
        inner = parameters.strip()[1:-1]
        params = tuple(_variable(p) for p in inner.split(",") if p.strip())
        reader = _Body(self.files, body)
        self.entries.append(
            Entry(name, params, tuple(reader.variables), tuple(reader.registers.items()),
                  tuple(reader.instructions), tuple(reader.labels.items()))
        )  # fmt: skip


class _Body:
    """Reads one entry's body: declarations, labels, source positions, nested scopes, instructions."""

    def __init__(self, files: dict[int, str], text: str) -> None:
        self.files = files
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.scopes: list[dict[str, Register]] = [{}]
        self.scope_count = 0
        self.file, self.line, self.caller = "", 0, ""
        self.callers: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._read(text)

    def _read(self, text: str) -> None:
        position = 0
        while position < len(text):
            found = _NEXT.match(text, position)
            if found is None:
                start = text[position:].lstrip()
                raise SimulationError(f"PTX statement without an end: {start[:60]!r}")
            position = found.end()
            kind = found.lastgroup
            if kind == "statement":
                self._statement(found.group(kind).strip())
            elif kind == "position":
                self._location(found.group(kind))
            elif kind == "brace":
                self._scope(found.group(kind))
            elif kind == "label":
                self._label(found.group(kind))

    def _label(self, name: str) -> None:
        if name in self.labels:
            raise SimulationError(f"label {name!r} occurs twice; labels in scopes are not supported")
        self.labels[name] = len(self.instructions)

    def _scope(self, brace: str) -> None:
        if brace == "{":
            self.scope_count += 1
            self.scopes.append({})
        else:
            self.scopes.pop()

    def _location(self, text: str) -> None:
        match = _LOC.match(text)
        if match is not None and int(match.group(2)) > 0:
            self.file, self.line = self.files.get(int(match.group(1)), "?"), int(match.group(2))
            here, caller = match.group(1, 2, 3), match.group(4, 5, 6)
            if caller[0]:
                self.callers[here] = caller
            self.caller = self._called_at(caller) if caller[0] else ""

    def _called_at(self, place: tuple[str, ...]) -> str:
        """The innermost call, in a chain of inlined calls, that stands in the kernel's own file (file 1)."""
        for _ in range(len(self.callers)):
            if place[0] != "1":
                place = self.callers.get(place, place)
        return f"{self.files.get(int(place[0]), '?')}:{place[1]}"

    def _statement(self, text: str) -> None:
        if not text.startswith("."):
            if text:
                self.instructions.append(self._instruction(text))
        elif text.startswith(".reg"):
            self._declare_registers(text)
        elif not text.startswith((".pragma", ".branchtargets", ".callprototype")):
            self._declare_variable(_variable(text))

    def _declare_variable(self, variable: Variable) -> None:
        if variable.space == "param" and variable.size == TYPE_BYTES[variable.element] > 1:
            scoped = f"{CALL_PARAMETER}{variable.name}@{self.scope_count}"
            self.scopes[-1][variable.name] = Register(scoped)
            self.registers[scoped] = variable.element
        else:
            self.variables.append(variable)

    def _declare_registers(self, text: str) -> None:
        match = _REG.match(text)
        if match is None:
            raise SimulationError(f"cannot read register declaration {text!r}")
        kind = match.group(1)
        suffix = "" if len(self.scopes) == 1 else f"@{self.scope_count}"
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
        operands = tuple([self._operand(part) for part in _split(rest)])
        register = self._operand(guard) if guard else None
        if register is not None and not isinstance(register, Register):
            raise SimulationError(f"the guard of {text!r} is not a predicate register")
        return Instruction(name, operands, register, bool(negated), self.file, self.line, text, self.caller)

    def _operand(self, text: str) -> Operand:
        for scope in reversed(self.scopes):
            if (register := scope.get(text)) is not None:
                return register
        first = text[:1]
        if first == "[":
            return self._address(text[1:-1].strip())
        if first in ("{", "("):  # a vector, or the parameters of a call
            return Vector(tuple([self._operand(part) for part in _split(text[1:-1])]))
        if (number := _immediate(text)) is not None:
            return number
        return Symbol(text)

    def _address(self, text: str) -> Address | Symbol:
        match = _ADDRESS.fullmatch(text)
        if match is None:  # such as a tensor map with coordinates
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


def _matching_brace(text: str, start: int) -> int:
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.start()
    raise SimulationError("PTX has an unclosed brace")


_NESTED = re.compile(r"[{(\[]")


def _split(text: str) -> list[str]:
    """Split at commas that are outside braces and brackets; ``a|b`` is two operands."""
    if _NESTED.search(text) is None:
        return [p for part in text.replace("|", ",").split(",") if (p := part.strip())]
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
        elif char in ",|" and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [p for part in parts if (p := part.strip())]


def _immediate(text: str) -> Immediate | None:
    if text[:1] not in "-0123456789" or (found := _NUMBER.fullmatch(text)) is None:
        return None
    single, double, sign, hexadecimal, octal, decimal = found.groups()
    if single is not None:
        return Immediate(int(single, 16), "f32")
    if double is not None:
        return Immediate(int(double, 16), "f64")
    base, digits = (16, hexadecimal) if hexadecimal else (8, octal) if octal else (10, decimal)
    return Immediate(int(sign + digits, base), "int")


def _variable(text: str) -> Variable:
    match = re.search(_VARIABLE, " ".join(text.split()))
    if match is None:
        raise SimulationError(f"cannot read PTX declaration {text.strip()!r}")
    space, align, element, name, count, initial = match.groups()
    width = TYPE_BYTES.get(element)
    if width is None:
        raise SimulationError(f"unknown type .{element} in PTX declaration {text.strip()!r}")
    size = width * int(count) if count else (0 if count == "" else width)
    return Variable(name, space, int(align or width), size, element, _initial(initial, width, size))


def _initial(text: str | None, width: int, size: int) -> bytes:
    if not text:
        return b""
    data = b""
    for item in text.strip().strip("{}").split(","):
        number = _immediate(item.strip())
        if number is None:
            raise SimulationError(f"an initial value {item.strip()!r} is not a number")
        data += (number.bits % (1 << (8 * width))).to_bytes(width, "little")
    return data.ljust(size, b"\0")
