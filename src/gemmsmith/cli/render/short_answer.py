"""explain's answer in three lines: what bounds the kernel, at which line, and what to change."""

from __future__ import annotations

from pathlib import PurePath

from gemmsmith.cli.render.output import say
from gemmsmith.explain.diagnosis import Diagnosis
from gemmsmith.explain.findings import Finding
from gemmsmith.explain.timing.timed import Timed
from gemmsmith.verify.quick_check import QuickCheck

_WORTH = 1.005  # smaller gains are rounding
_CLEAR = 1.05  # a change that was tried comes first from this gain on


def print_short_answer(found: Diagnosis, time: Timed, check: QuickCheck | None) -> None:
    """Before all figures; nothing where the kernel is wrong or no finding has a gain."""
    if check is not None and not check.ok:
        return
    for lead, text in short_answer(found, time, _first(found)):
        say(f"{lead} {text}", lead=lead, hang="        ")


def short_answer(found: Diagnosis, time: Timed, first: Finding | None) -> list[tuple[str, str]]:
    """Each line as its first word and the rest."""
    bound = time.predicted.bound if time.predicted is not None else found.bound
    lines = [("Bound: ", f"{bound}{f', through {first.kind}' if first is not None else ''}.")]
    if where := (first.where if first is not None else "") or _waiting(time):
        text = first.pattern.source if first is not None and first.pattern is not None else ""
        lines.append(("Line:  ", f"{where}{f' | {text}' if text else ''}"))
    if first is not None:
        tried = " (tried in a copy; the patch is below)" if first.diff else " (tried in a copy)" * first.confirmed
        gain = f"Without this cost: {first.gain:.2f} times as fast."
        lines.append(("Change:", f"{first.fix.rstrip(':.')}{tried}. {gain}"))
    return lines


def _first(found: Diagnosis) -> Finding | None:
    """The change that was tried and helps, else the one with the largest gain."""
    worth = [each for each in found.findings if each.gain >= _WORTH]
    return next((each for each in worth if each.confirmed and each.gain >= _CLEAR), next(iter(worth), None))


def _waiting(time: Timed) -> str:
    """The line at which warps wait longest."""
    total = sum(row.cycles for row in time.lines)
    row = next((each for each in time.lines if each.line), None)
    if row is None or not total:
        return ""
    return f"{PurePath(row.file).name}:{row.line}, where warps wait {row.cycles / total:.0%} of the time"
