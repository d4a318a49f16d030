"""Loops over K that end before the last terms, found in the text of a kernel: `k4 < K / 4`."""

from __future__ import annotations

import re

_LOOP = re.compile(r"\b(?:for\s*\([^;{}]*;\s*(?P<test>[^;{}]*);|while\s*\((?P<alone>[^;{}]*)\)\s*[{\w])")


def short_loop(code: str, extent: str) -> str:
    """The loop whose condition divides or shortens ``extent``: 'the loop of line 8 (`k4 < K / 4`)'; of a loop over a
    variable, the line that divides; 'the loop' where neither or several are found."""
    short = rf"\b{re.escape(extent)}\s*(?:/|>>|-|&\s*~)\s*\w"
    loops = [(found, test) for found in _LOOP.finditer(code) if (test := found["test"] or found["alone"] or "")]
    told = [f"the loop of line {_line(code, found.start())} (`{' '.join(test.split())}`)" for found, test in loops
            if re.search(short, test)]  # fmt: skip
    if not told:
        for counted in re.finditer(rf"\b(\w+)\s*=\s*(?=[^;,]*{short})", code):
            told += [
                f"the loop of line {_line(code, found.start())} (`{counted[1]}` is set in line "
                f"{_line(code, counted.start())})"
                for found, test in loops if re.search(rf"\b{counted[1]}\b", test) and found.start() > counted.start()
            ]  # fmt: skip
    return told[0] if len(told) == 1 else "the loop"


def _line(code: str, at: int) -> int:
    return code.count("\n", 0, at) + 1
