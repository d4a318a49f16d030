"""The code that a step changed: a diff against the rung that its file names, with the syntax highlighted."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from markupsafe import Markup

from gemmsmith.report.header_comment import read_header_comment
from gemmsmith.report.highlight import highlight
from gemmsmith.report.report_model import Rung

_KINDS = {"+": "add", "-": "del", "@": "hunk"}


@dataclass(frozen=True)
class Difference:
    """``lines`` are (kind, sign, code); ``against`` is the rung on the other side."""

    against: Rung
    lines: tuple[tuple[str, str, Markup], ...]
    added: int
    removed: int

    @property
    def words(self) -> str:
        """'12 lines added, 3 removed'."""
        return f"{self.added} line{'s' * (self.added != 1)} added, {self.removed} removed"


def difference(before: Rung | None, rung: Rung) -> Difference | None:
    """None if there is nothing to compare. Header comments are left out: the page shows them as text."""
    if before is None or not before.source or not rung.source:
        return None
    one, other = (r.source.splitlines()[read_header_comment(r.source).lines :] for r in (before, rung))
    rows = list(difflib.unified_diff(one, other, lineterm="", n=2))[2:]
    if not rows:
        return None
    kinds = [_KINDS.get(row[:1], "same") for row in rows]
    code = highlight([row[1:] if kind != "hunk" else "" for row, kind in zip(rows, kinds, strict=True)])
    lines = tuple((kind, "" if kind == "hunk" else row[:1], Markup("⋯") if kind == "hunk" else text)
                  for kind, row, text in zip(kinds, rows, code, strict=True))  # fmt: skip
    return Difference(before, lines, kinds.count("add"), kinds.count("del"))
