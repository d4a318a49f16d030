"""The user's ``-D`` in a file that sets the same name itself: the user's value wins, as a new user expects.

A compiler lets a ``#define`` in the file win over ``-D``, and ``-D BM=64`` would turn ``const int BM = 32`` into
``const int 64 = 32``. Both are given the value in the text instead; lines stay where they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_CONSTANTS = re.compile(r"\b(?:constexpr|const)\b[^;{}()]*=[^;{}]*;")
_VALUE = r"\s*=(?!=)\s*)[^,;()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^,;()]*)*(?=[,;])"


def with_given_values(text: str, values: Mapping[str, str]) -> tuple[str, frozenset[str]]:
    """``text`` with these values of its macros and constants; and the names that are constants, which -D would break."""
    constants: set[str] = set()
    for name, value in values.items():
        if name not in text:
            continue
        text = _macro(name).sub(lambda m, v=value: f"{m[1]} {v}" + "\n" * m[0].count("\n"), text)  # type: ignore[misc]
        set_here = re.compile(rf"(\b{name}{_VALUE}")

        def given(statement: re.Match[str], pattern: re.Pattern[str] = set_here, name: str = name, value: str = value) -> str:
            made, count = pattern.subn(lambda m: m[1] + value + "\n" * m[0][len(m[1]):].count("\n"), statement[0])
            if count:
                constants.add(name)
            return made

        text = _CONSTANTS.sub(given, text)
    return text, frozenset(constants)


def _macro(name: str) -> re.Pattern[str]:
    """A definition of the macro without parameters, with its continuation lines."""
    return re.compile(rf"^([ \t]*#[ \t]*define[ \t]+{name})\b(?!\()(?:[^\n\\]|\\[^\n]|\\\n)*", re.M)
