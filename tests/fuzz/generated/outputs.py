"""How the epilogue walks over a thread's outputs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Outputs:
    """Loop headers; the row, the column and the accumulator inside them; how many loops are open."""

    headers: tuple[str, ...]
    row: str
    column: str
    value: str
    depth: int
