"""The small parts of PTX text: operand lists, numbers and variable declarations."""

from __future__ import annotations

import re
import struct

from gemmsmith.errors import SimulationError
from gemmsmith.sim.ptx.syntax import Immediate, Relocation, Variable
from gemmsmith.sim.ptx.types import TYPE_BYTES

_VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common|attribute\([^)]*\))\s+)*\.(shared|local|global|const|param)\s*"
    r"(?:\.align\s+(\d+)\s*)?"
    r"(?:\.ptr\s*(?:\.\w+\s*)*(?:\.align\s+\d+\s*)?)?\.(\w+)\s+(?:\.ptr\s*(?:\.(?:global|shared|const|local)\s*)?"
    r"(?:\.align\s+\d+\s*)?)?([$%\w]+)((?:\[\d*\])*)\s*(?:=\s*(.+))?$",
    re.S,
)
_NUMBER = re.compile(
    r"0[fF](?P<single>[0-9a-fA-F]{8})|0[dD](?P<double>[0-9a-fA-F]{16})|"
    r"(?P<sign>-?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0(?P<octal>[0-7]+)|(?P<decimal>\d+))U?"
)
_DECIMAL_FLOAT = re.compile(r"-?(?:\d+\.\d*|\d*\.\d+)(?:[eE][+-]?\d+)?|-?\d+[eE][+-]?\d+")
_SYMBOL = re.compile(r"(?:generic\(\s*)?([$%_a-zA-Z][$\w]*)\s*\)?\s*(?:\+\s*(\d+))?")
_NESTED = re.compile(r"[{(\[]")
_BRACES = re.compile(r"[{}]")


def matching_brace(text: str, start: int) -> int:
    """Where the brace that opens at ``start`` closes."""
    depth = 0
    for match in _BRACES.finditer(text, start):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.start()
    raise SimulationError("PTX has an unclosed brace")


def split_operands(text: str) -> list[str]:
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


def read_immediate(text: str) -> Immediate | None:
    """A literal number, or None for any other operand."""
    if text[:1] not in "-.0123456789":
        return None
    if (found := _NUMBER.fullmatch(text)) is None:
        if _DECIMAL_FLOAT.fullmatch(text) is None:
            return None
        return Immediate(int.from_bytes(struct.pack("<d", float(text)), "little"), "f64")
    single, double, sign, hexadecimal, binary, octal, decimal = found.groups()
    if single is not None:
        return Immediate(int(single, 16), "f32")
    if double is not None:
        return Immediate(int(double, 16), "f64")
    base, digits = next((b, d) for b, d in ((16, hexadecimal), (2, binary), (8, octal), (10, decimal)) if d)
    return Immediate(int(sign + digits, base), "int")


def read_variable(text: str) -> Variable:
    """A declaration such as ``.shared .align 16 .b8 tile[4096]``."""
    match = re.search(_VARIABLE, " ".join(text.split()))
    if match is None:
        raise SimulationError(f"cannot read PTX declaration {text.strip()!r}")
    space, align, element, name, counts, initial = match.groups()
    width = TYPE_BYTES.get(element)
    if width is None:
        raise SimulationError(f"unknown type .{element} in PTX declaration {text.strip()!r}")
    size = width
    for count in re.findall(r"\[(\d*)\]", counts):
        size *= int(count or 0)
    data, relocations = _initial(initial, width, size)
    return Variable(name, space, int(align or width), size, element, data, relocations)


def _initial(text: str | None, width: int, size: int) -> tuple[bytes, tuple[Relocation, ...]]:
    """An initial value: numbers, and addresses of variables or functions."""
    if not text:
        return b"", ()
    data, relocations = b"", []
    for item in text.replace("{", " ").replace("}", " ").split(","):
        number = read_immediate(item.strip())
        if number is not None:
            data += (number.bits % (1 << (8 * width))).to_bytes(width, "little")
        elif (symbol := _SYMBOL.fullmatch(item.strip())) is not None:
            relocations.append(Relocation(len(data), symbol.group(1), int(symbol.group(2) or 0), width))
            data += bytes(width)
        else:
            raise SimulationError(f"an initial value {item.strip()!r} is neither a number nor an address")
    return data.ljust(size, b"\0"), tuple(relocations)
