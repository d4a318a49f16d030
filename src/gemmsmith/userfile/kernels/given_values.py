"""The user's ``-D`` in a file that sets the same name itself: the user's value wins, as a new user expects.

A compiler lets a ``#define`` in the file win over ``-D``, and ``-D BM=64`` would turn ``const int BM = 32`` into
``const int 64 = 32``. Both are given the value in the text instead; lines stay where they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

_CONSTANTS = re.compile(r"\b(?:constexpr|const)\b[^;{}()=]{0,200}=[^;{}]{0,2000};")
_VALUE = r"\s*=(?!=)\s*)[^,;()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^,;()]*)*(?=[,;])"
_CONDITION = re.compile(r"^([ \t]*#[ \t]*(?:el)?)(if(?:n?def)?)\b((?:[^\n\\]|\\[^\n]|\\\n)*)", re.M)


def with_given_values(text: str, values: Mapping[str, str]) -> tuple[str, frozenset[str]]:
    """``text`` with these values of its macros and constants; and the names of constants, which -D would break."""
    constants: set[str] = set()
    for name, value in values.items():
        if name not in text:
            continue
        text = _macro(name).sub(lambda m, new=f" {value}": m[1] + new + _line_ends(m[0]), text)  # type: ignore[misc]
        text, found = _with_constant(text, name, value)
        constants |= {name} if found else set()
    return text, frozenset(constants)


def with_given_conditions(text: str, values: Mapping[str, str]) -> str:
    """``text`` with these values in conditions that ask for names which it does not define itself.

    The reader of host code then takes the branches that are compiled.
    """
    for name, value in values.items():
        if name in text and not _macro(name).search(text):
            text = _CONDITION.sub(partial(_with_condition, name, value), text)
    return text


def _with_condition(name: str, value: str, found: re.Match[str]) -> str:
    """The condition of an ``#if`` with the value of the macro ``name``."""
    start, word, rest = found.groups()
    if word == "if":
        rest = re.sub(rf"\bdefined\s*(?:\(\s*{name}\s*\)|{name}\b)", "1", rest)
        return f"{start}if" + re.sub(rf"\b{name}\b", value or "1", rest)
    return f"{start}if {int(word == 'ifdef')}" if rest.split()[:1] == [name] else found[0]


def _with_constant(text: str, name: str, value: str) -> tuple[str, bool]:
    """``text`` where declarations of the constant ``name`` set it to ``value``; whether there is one."""
    declared = re.compile(rf"(\b{name}{_VALUE}")
    found = False

    def given(statement: re.Match[str]) -> str:
        nonlocal found
        made, count = declared.subn(lambda m: m[1] + value + _line_ends(m[0][len(m[1]) :]), statement[0])
        found |= count > 0
        return made

    return _CONSTANTS.sub(given, text), found


def _macro(name: str) -> re.Pattern[str]:
    """A definition of the macro without parameters, with its continuation lines."""
    return re.compile(rf"^([ \t]*#[ \t]*define[ \t]+{name})\b(?!\()(?:[^\n\\]|\\[^\n]|\\\n)*", re.M)


def _line_ends(text: str) -> str:
    return "\n" * text.count("\n")
