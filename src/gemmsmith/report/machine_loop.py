"""The main loop in machine code, as a page lists it: long runs of one instruction are folded."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

_LONGEST = 8  # lines of one instruction that are all shown
_SHOWN = 3


def folded(lines: Sequence[str]) -> list[str]:
    """The same lines; of a long run of one opcode the first ones, and how many more there are."""
    found: list[str] = []
    for opcode, run in groupby(lines, _opcode):
        same = list(run)
        if len(same) <= _LONGEST:
            found += same
        else:
            found += [*same[:_SHOWN], f"⋯ {len(same) - _SHOWN} more {opcode}"]
    return found


def _opcode(line: str) -> str:
    """FFMA of "@!P0 FFMA.FTZ R1, R2, R3, R4"."""
    words = line.split()
    named = words[1:] if words and words[0].startswith("@") else words
    return named[0].split(".")[0] if named else ""
