"""A cause with the change that cured it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmsmith.cure.code import Code
from gemmsmith.cure.edit import Candidate, Edit, unified


@dataclass(frozen=True)
class Replacement:
    """One edit in lines and columns, both from 1; the end is exclusive."""

    file: Path
    start: tuple[int, int]
    end: tuple[int, int]
    text: str

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file.as_posix(), "start_line": self.start[0], "start_column": self.start[1],
            "end_line": self.end[0], "end_column": self.end[1], "text": self.text,
        }  # fmt: skip


@dataclass(frozen=True)
class Suggestion:
    """``cause`` and ``change`` in words, the change as a diff, and what was tried with it."""

    kind: str
    cause: str
    change: str
    diff: str
    tried: str
    replacements: tuple[Replacement, ...]

    @property
    def sentence(self) -> str:
        """One line: the cause, the change, and that it was tried."""
        return f"Cause: {self.cause}. {self.advice}"

    @property
    def advice(self) -> str:
        """The change alone, and that it was tried."""
        return f"{self.change[0].upper()}{self.change[1:]} (tried in a copy: {self.tried})"

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind, "cause": self.cause, "change": self.change, "tried": self.tried, "diff": self.diff,
            "replacements": [replacement.to_json() for replacement in self.replacements],
        }  # fmt: skip


def suggestion_of(candidate: Candidate, files: Iterable[Code], tried: str) -> Suggestion:
    """What a change that cured is reported as."""
    codes = {code.path: code for code in files}
    placed = tuple(_replacement(edit, codes[edit.path]) for edit in sorted(candidate.edits, key=lambda e: e.start))
    return Suggestion(candidate.kind, candidate.cause, candidate.change, unified(candidate.edits, codes.values()),
                      tried, placed)  # fmt: skip


def _replacement(edit: Edit, code: Code) -> Replacement:
    def place(offset: int) -> tuple[int, int]:
        return code.line(offset), offset - (code.text.rfind("\n", 0, offset) + 1) + 1

    return Replacement(edit.path, place(edit.start), place(edit.end), edit.text)
