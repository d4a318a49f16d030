"""Source lines with marks below them, in the style of rustc: each line once, each mark with its words."""

from __future__ import annotations

import os
import textwrap
from dataclasses import dataclass
from pathlib import Path

from gemmsmith.verify.faults.fault_report import FaultReport, Mark

_TAB = 4
_MOST_BETWEEN = 5  # lines between two marks that are shown; more are left out
WIDTH = 98


@dataclass(frozen=True)
class _Page:
    """How wide the lines are, and how wide their numbers."""

    width: int
    gutter: int

    @property
    def room(self) -> int:
        return max(20, self.width - self.gutter - 3)

    def line(self, number: int, text: str) -> str:
        return f"{number:>{self.gutter}} | {text}".rstrip()

    def under(self, text: str = "") -> str:
        return f"{' ' * self.gutter} | {text}".rstrip()

    def note(self, text: str) -> list[str]:
        """A sentence below the excerpt."""
        own = f"{' ' * self.gutter} = "
        return textwrap.wrap(text, self.width, initial_indent=own, subsequent_indent=" " * len(own),
                             break_long_words=False, break_on_hyphens=False)  # fmt: skip


def excerpt(report: FaultReport, ptx: bool = False, width: int = WIDTH) -> list[str]:
    """The lines of a report below its title, none wider than ``width``."""
    page = _Page(width, max([len(str(mark.line)) for mark in report.marks], default=1))
    lines: list[str] = []
    for file in dict.fromkeys(mark.file for mark in report.marks):
        marks = [mark for mark in report.marks if mark.file == file]
        first = next((mark.line for mark in marks if mark.text), marks[0].line)
        lines += [f"{' ' * page.gutter}--> {shown_path(file)}:{first}", page.under()]
        rows = {mark.line: mark.source for mark in marks}
        shown = _between(sorted(rows), dict(enumerate(marks[0].context, marks[0].context_line)) | rows)
        for row, source in shown:
            if source is None:
                lines.append(f"{' ' * page.gutter} ...")
            else:
                lines += _row(row, source, [mark for mark in marks if mark.line == row and mark.text], page)
        lines.append(page.under())
    for note in (*report.notes, *(f"PTX: {text}" for text in report.ptx if ptx)):
        lines += page.note(note)
    return lines


def _between(rows: list[int], known: dict[int, str]) -> list[tuple[int, str | None]]:
    """The marked lines with those between them; None for lines that are left out."""
    found: list[tuple[int, str | None]] = []
    for before, row in zip((0, *rows), rows, strict=False):
        gap = range(before + 1, row) if before else range(0)
        if len(gap) > _MOST_BETWEEN or any(line not in known for line in gap):
            found.append((0, None))
        else:
            found += [(line, known[line]) for line in gap]
        found.append((row, known[row]))
    return found


def _row(row: int, source: str, marks: list[Mark], page: _Page) -> list[str]:
    """One source line, and a line of carets for each mark; tabs become blanks, and a long line is cut."""
    text = source.expandtabs(_TAB).rstrip()
    places = []
    for mark in marks:
        start = len(source[: mark.column].expandtabs(_TAB))
        places.append((start, len(source[: mark.column + mark.length].expandtabs(_TAB)) - start, mark.text))
    cut = 0
    if len(text) > page.room and places and max(start + length for start, length, _ in places) > page.room - 3:
        cut = max(0, min(start for start, _, _ in places) - 10)
    shown = "..." + text[cut + 3 :] if cut else text
    shown = shown if len(shown) <= page.room else shown[: page.room - 3] + "..."
    lines = [page.line(row, shown)]
    for start, length, words in dict.fromkeys(places):
        lines += _carets(start - cut, length, words, page)
    return lines


def _carets(start: int, length: int, words: str, page: _Page) -> list[str]:
    """The carets and the words beside them, or below where there is no room."""
    length = max(1, min(length, page.room - start))
    below = f"{' ' * start}{'^' * length}"
    if len(below) + 1 + len(words) <= page.room:
        return [page.under(f"{below} {words}")]
    indent = max(0, min(start, page.room - len(words)))
    return [page.under(below), *(page.under(" " * indent + part) for part in textwrap.wrap(words, page.room - indent))]


def shown_path(file: str) -> str:
    """A path as short as it can be: relative where it lies below the current folder."""
    path = Path(file)
    if not path.is_absolute():
        return path.as_posix()
    short = os.path.relpath(path)
    return short if not short.startswith("..") else file
