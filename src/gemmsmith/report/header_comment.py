"""Parse the header comment of a kernel file: a paragraph per heading, and the drawing verbatim."""

from __future__ import annotations

import re
from dataclasses import dataclass

HEADINGS = ("Idea", "Changed", "Owns", "Budget", "Needs", "Try next")
_HEADING = re.compile(rf"^({'|'.join(HEADINGS)})\s+(.*)$")
_FROM = re.compile(r"From (\d+)\b")


@dataclass(frozen=True)
class Section:
    """One heading's text, and the drawing below it, if any."""

    heading: str
    words: str
    picture: str = ""


@dataclass(frozen=True)
class HeaderComment:
    """``lines`` is the comment's length in lines; 0 if the file does not start with the headings."""

    sections: tuple[Section, ...]
    lines: int

    def of(self, heading: str) -> Section | None:
        return next((s for s in self.sections if s.heading == heading), None)


def read_header_comment(source: str) -> HeaderComment:
    """The header comment of ``source``; empty if there is none, as in most user files."""
    comment: list[str] = []
    for row in source.splitlines():
        if not row.startswith("//"):
            break
        comment.append(row.removeprefix("//").removeprefix(" ").rstrip())
    sections: list[tuple[str, list[str]]] = []
    for row in comment:
        found = _HEADING.match(row)
        if found:
            sections.append((found[1], [found[2]]))
        elif sections:
            sections[-1][1].append(row)
    if not sections:
        return HeaderComment((), 0)
    return HeaderComment(tuple(_section(heading, rows) for heading, rows in sections), len(comment))


def _section(heading: str, rows: list[str]) -> Section:
    """The text ends at the first empty line; what follows is the picture."""
    words, rest = rows, []
    if "" in rows:
        at = rows.index("")
        words, rest = rows[:at], rows[at + 1 :]
    while rest and not rest[-1]:
        rest.pop()
    indent = min((len(r) - len(r.lstrip()) for r in rest if r), default=0)
    return Section(heading, " ".join(w.strip() for w in words), "\n".join(r[indent:] for r in rest))


def changed_from(source: str) -> int:
    """The number of the rung that a file says it changes; 0 if it names none."""
    changed = read_header_comment(source).of("Changed")
    found = _FROM.match(changed.words) if changed is not None else None
    return int(found[1]) if found else 0
