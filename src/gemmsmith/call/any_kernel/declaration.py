"""Kernels as a source declares them: names, parameters, templates; and the types that a mangled name tells."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gemmsmith.call.any_kernel.types import UNKNOWN, CType, parse_type
from gemmsmith.userfile.text.source import find_kernels, read_source_file

_MOST_ALIASES = 8  # of aliases, one after another


@dataclass(frozen=True)
class Declaration:
    """A kernel with a body. ``template`` has each parameter and whether it has a default; None: it is no template.

    ``qualified`` is the name with its namespaces.
    """

    name: str
    qualified: str
    parameters: tuple[tuple[CType, str], ...]
    template: tuple[tuple[str, bool], ...] | None


def declared_kernels(path: Path, include: tuple[Path, ...] = ()) -> list[Declaration]:
    """The kernels of a file, then those of the headers that it includes, each once."""
    kernels = find_kernels(path, include)
    files = dict.fromkeys([*(kernel.file for kernel in kernels), path])  # the file's own aliases count most
    aliases = {name: text for file in files for name, text in read_source_file(file).aliases.items()}
    found: dict[str, Declaration] = {}
    for kernel in kernels:
        parameters = tuple((_resolved(parse_type(each.type), aliases), each.name) for each in kernel.parameters)
        template = None
        if kernel.template is not None:
            template = tuple((each.name, bool(each.default) or each.pack) for each in kernel.template)
        found.setdefault(kernel.qualified, Declaration(kernel.name, kernel.qualified, parameters, template))
    return list(found.values())


def _resolved(kind: CType, aliases: Mapping[str, str]) -> CType:
    """The type that an alias of the source stands for."""
    for _ in range(_MOST_ALIASES):
        if kind.element is not None or kind.base not in aliases:
            break
        real = parse_type(aliases[kind.base])
        kind = CType(real.base, kind.pointers + real.pointers, kind.const or real.const)
    return kind


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
