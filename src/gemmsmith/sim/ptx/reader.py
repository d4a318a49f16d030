"""Read PTX text into modules, entries and instructions.

The reader knows PTX's grammar, not its meaning. It accepts any opcode; ``lower.py`` refuses what the simulator cannot
execute. Source lines come from the ``.loc`` directives that the compiler writes with ``-lineinfo``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from gemmsmith.errors import SimulationError
from gemmsmith.sim.ptx.body import Body
from gemmsmith.sim.ptx.syntax import Entry, Function, Module, Variable
from gemmsmith.sim.ptx.text import matching_brace, read_variable


@lru_cache(maxsize=8)
def parse(text: str) -> Module:
    """Parse a whole PTX text; those that were parsed last are kept."""
    return _Reader(text).module()


_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_CODE = re.compile(r"\.(entry|func)\b")
_END_OF_HEADER = re.compile(r"[{;]")
_HEADER = re.compile(r"(?:\s*\.noreturn)?\s*(?:\(([^()]*)\))?\s*([$%\w]+)\s*(?:\(([^()]*)\))?")


class _Reader:
    """Walks the text once, entry by entry and function by function."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.files: dict[int, str] = {}
        self.version = self.target = ""
        self.globals: list[Variable] = []
        self.entries: list[Entry] = []
        self.functions: list[Function] = []

    def module(self) -> Module:
        for file in _FILE.finditer(self.text):
            self.files[int(file.group(1))] = file.group(2).rsplit("/", 1)[-1]
        text = _COMMENT.sub("", self.text)
        if (found := re.search(r"\.version\s+(\S+)", text)) is not None:
            self.version = found.group(1)
        if (found := re.search(r"\.target\s+([\w, ]+)", text)) is not None:
            self.target = found.group(1).split(",")[0].strip()
        self._walk(text)
        shared, functions = tuple(self.globals), tuple(self.functions)
        entries = tuple(
            Entry(
                e.name, e.parameters, shared + e.variables, e.registers, e.instructions, e.labels, e.tables, functions
            )
            for e in self.entries
        )
        return Module(self.version, self.target, entries)

    def _walk(self, text: str) -> None:
        position = 0
        while (code := _CODE.search(text, position)) is not None:
            self._module_variables(text[position : code.start()])
            end = _END_OF_HEADER.search(text, code.end())
            if end is None:
                raise SimulationError(f"PTX .{code.group(1)} without a body")
            position = end.end()
            if end.group() == "{":
                close = matching_brace(text, end.start())
                self._code(code.group(1), text[code.end() : end.start()], text[end.end() : close])
                position = close + 1
        self._module_variables(text[position:])

    def _module_variables(self, text: str) -> None:
        for statement in text.split(";"):
            if re.search(r"\.(?:shared|global|const)\b", statement) is not None:
                self.globals.append(read_variable(statement))

    def _code(self, kind: str, header: str, text: str) -> None:
        found = _HEADER.match(header)
        if found is None:
            raise SimulationError(f"cannot read PTX header {header.strip()!r}")
        name = found.group(2)
        results, parameters = (
            tuple(read_variable(item) for item in (group or "").split(",") if item.strip())
            for group in (found.group(1), found.group(3))
        )
        if kind == "entry":
            body = Body(self.files, text)
            self.entries.append(
                Entry(name, parameters, tuple(body.variables), tuple(body.registers.items()),
                      tuple(body.instructions), tuple(body.labels.items()), tuple(body.tables.items()))
            )  # fmt: skip
            return
        body = Body(self.files, text, name, (*results, *parameters))
        self.functions.append(
            Function(name, body.formals(results), body.formals(parameters), tuple(body.variables),
                     tuple(body.registers.items()), tuple(body.instructions), tuple(body.labels.items()),
                     tuple(body.tables.items()))
        )  # fmt: skip


_WORD = re.compile(r"[$%\w]+")


def mentioned(text: str, names: Iterable[str]) -> frozenset[str]:
    """Which of these variables are named anywhere but where they are declared. NVRTC writes every constexpr down."""
    found = Counter(_WORD.findall(_COMMENT.sub("", text)))
    return frozenset(name for name in names if found[name] > 1)


_REGISTERS_PER_BLOCK = 1 << 16
_MOST_REGISTERS, REGISTER_UNIT = 256, 8


def registers_at_launch(text: str, entry: str) -> int:
    """Registers per thread with which ptxas starts a kernel that has setmaxnreg; 0 if it ignores setmaxnreg.

    ptxas needs a bound: ``.maxnreg``, or the threads of a block with ``.minnctapersm``. Within it, it takes as many as
    the largest setmaxnreg.inc asks for.
    """
    found = re.search(rf"\.entry\s+{re.escape(entry)}\b(?P<head>[^{{]*)", text)
    head, rest = (found["head"], text[found.end() :]) if found else ("", "")
    body = re.split(r"\.(?:entry|func)\s", rest, maxsplit=1)[0]
    bounds = {name: math.prod(map(int, re.findall(r"\d+", values))) for name, values in re.findall(
        r"\.(maxntid|reqntid|minnctapersm|maxnreg)\s+([\d,\s]+)", head)}  # fmt: skip
    threads = bounds.get("reqntid", bounds.get("maxntid", 0))
    if "maxnreg" in bounds:
        most = bounds["maxnreg"]
    elif threads and "minnctapersm" in bounds:
        most = _REGISTERS_PER_BLOCK // (threads * bounds["minnctapersm"]) // REGISTER_UNIT * REGISTER_UNIT
    else:
        return 0
    asked = [int(count) for count in re.findall(r"setmaxnreg\.inc[\w.]*\s+(\d+)", body)]
    return min(_MOST_REGISTERS, most, *([max(asked)] if asked else []))
