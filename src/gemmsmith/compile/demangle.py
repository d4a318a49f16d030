"""Mangled C++ names in a compiler's message, shown as the source spells them."""

from __future__ import annotations

import re

_MANGLED = re.compile(r"\b_Z[A-Za-z0-9_]+")
_BUILTIN = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "f": "float", "d": "double",
}  # fmt: skip


def demangled(text: str) -> str:
    """``text`` with every mangled function name replaced by its name, with namespaces and simple template arguments."""
    return _MANGLED.sub(lambda match: _name(match.group()) or match.group(), text)


def _name(mangled: str) -> str:
    at, parts = 2, []
    nested = mangled[at : at + 1] == "N"
    at += nested
    while at < len(mangled):
        while nested and mangled[at : at + 1] in ("K", "V", "r"):
            at += 1
        length = re.compile(r"L?(\d+)").match(mangled, at)
        if length is not None:
            start = length.end()
            word = mangled[start : start + int(length[1])]
            at = start + int(length[1])
            parts.append("(anonymous namespace)" if word.startswith("_GLOBAL__N") else word)
        elif mangled[at] == "I" and parts:
            arguments, at = _arguments(mangled, at + 1)
            parts[-1] += arguments
        else:
            break
        if not nested and mangled[at : at + 1] != "I":
            break
    return "::".join(parts)


def _arguments(mangled: str, at: int) -> tuple[str, int]:
    """Template arguments: integers, booleans, builtin types and plain class names; ``<...>`` if there are others."""
    found: list[str] = []
    while at < len(mangled):
        if mangled[at] == "E":
            return f"<{', '.join(found)}>", at + 1
        if literal := re.compile(r"L([a-z])(n?)(\d+)E").match(mangled, at):
            value = literal[2].replace("n", "-") + literal[3]
            found.append({"0": "false", "1": "true"}.get(value, value) if literal[1] == "b" else value)
            at = literal.end()
        elif named := re.compile(r"(\d+)").match(mangled, at):
            start = named.end()
            found.append(mangled[start : start + int(named[1])])
            at = start + int(named[1])
        elif mangled[at] in _BUILTIN:
            found.append(_BUILTIN[mangled[at]])
            at += 1
        else:
            break
    return "<...>", len(mangled)
