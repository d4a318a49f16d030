"""Read PTX text into modules, entries and instructions.

The reader knows PTX's grammar, not its meaning: it accepts any opcode and leaves it to the lowering to
refuse what the simulator cannot execute. Source lines come from the ``.loc`` directives that the
compiler writes with ``-lineinfo``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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
    """The address of a variable, or a label, or a special register such as %tid.x."""

    name: str


@dataclass(frozen=True, slots=True)
class Address:
    """``[base+offset]`` where the base is a register, a symbol, or nothing."""

    base: Register | Symbol | None
    offset: int


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, …}``."""

    items: tuple[Operand, ...]


Operand = Register | Immediate | Symbol | Address | Vector


@dataclass(frozen=True, slots=True)
class Instruction:
    """One PTX instruction and where in the source it comes from."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None
    negated: bool
    file: str
    line: int
    text: str
    caller: str = ""

    @property
    def type(self) -> str:
        """The last modifier, which by PTX's convention is the (destination) type."""
        return self.modifiers[-1] if self.modifiers else ""

    @property
    def where(self) -> str:
        if not self.line:
            return "an unknown line"
        called = f" (called at {self.caller})" if self.caller and not self.caller.startswith(f"{self.file}:") else ""
        return f"{self.file}:{self.line}{called}"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in .shared, .local, .global, .const or .param space."""

    name: str
    space: str
    align: int
    size: int
    element: str
    initial: bytes = b""


@dataclass(frozen=True)
class Entry:
    """A kernel: parameters, variables, registers by name, instructions and label positions."""

    name: str
    parameters: tuple[Variable, ...]
    variables: tuple[Variable, ...]
    registers: tuple[tuple[str, str], ...]
    instructions: tuple[Instruction, ...]
    labels: tuple[tuple[str, int], ...]


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


TYPE_BYTES = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8,
    "b128": 16, "pred": 1,
}  # fmt: skip


# Registers that stand for the parameters of a call, which PTX declares inside the body, begin with this.
CALL_PARAMETER = "call:"


def parse(text: str) -> Module:
    """Parse a whole PTX text."""
    return _Reader(text).module()


_POSITION = re.compile(r"\.(?:loc|file)\s")  # not .local
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:\s*,.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_LABEL = re.compile(r"([$%\w]+)\s*:(?!:)")
_REG = re.compile(r"\.reg\s+\.(\w+)\s+(.+)", re.S)
_VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(shared|local|global|const|param)\s*(?:\.align\s+(\d+)\s*)?"
    r"(?:\.ptr\s*(?:\.\w+\s*)*(?:\.align\s+\d+\s*)?)?\.(\w+)\s+(?:\.ptr\s*(?:\.(?:global|shared|const|local)\s*)?"
    r"(?:\.align\s+\d+\s*)?)?([$%\w]+)(?:\[(\d*)\])?\s*(?:=\s*(.+))?$",
    re.S,
)
_INSTRUCTION = re.compile(r"(?:@(!?)([%$\w]+)\s+)?([a-z]\w*(?:(?:\.|::)[\w:]+)*)\s*(.*)$", re.S)


class _Reader:
    """Walks the text once, statement by statement."""

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
        self.scopes: list[dict[str, str]] = [{}]
        self.scope_count = 0
        self.file, self.line, self.caller = "", 0, ""
        self.callers: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._read(text)

    def _read(self, text: str) -> None:
        position, length = 0, len(text)
        while position < length:
            rest = text[position : position + 400]
            stripped = rest.lstrip()
            if not stripped:
                position += max(1, len(rest))
                continue
            position += len(rest) - len(stripped)
            if text[position] in "{}":
                self._scope(text[position])
                position += 1
            elif _POSITION.match(text, position) is not None:
                end = text.find("\n", position)
                end = length if end < 0 else end
                self._location(text[position:end])
                position = end
            elif (label := _LABEL.match(text, position)) is not None:
                if label.group(1) in self.labels:
                    raise SimulationError(f"label {label.group(1)!r} occurs twice; labels in scopes are not supported")
                self.labels[label.group(1)] = len(self.instructions)
                position = label.end()
            else:
                end = text.find(";", position)
                if end < 0:
                    raise SimulationError(f"PTX statement without an end: {text[position : position + 60]!r}")
                self._statement(text[position:end].strip())
                position = end + 1

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
        """Of a chain of inlined calls the innermost in the kernel's own file, which is file 1."""
        for _ in range(len(self.callers)):
            if place[0] != "1":
                place = self.callers.get(place, place)
        return f"{self.files.get(int(place[0]), '?')}:{place[1]}"

    def _statement(self, text: str) -> None:
        if not text or text.startswith((".pragma", ".branchtargets", ".callprototype")):
            return
        if text.startswith(".reg"):
            self._declare_registers(text)
        elif text.startswith("."):
            variable = _variable(text)
            if variable.space == "param" and variable.size == TYPE_BYTES[variable.element] > 1:
                scoped = f"{CALL_PARAMETER}{variable.name}@{self.scope_count}"
                self.scopes[-1][variable.name] = scoped
                self.registers[scoped] = variable.element
            else:
                self.variables.append(variable)
        else:
            self.instructions.append(self._instruction(text))

    def _declare_registers(self, text: str) -> None:
        match = _REG.match(text)
        if match is None:
            raise SimulationError(f"cannot read register declaration {text!r}")
        kind = match.group(1)
        for item in match.group(2).split(","):
            names = [item.strip()]
            if (numbered := re.fullmatch(r"([%$\w]+)<(\d+)>", item.strip())) is not None:
                names = [f"{numbered.group(1)}{i}" for i in range(int(numbered.group(2)))]
            for name in names:
                scoped = name if len(self.scopes) == 1 else f"{name}@{self.scope_count}"
                self.scopes[-1][name] = scoped
                self.registers[scoped] = kind

    def _instruction(self, text: str) -> Instruction:
        match = _INSTRUCTION.match(text)
        if match is None:
            raise SimulationError(f"cannot read PTX instruction {text!r}")
        negated, guard, name, rest = match.groups()
        opcode, *modifiers = name.split(".")
        operands = tuple(self._operand(part) for part in _split(rest))
        register = self._operand(guard) if guard else None
        if register is not None and not isinstance(register, Register):
            raise SimulationError(f"the guard of {text!r} is not a predicate register")
        return Instruction(opcode, tuple(modifiers), operands, register, bool(negated),
                           self.file, self.line, " ".join(text.split()), self.caller)  # fmt: skip

    def _operand(self, text: str) -> Operand:
        text = text.strip()
        if text.startswith(("{", "(")):  # a vector, or the parameters of a call
            return Vector(tuple(self._operand(part) for part in _split(text[1:-1])))
        if text.startswith("["):
            return self._address(text[1:-1].strip())
        if (number := _immediate(text)) is not None:
            return number
        for scope in reversed(self.scopes):
            if text in scope:
                return Register(scope[text])
        if text in self.registers:
            return Register(text)
        return Symbol(text)  # what it means, if anything, is for the lowering to say

    def _address(self, text: str) -> Address | Symbol:
        match = re.fullmatch(r"([%$\w.]+)?\s*(?:([+-])\s*(-?(?:0x[0-9a-fA-F]+|\d+)))?", text)
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


def _split(text: str) -> list[str]:
    """Split at commas that are outside braces and brackets; ``a|b`` is two operands."""
    parts, depth, current = [], 0, ""
    for char in text:
        if char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
        if char in ",|" and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += char
    parts.append(current)
    return [p.strip() for p in parts if p.strip()]


def _immediate(text: str) -> Immediate | None:
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
        return Immediate(int(text[2:], 16), "f32")
    if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", text):
        return Immediate(int(text[2:], 16), "f64")
    if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", text):
        digits = text.rstrip("U")
        octal = re.fullmatch(r"-?0[0-7]+", digits) is not None
        return Immediate(int(digits, 8 if octal else 16 if "x" in digits.lower() else 10), "int")
    return None


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
