"""Kernels as a source declares them: names, parameters, templates; and the types that a mangled name tells."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from gemmsmith.call.any_kernel.types import UNKNOWN, CType, parse_type

_COMMENT_OR_TEXT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.S)
_ATTRIBUTE = re.compile(
    r"__launch_bounds__|__cluster_dims__|__attribute__|__maxnreg__|__block_size__|alignas|__align__"
)
_WORD_BEFORE_PARENTHESIS = re.compile(r"([A-Za-z_]\w*)\s*\(")
_TEMPLATE_BEFORE = re.compile(r"template\s*<")
_PARAMETER = re.compile(r"(?P<type>.*?[\s*&>])\s*(?P<name>[A-Za-z_]\w*)\s*(?P<array>(?:\[[^\]]*\]\s*)*)", re.S)
_LONGEST_HEAD = 2000  # characters between __global__ and the parameter list; attributes are shorter


@dataclass(frozen=True)
class Declaration:
    """A kernel with a body. ``template`` has each parameter and whether it has a default; None: it is no template."""

    name: str
    parameters: tuple[tuple[CType, str], ...]
    template: tuple[tuple[str, bool], ...] | None

    def __str__(self) -> str:
        shown = ", ".join(f"{kind} {name}".strip() for kind, name in self.parameters)
        return f"{self.name}({shown})"


def declarations(text: str) -> list[Declaration]:
    """The ``__global__`` functions of a source text, each once."""
    code = _COMMENT_OR_TEXT.sub(lambda m: '""' if m.group().startswith('"') else " ", text)
    found: dict[str, Declaration] = {}
    for match in re.finditer(r"\b__global__\b", code):
        made = _declaration(code, match.start(), match.end())
        if made is not None:
            found.setdefault(made.name, made)
    return list(found.values())


def _declaration(code: str, start: int, position: int) -> Declaration | None:
    while (word := _WORD_BEFORE_PARENTHESIS.search(code, position, position + _LONGEST_HEAD)) is not None:
        end = _closing(code, word.end() - 1, "()")
        if _ATTRIBUTE.fullmatch(word.group(1)):
            position = end
            continue
        if re.compile(r"\s*;").match(code, end):
            return None  # a prototype
        listed = [part for part in split_list(code[word.end() : end - 1]) if part != "void"]
        return Declaration(word.group(1), tuple(map(_parameter, listed)), _template(code, start))
    return None


def _parameter(text: str) -> tuple[CType, str]:
    text = text.partition("=")[0].strip()
    match = _PARAMETER.fullmatch(text)
    if match is None:
        return parse_type(text), ""
    kind = match.group("type") + ("*" if match.group("array") else "")
    return parse_type(kind), match.group("name")


def _template(code: str, start: int) -> tuple[tuple[str, bool], ...] | None:
    """The parameters of the template whose kernel begins at ``start``."""
    before = list(_TEMPLATE_BEFORE.finditer(code, max(0, start - _LONGEST_HEAD), start))
    if not before:
        return None
    opening = before[-1].end() - 1
    end = _closing(code, opening, "<>")
    if re.search(r"[;{}]", code[end:start]) or end > start:
        return None
    made = []
    for part in split_list(code[opening + 1 : end - 1]):
        words = re.findall(r"\w+", part.partition("=")[0])
        made.append((words[-1] if words else "", "=" in part or "..." in part))
    return tuple(made)


def _closing(code: str, opening: int, pair: str) -> int:
    """Just past the bracket that closes the one at ``opening``."""
    depth = 0
    for position in range(opening, len(code)):
        depth += (code[position] == pair[0]) - (code[position] == pair[1])
        if depth == 0:
            return position + 1
    return len(code)


def split_list(text: str) -> list[str]:
    """The parts between commas that no bracket encloses."""
    return [part.strip() for part in _parts(text) if part.strip()]


def _parts(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for position, char in enumerate(text):
        depth += (char in "(<[{") - (char in ")>]}")
        if char == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    yield text[start:]


def mangled_types(mangled: str) -> list[CType] | None:
    """The parameter types that the mangled name of a kernel has; None for an ``extern "C"`` name."""
    text = demangle(mangled)
    if not text.endswith(")"):
        return None
    depth = 0
    for position in range(len(text) - 1, -1, -1):
        depth += (text[position] == ")") - (text[position] == "(")
        if depth == 0:
            listed = split_list(text[position + 1 : -1])
            return [parse_type(part) if "(" not in part else UNKNOWN for part in listed]
    return None


def demangle(mangled: str) -> str:
    """The C++ name; the mangled one where there is no demangler, or nothing to demangle."""
    function = _demangler()
    if function is None or not mangled.startswith("_Z"):
        return mangled
    status = ctypes.c_int(-1)
    answer = function(mangled.encode(), None, None, ctypes.byref(status))
    if not answer:
        return mangled
    text = ctypes.string_at(answer).decode(errors="replace")
    _free()(answer)
    return text


@cache
def _demangler() -> Any:
    """``__cxa_demangle`` of the C++ runtime, which NumPy needs as well."""
    try:
        function = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    return function


@cache
def _free() -> Any:
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    return free
