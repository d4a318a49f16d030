"""Which variables of a kernel depend on something, and what its loops are written with; by the text alone."""

from __future__ import annotations

import re

from gemmsmith.userfile.text.preprocessor import closing

_ASSIGNED = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)\s*([^;]*)")
_LOOP = re.compile(r"\b(?:for|while)\s*(?=\()")


def derived_names(body: str, seed: str) -> set[str]:
    """Variables whose values are written with what the pattern ``seed`` matches, directly or through others."""
    found: set[str] = set()
    # ``int begin = z * per, end = begin + per;``: each name with its own value.
    assigned = [(name, part) for statement in re.split(r"[;{}]", body) for name, part in _parts(statement)]
    while True:
        new = {name for name, value in assigned if name not in found
               and (re.search(seed, value) or found & set(re.findall(r"[A-Za-z_]\w*", value)))}  # fmt: skip
        if not new:
            return found
        found |= new


def _parts(statement: str) -> list[tuple[str, str]]:
    places = list(_ASSIGNED.finditer(statement))
    found = []
    for match in places:
        value, depth = match[2], 0
        for i, letter in enumerate(value):
            depth += (letter in "([") - (letter in ")]")
            if depth < 0 or (letter == "," and depth == 0):
                value = value[:i]
                break
        found.append((match[1], value))
    return found + [pair for match in places for pair in _parts(match[2]) if "=" in match[2]]


def loop_heads(body: str) -> list[str]:
    """What stands in the parentheses of every ``for`` and ``while``."""
    return [body[found.end() : closing(body, found.end())] for found in _LOOP.finditer(body)]
