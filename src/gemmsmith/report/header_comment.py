"""The comment that opens a kernel's file, taken apart: its headings as paragraphs, its picture as it is drawn."""

from __future__ import annotations

import re
from dataclasses import dataclass

HEADINGS = ("Idea", "Changed", "Owns", "Budget", "Needs", "Try next")
_HEADING = re.compile(rf"^({'|'.join(HEADINGS)})\s+(.*)$")
_FROM = re.compile(r"From (\d+)\b")


@dataclass(frozen=True)
class Part:
    """One heading's words, and the drawing below them where there is one."""

    heading: str
    words: str
    picture: str = ""


@dataclass(frozen=True)
class Opening:
    """``lines`` is how many lines of the file the comment takes; 0 where the file does not open with the headings."""

    parts: tuple[Part, ...]
    lines: int

    def of(self, heading: str) -> Part | None:
        return next((p for p in self.parts if p.heading == heading), None)


def read_opening(source: str) -> Opening:
    """The opening comment of ``source``. A file of somebody's own may have none, and then nothing is assumed."""
    comment: list[str] = []
    for row in source.splitlines():
        if not row.startswith("//"):
            break
        comment.append(row.removeprefix("//").removeprefix(" ").rstrip())
    parts: list[tuple[str, list[str]]] = []
    for row in comment:
        found = _HEADING.match(row)
        if found:
            parts.append((found[1], [found[2]]))
        elif parts:
            parts[-1][1].append(row)
    if not parts:
        return Opening((), 0)
    return Opening(tuple(_part(heading, rows) for heading, rows in parts), len(comment))


def _part(heading: str, rows: list[str]) -> Part:
    """Words are indented to the headings' column and end at an empty line; what follows it is the picture."""
    words, rest = rows, []
    if "" in rows:
        at = rows.index("")
        words, rest = rows[:at], rows[at + 1 :]
    while rest and not rest[-1]:
        rest.pop()
    indent = min((len(r) - len(r.lstrip()) for r in rest if r), default=0)
    return Part(heading, " ".join(w.strip() for w in words), "\n".join(r[indent:] for r in rest))


def changed_from(source: str) -> int:
    """The number of the rung that a file says it changed; 0 where it names none: then it is the one before."""
    changed = read_opening(source).of("Changed")
    found = _FROM.match(changed.words) if changed is not None else None
    return int(found[1]) if found else 0
