"""The story of one step: the problem that an earlier rung left, and the rung that takes this one further."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gemmsmith.report.header_comment import read_header_comment
from gemmsmith.report.report_model import ReportModel, Rung

_REFERENCE = re.compile(r"\s*\((\d\d) \w+\)")


@dataclass(frozen=True)
class Narrative:
    """problem    what an earlier rung's file says should come next, and that rung; '' and None for the first
    limit      what limits that rung, by the time model, else by its counters; '' if they are not known
    onward     what this rung's file says should come next, and the rung that does it, if it is on the page
    """

    problem: str
    left_by: Rung | None
    limit: str
    onward: str
    next: Rung | None


def narrative(model: ReportModel, rung: Rung, before: Rung | None) -> Narrative:
    """From the header comments. Where no file names this rung as next, the rung before tells the problem, unless what
    it leaves to do is another rung's."""
    names = [(other, try_next(other)) for other in model.rungs if other is not rung]
    pointing = [(other, words) for other, words in names if rung.number and f"({rung.number:02d} " in words]
    left_by, problem = pointing[-1] if pointing else (before, try_next(before) if before is not None else "")
    if not pointing and _REFERENCE.search(problem):
        problem = ""
    limit = ""
    if left_by is not None and left_by.time is not None:
        gains = "".join(f"; {each}" for each in left_by.time.what_ifs[:1])
        limit = f"{left_by.name} is bound by {left_by.time.bound}{gains}."
    elif left_by is not None and left_by.diagnosis is not None and left_by.diagnosis.sentences:
        limit = left_by.diagnosis.sentences[0]
    onward = try_next(rung)
    numbers = [int(n) for n in re.findall(r"\((\d\d) ", onward)]
    following = next((r for n in numbers for r in model.rungs if r.number == n), None)
    return Narrative(_plain(problem), left_by, limit, _plain(onward), following)


def try_next(rung: Rung) -> str:
    section = read_header_comment(rung.source).of("Try next")
    return section.words if section is not None else ""


def _plain(words: str) -> str:
    """Without '(06 block_tile_2d)': the page links the rung instead."""
    return _REFERENCE.sub("", words)
