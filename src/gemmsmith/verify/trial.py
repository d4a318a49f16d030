"""One trial of a check: what is launched, and which of the kernel's properties it tests."""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.problem import Problem

DISTINCT = "M, N and K all different"
RAGGED = "a shape that is no multiple of the tile"
UNREAD = "C is not read when beta = 0"
SCALED = "alpha and beta"
BATCH = "a batch of three"
PADDED = "padded rows"
ODD = "rows that start on no multiple of 16 bytes"
SQUARE = "M = N, and another K"


@dataclass(frozen=True)
class Trial:
    """One launch: its purpose, problem, oracle, data, order of warps, what C holds before it, and whether races are
    looked for."""

    label: str
    problem: Problem
    mode: str
    fill: str
    schedule: str
    c: str = "unset"
    hazards: bool = True
