"""Changes of a text: one edit, a candidate that consists of some, and how a change is shown."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from gemmsmith.cure.code import Code
from gemmsmith.userfile.files.edited import Edited


@dataclass(frozen=True)
class Edit:
    """Characters ``start`` to ``end`` of a file become ``text``.

    ``tried`` is the same change without new or removed lines (start, end, text): the lines of a copy keep their
    numbers, so that a fault of the copy is named by the line of the user's file.
    """

    path: Path
    start: int
    end: int
    text: str
    tried: tuple[int, int, str] | None = None

    @property
    def in_copy(self) -> tuple[int, int, str]:
        return self.tried if self.tried is not None else (self.start, self.end, self.text)


@dataclass(frozen=True)
class Candidate:
    """A change that may cure a fault.

    kind    which mistake it assumes: "missing-barrier"
    cause   that mistake in words, true if the change cures
    change  what to do, in words: "insert `__syncthreads();` after line 23"
    reread  the copy computes something else (C += A·B), so that only the whole check can judge it
    """

    kind: str
    cause: str
    change: str
    edits: tuple[Edit, ...]
    reread: bool = False

    def __add__(self, other: Candidate) -> Candidate:
        """Both changes."""
        kind = self.kind if self.kind == other.kind else f"{self.kind}+{other.kind}"
        cause = self.cause if self.cause == other.cause else f"{self.cause}; and {other.cause}"
        edits = tuple(dict.fromkeys((*self.edits, *other.edits)))
        return Candidate(kind, cause, f"{self.change}; {other.change}", edits, self.reread or other.reread)

    @property
    def clashes(self) -> bool:
        """Whether two edits overlap."""
        placed = sorted(self.edits, key=lambda e: (str(e.path), e.start, e.end))
        return any(a.path == b.path and (b.start < a.end or (a.start, a.end) == (b.start, b.end))
                   for a, b in pairwise(placed))  # fmt: skip


def applied(edits: Iterable[Edit], files: Iterable[Code], *, shown: bool = False) -> Edited:
    """The texts of the files that the edits change: as they are tried, or as they are shown."""
    texts = {code.path: code.text for code in files}
    changes = [(edit.path, *((edit.start, edit.end, edit.text) if shown else edit.in_copy)) for edit in edits]
    made: dict[Path, str] = {}
    for path, start, end, new in sorted(changes, key=lambda change: change[1:3], reverse=True):
        text = made.get(path, texts[path])
        made[path] = text[:start] + new + text[end:]
    return tuple(made.items())


def carried_back(edit: Edit, made: Iterable[Edit]) -> Edit | None:
    """An edit of a copy that ``made`` had changed, as an edit of the file; None where it touches what they wrote."""
    before = sorted(each.in_copy for each in made if each.path == edit.path)

    def back(offset: int) -> int | None:
        shift = 0
        for start, end, text in before:
            if offset <= start + shift:
                break
            if offset < start + shift + len(text):
                return None
            shift += len(text) - (end - start)
        return offset - shift

    start, end = back(edit.start), back(edit.end)
    tried = edit.tried
    if tried is not None:
        first, last = back(tried[0]), back(tried[1])
        if first is None or last is None:
            return None
        tried = first, last, tried[2]
    return Edit(edit.path, start, end, edit.text, tried) if start is not None and end is not None else None


def unified(edits: Iterable[Edit], files: Iterable[Code]) -> str:
    """The change as a unified diff with one line of context."""
    known = {code.path: code.text for code in files}
    parts: list[str] = []
    for path, text in applied(edits, files, shown=True):
        old, new = known[path].splitlines(), text.splitlines()
        parts += difflib.unified_diff(old, new, path.name, path.name, n=1, lineterm="")
    return "\n".join(parts)
