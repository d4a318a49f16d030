"""Kernels in the strings of a Python file, as CUDA text with the line numbers of that file.

``cupy.RawKernel``, ``cupy.RawModule``, PyCUDA's ``SourceModule`` and torch's ``load_inline`` take CUDA C++ as a string.
The file is parsed and never run. What its Python code launches is added as host code (python_launches.py).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from gemmsmith.userfile.python.python_launches import launches_of
from gemmsmith.userfile.python.python_values import PythonValues

_DEVICE = re.compile(r"__global__|__device__|<<<")
_NAME = re.compile(r"\b__global__\b[^;{}]*?\bvoid\s+(?:__launch_bounds__\s*\([^()]*\)\s*)?(\w+)\s*\(")
_TRIPLE = re.compile(r"(\"\"\"|''')(.*?)\1", re.S)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.M)


@dataclass(frozen=True)
class CudaString:
    """A string with CUDA code, and the line on which it begins."""

    line: int
    text: str


@lru_cache(maxsize=16)
def cuda_of_python(text: str) -> str:
    """The CUDA code of a Python file's strings, each line where it stands in the file, and its launches."""
    lines = [""] * (text.count("\n") + 1)
    defined: set[str] = set()
    try:
        tree = ast.parse(text)
        values = PythonValues(tree)
        strings = list(_strings(tree, values))
        kernels = {name for each in strings for name in _NAME.findall(each.text)}
        launches = [CudaString(*each) for each in launches_of(tree, values, kernels)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # of Python 2, mostly
        strings, launches = list(_quoted(text)), []
    for each in strings:
        _undefine(lines, each, defined)
        _place(lines, each)
    for each in launches:
        _place(lines, each)
    return "\n".join(lines)


def _strings(tree: ast.Module, values: PythonValues) -> Iterator[CudaString]:
    """Strings with device code or launches, as they are after formatting; a string that is changed is not repeated."""
    found: dict[int, CudaString] = {}
    pieces = {piece for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for piece in node.values}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and node not in pieces:
            text = values.at(node).text(node)
            if text and _DEVICE.search(text):
                found.setdefault(node.lineno, CudaString(node.lineno, text))
    for node in ast.walk(tree):
        if isinstance(node, (ast.BinOp, ast.Call)) and (changed := values.at(node).changed(node)) is not None:
            origin, text = changed
            if origin in found:
                found[origin] = CudaString(origin, text)
    yield from (found[line] for line in sorted(found))


def _quoted(text: str) -> Iterator[CudaString]:
    """The same of a file that cannot be parsed; ``%(NAME)s`` is the number that a line sets NAME to."""
    numbers = dict(re.findall(r"^[ \t]*(\w+)[ \t]*=[ \t]*(\d+)[ \t]*(?:#.*)?$", text, re.M))
    for match in _TRIPLE.finditer(text):
        if _DEVICE.search(match[2]):
            filled = re.sub(r"%\((\w+)\)[dsi]", lambda word: numbers.get(word[1], word[1]), match[2])
            yield CudaString(text.count("\n", 0, match.start()) + 1, filled)


def _undefine(lines: list[str], string: CudaString, defined: set[str]) -> None:
    """Each string is a program of its own: macros of those before end here, on free lines."""
    own = set(_MACRO.findall(string.text))
    line = string.line - 2
    for name in sorted(own & defined):
        while line >= 0 and lines[line]:
            line -= 1
        if line >= 0:
            lines[line] = f"#undef {name}"
    defined |= own


def _place(lines: list[str], string: CudaString) -> None:
    """Put a text on its lines; where others are in the way, at the end."""
    parts = string.text.split("\n")
    first = string.line - 1
    here = range(first, first + len(parts))
    pairs = list(zip(here, parts, strict=True))
    if here[-1] < len(lines) and not any(lines[i].strip() and part.strip() for i, part in pairs):
        for i, part in pairs:
            lines[i] = lines[i] + part
    else:
        lines += parts
