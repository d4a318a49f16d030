"""A fault as its author reads it: what happened in the source's own words, with the lines it happened at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Mark:
    """Part of a source line, from column 0, with a few words on what happens there.

    Without words it is context: the head of a loop. ``source`` is the line; ``context`` are lines of the file from
    ``context_line`` on, for an excerpt.
    """

    file: str
    line: int
    column: int
    length: int
    text: str
    source: str
    context: tuple[str, ...] = field(default=(), repr=False, compare=False)
    context_line: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"file": self.file, "line": self.line, "column": self.column + 1, "length": self.length,
                "text": self.text}  # fmt: skip


@dataclass(frozen=True)
class FaultReport:
    """One fault. ``rule`` is its kind's identifier, ``title`` the fault in one sentence.

    notes   further sentences
    ptx     the instructions, for who asks for them
    alike   how many faults of the same kind this one stands for, besides itself
    """

    rule: str
    title: str
    marks: tuple[Mark, ...] = ()
    notes: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    alike: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"rule": self.rule, "title": self.title, "marks": [mark.to_json() for mark in self.marks if mark.text],
                "notes": list(self.notes), "ptx": list(self.ptx), "alike": self.alike}  # fmt: skip
