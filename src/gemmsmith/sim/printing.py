"""What printf writes: a format with the arguments that a thread has put into a buffer."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gemmsmith.sim.execution import Execution
from gemmsmith.sim.memory.global_memory import LOCAL_WINDOW, SHARED_WINDOW

_PART = re.compile(r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?(?P<length>hh|h|ll|l|j|z|t|L)?"
                   r"(?P<kind>[diouxXcsfFeEgGaApn%])")  # fmt: skip
_LONG = ("l", "ll", "j", "z", "t")


@dataclass(frozen=True)
class Part:
    """One conversion of a format: what C calls it, its bytes in the buffer, and Python's spelling of it."""

    kind: str
    nbytes: int
    spec: str
    signed: bool


def parts_of(text: str) -> list[Part]:
    """The arguments that a format takes, in order; a ``*`` is one by itself."""
    found: list[Part] = []
    for match in _PART.finditer(text):
        kind, length = match["kind"], match["length"] or ""
        if kind == "%":
            continue
        found += [Part("*", 4, "", signed=True) for star in (match["width"], match["precision"]) if star == "*"]
        wide = length in _LONG or kind in "spfFeEgGaA"
        found.append(Part(kind, 8 if wide else 4, match.group(), kind in "di"))
    return found


def formatted(machine: Execution, lane: int, text: str, buffer: int) -> str:
    """The text that one thread prints."""
    values = _values(machine, lane, parts_of(text), buffer)

    def convert(match: re.Match[str]) -> str:
        if match["kind"] == "%":
            return "%"
        width, precision = match["width"] or "", match["precision"]
        if width == "*":
            width = str(next(values))
        if precision == "*":
            precision = str(next(values))
        value = next(values)
        dot = "" if precision is None else f".{precision}"
        if match["kind"] in "aA":
            return f"%{width}s" % float(value).hex()
        if match["kind"] == "p":
            return f"%{width}s" % f"{value:#x}"
        kind = "d" if match["kind"] in "iu" else match["kind"]
        return str(f"%{match['flags']}{width}{dot}{kind}" % value)

    return _PART.sub(convert, text)


def _values(machine: Execution, lane: int, parts: list[Part], buffer: int) -> Iterator[Any]:
    """The arguments, each aligned to its size."""
    at = 0
    for part in parts:
        at = -(-at // part.nbytes) * part.nbytes
        raw = _bytes(machine, lane, buffer + at, part.nbytes)
        at += part.nbytes
        if part.kind in "fFeEgGaA":
            yield struct.unpack("<d", raw)[0]
        elif part.kind == "s":
            yield _string(machine, lane, int.from_bytes(raw, "little"))
        elif part.kind == "c":
            yield chr(raw[0])
        else:
            yield int.from_bytes(raw, "little", signed=part.signed or part.kind == "*")


def _bytes(machine: Execution, lane: int, address: int, count: int) -> bytes:
    """Memory at a generic address, as one thread sees it."""
    if address >> 48 == LOCAL_WINDOW >> 48:
        start = int(machine.local_base[lane]) + address - LOCAL_WINDOW
        return machine.local.data[start : start + count].tobytes()
    if address >> 48 == SHARED_WINDOW >> 48:
        start = int(machine.shared_base[lane]) + address - SHARED_WINDOW
        return machine.shared.data[start : start + count].tobytes()
    return machine.memory.view(address, count).tobytes()


def _string(machine: Execution, lane: int, address: int) -> str:
    """The zero-terminated text at a generic address."""
    if address >> 48 not in (LOCAL_WINDOW >> 48, SHARED_WINDOW >> 48):
        return machine.memory.text(address)
    text = b""
    while (byte := _bytes(machine, lane, address + len(text), 1)) not in (b"\0", b""):
        text += byte
    return text.decode(errors="replace")
