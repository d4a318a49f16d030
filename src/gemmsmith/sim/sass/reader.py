"""Read what nvdisasm prints of a cubin: instructions with operands, encodings, labels and source lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gemmsmith.compile.sass import listing
from gemmsmith.errors import SimulationError
from gemmsmith.sim.sass.syntax import (
    Bracketed,
    Immediate,
    Label,
    MachineInstruction,
    Operand,
    Register,
    Symbol,
    Term,
)


@dataclass(frozen=True)
class Routine:
    """The machine code of one kernel or function, with the offsets of its labels in bytes."""

    name: str
    instructions: tuple[MachineInstruction, ...]
    labels: tuple[tuple[str, int], ...]


def read_cubin(cubin: bytes) -> dict[str, Routine]:
    """Every kernel and function of a cubin, by name."""
    # Without the data flow of jumps by index, which are not executed: it takes a quarter of the time.
    return read_listing(listing(cubin, "--print-code", "--print-line-info", "-hex", "-ndf"))


_SECTION = re.compile(r"^\s*\.section\s+\.text\.(?P<name>[^,\s]+)")
_OTHER_SECTION = re.compile(r"^\s*\.section\s")
_LINE = re.compile(r'^\s*//## File "(?P<file>[^"]*)", line (?P<line>\d+)')
_LABEL = re.compile(r"^\s*(?P<name>[.$\w]+):\s*$")
_CODE = re.compile(r"^\s*/\*(?P<offset>[0-9a-f]+)\*/\s+(?P<text>.*?)\s*;?\s*/\*\s*0x(?P<hex>[0-9a-f]+)\s*\*/\s*$")
_REST = re.compile(r"^\s*(?P<close>\})?\s*/\*\s*0x(?P<hex>[0-9a-f]+)\s*\*/\s*$")


def read_listing(text: str) -> dict[str, Routine]:
    """The routines of a listing with encodings (``-hex``)."""
    found: dict[str, Routine] = {}
    name, file, line = "", "", 0
    code: list[MachineInstruction] = []
    labels: list[tuple[str, int]] = []
    waiting: list[str] = []
    begun: tuple[int, str, int] | None = None
    for row in text.splitlines():
        if _OTHER_SECTION.match(row):
            if name:
                found[name] = Routine(name, tuple(code), tuple(labels))
            match = _SECTION.match(row)
            name, code, labels, waiting = match["name"] if match else "", [], [], []
        elif not name:
            continue
        elif match := _LINE.match(row):
            file, line = Path(match["file"]).name, int(match["line"])
        elif match := _CODE.match(row):
            begun = int(match["offset"], 16), match["text"].strip("{} "), int(match["hex"], 16)
            labels += [(label, begun[0]) for label in waiting]
            waiting = []
        elif begun is not None and (match := _REST.match(row)):
            offset, written, low = begun
            code.append(read_instruction(written, offset, int(match["hex"], 16) << 64 | low, file, line))
            begun = None
        elif match := _LABEL.match(row):
            waiting.append(match["name"])
    if name:
        labels += [(label, 16 * len(code)) for label in waiting]
        found[name] = Routine(name, tuple(code), tuple(labels))
    return found


_STATEMENT = re.compile(r"^(?:@(?P<guard>!?U?P[T\d]+)\s+)?(?P<name>[A-Z][\w.]*)\s*(?P<rest>.*)$")


def read_instruction(written: str, offset: int, encoding: int, file: str = "", line: int = 0) -> MachineInstruction:
    """One statement, without its semicolon."""
    match = _STATEMENT.match(written)
    if match is None:
        raise SimulationError(f"cannot read the machine instruction {written!r}")
    rest, *hints = re.split(r"\s+(?=[?&])|,?\s+(?=\(\*)", " " + match["rest"])
    guard = _operand(match["guard"]) if match["guard"] else None
    assert guard is None or isinstance(guard, Register)
    opcode, *modifiers = match["name"].split(".")
    operands = tuple([_operand(part) for part in _parts(rest)])
    return MachineInstruction(offset, guard, opcode, tuple(modifiers), operands, encoding, file, line, tuple(hints))


def _parts(text: str) -> Iterator[str]:
    """Operands are separated by commas; a label may follow a register after a blank.

    The place of a constant of which one half is taken is written with a blank: ``c[0x0] [0x174].H1_H1``.
    """
    for part in _BANK_AND_PLACE.sub("][", text).split(","):
        yield from part.split()


_BANK_AND_PLACE = re.compile(r"(?<=c\[0x[0-9a-f])\]\s+\[")
_REGISTER = re.compile(r"^(?P<file>UR|UP|SB|R|P|B)(?P<number>\d+|Z|T)(?P<suffixes>(?:\.[\w]+)*)$")
_INTEGER = re.compile(r"^-?(?:0x[0-9a-f]+|\d+)$")
_NUMBER = re.compile(r"^[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|INF|QNAN|SNAN)(?:\.\w+)*$")
_BRACKETED = re.compile(r"^(?P<name>\w*)(?P<groups>(?:\[[^\]]*\])+)(?P<suffixes>(?:\.\w+)*)$")


def _operand(text: str) -> Operand:
    """One operand."""
    if label := re.fullmatch(r"`\((.*)\)", text):
        return Label(label[1])
    sign = text[0] if text[0] in "-!~" and not _NUMBER.match(text) and not _INTEGER.match(text) else ""
    core = text[len(sign) :]
    absolute = core.startswith("|")
    if absolute:
        inside, _, after = core[1:].partition("|")
        core = inside + after
    if match := _REGISTER.match(core):
        return _register(match, sign, absolute)
    if match := _BRACKETED.match(core):
        groups = tuple([_sum(group) for group in re.findall(r"\[([^\]]*)\]", match["groups"])])
        return Bracketed(match["name"], groups, sign, absolute, _suffixes(match["suffixes"]))
    return _literal(text, sign, core)


def _literal(text: str, sign: str, core: str) -> Immediate | Symbol:
    if _INTEGER.match(text):
        return Immediate(text, int(text, 0))
    if _NUMBER.match(text):
        return Immediate(text, None)
    return Symbol(core, sign)


def _register(match: re.Match[str], sign: str, absolute: bool) -> Register:
    number = int(match["number"]) if match["number"].isdigit() else None
    return Register(match["file"], number, sign, absolute, _suffixes(match["suffixes"]))


def _suffixes(text: str) -> tuple[str, ...]:
    return tuple(text.split(".")[1:])


def _sum(text: str) -> tuple[Term, ...]:
    terms = [_operand(term) for term in text.split("+")]
    assert not any(isinstance(term, Bracketed) for term in terms)
    return tuple([term for term in terms if not isinstance(term, Bracketed)])
