"""Arrays in dynamic shared memory that overlap: two `extern __shared__` arrays start at the same byte, and a pointer
may start inside the array before it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from gemmsmith.cure.code import Code, Function, Program, below
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.launches import configured
from gemmsmith.cure.wording import flat

if TYPE_CHECKING:
    from tree_sitter import Node

_EXTERN = re.compile(
    r"extern\s+__shared__\s+(?:__align__\s*\([^)]*\)\s*)?(?P<type>[\w:]+)\s+(?P<name>\w+)\s*\[\s*\]\s*;"
)
_SIZEOF = re.compile(r"sizeof\s*\(\s*[\w:]+\s*\)")


def overlapping_arrays(program: Program) -> Iterator[Candidate]:
    """`extern __shared__ float b[];` after a's becomes `float* b = a + …`; `s + T * T - T` becomes `s + T * T`."""
    for function in program.reached:
        arrays = list(_EXTERN.finditer(function.code.text, function.body.start_byte, function.body.end_byte))
        for first, second in pairwise(arrays):
            yield from _parted(program, function, first, second)
        yield from _later_starts(function, {match["name"] for match in arrays})


def _parted(program: Program, function: Function, first: re.Match[str], second: re.Match[str]) -> Iterator[Candidate]:
    code, line = function.code, function.code.line(second.start())
    known = function.head + code.of(function.body) + "".join(each.text for each in program.files)
    for size in dict.fromkeys(_first_sizes(program)):
        if not all(re.search(rf"\b{name}\b", known) for name in re.findall(r"[A-Za-z_]\w*", size)):
            continue
        start = first["name"] if first["type"] == second["type"] else f"({second['type']}*){first['name']}"
        new = f"{second['type']}* {second['name']} = {start} + {size};"
        yield Candidate("shared-overlap", f"{first['name']} and {second['name']} are the same memory: every `extern "
                        f"__shared__` array of a kernel starts at byte 0 (lines {code.line(first.start())} and {line})",
                        f"write `{new}` in line {line}",
                        (Edit(code.path, second.start(), second.end(), new),))  # fmt: skip


def _first_sizes(program: Program) -> Iterator[str]:
    """How many elements the first of two arrays may have, from the bytes that the launch asks for."""
    for code, asked in configured(program, 2):
        for text in _values(code, asked):
            elements = _SIZEOF.sub("", flat(text, 300)).strip(" *")
            inner = re.search(r"\(([^()]*\+[^()]*)\)", elements)
            if inner is not None:
                yield inner[1].split("+")[0].strip()
                continue
            factors = [part.strip(" ()") for part in elements.split("*")]
            rest = [part for part in factors if part and not part.isdecimal()]
            if rest:
                yield " * ".join(rest)


def _values(code: Code, asked: Node) -> Iterator[str]:
    """The bytes as written: in the launch, or where its variable is set."""
    yield code.of(asked)
    if asked.type == "identifier":
        yield from re.findall(rf"\b{code.of(asked)}\s*=\s*([^;]*);", code.text)


def _later_starts(function: Function, arrays: set[str]) -> Iterator[Candidate]:
    """A pointer into an array that starts a term too early."""
    code = function.code
    for node in below(function.body, "init_declarator"):
        value = node.child_by_field_name("value")
        text = flat(code.of(value), 300) if value is not None else ""
        match = re.fullmatch(r"&?\s*(\w+)\s*(?:\+|\[)(.*?)\s*-\s*[\w.]+(?:\s*\*\s*[\w.]+)*\]?", text)
        if value is None or match is None or match[1] not in arrays:
            continue
        line, new = code.line(value.start_byte), f"{match[1]} + {match[2].strip()}"
        yield Candidate("shared-overlap", f"line {line} starts an array at `{text}`, inside the one before it",
                        f"write `{new}` in line {line}",
                        (Edit(code.path, value.start_byte, value.end_byte, new),))  # fmt: skip
