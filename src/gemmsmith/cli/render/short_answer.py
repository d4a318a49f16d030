"""explain's answer: what bounds the kernel, at which line and why, what to change, and how much that may gain."""

from __future__ import annotations

from pathlib import PurePath

from gemmsmith.cli.render.diagnosis_text import gain_of
from gemmsmith.cli.render.output import patch, say
from gemmsmith.explain.diagnosis import Diagnosis, first_finding
from gemmsmith.explain.findings import Finding
from gemmsmith.explain.timing.timed import Timed
from gemmsmith.verify.quick_check import QuickCheck

_CLEAR = 1.02  # a gain that is worth a line
_MOST_OTHERS = 3


def print_short_answer(found: Diagnosis, time: Timed, check: QuickCheck | None, *, with_patch: bool = True) -> None:
    """Before all figures; nothing where the kernel is wrong or no finding has a gain."""
    if check is not None and not check.ok:
        return
    first = first_finding(found)
    for lead, text in short_answer(found, time, first):
        say(f"{lead} {text}", lead=lead, hang="        ")
    if with_patch and first is not None and first.diff:
        patch(first.diff)
        say(first.tried)


def print_other_costs(found: Diagnosis, check: QuickCheck | None) -> None:
    """The other findings with a gain, one line each."""
    sure, first = check is None or check.ok, first_finding(found)
    others = [each for each in found.findings if each is not first or not sure]
    shown = [each for each in others if each.gain >= _CLEAR][:_MOST_OTHERS]
    if shown:
        say("\nOther costs" if sure and first is not None else "\nWhat costs time", "bold")
    for each in shown:
        at = f" ({each.where})" if each.where else ""
        say(f"- {each.kind}{at}: {gain_of(each, sure)}", lead=f"- {each.kind}", hang="  ")


def short_answer(found: Diagnosis, time: Timed, first: Finding | None) -> list[tuple[str, str]]:
    """Each line as its first word and the rest."""
    bound = time.predicted.bound if time.predicted is not None else found.bound
    lines = [("Bound: ", f"{bound}{f', through {first.kind}' if first is not None else ''}.")]
    if where := (first.where if first is not None else "") or _waiting(time):
        text = first.pattern.source if first is not None and first.pattern is not None else ""
        lines.append(("Line:  ", f"{where}{f' | {text}' if text else ''}"))
    if first is not None:
        lines.append(("Why:   ", first.lanes or first.sentence.split(" Without ")[0]))
        lines.append(("Change:", f"{first.fix.rstrip(':.')}."))
        lines.append(("Gain:  ", _gain(first)))
    return lines


def _gain(first: Finding) -> str:
    """Of the changed copy, where one was tried; else at most what the cost is."""
    patch = " The patch is below." if first.diff else ""
    if first.copy_gain:
        return (
            f"{first.copy_gain:.2f} times as fast, predicted for a copy with this change; its result is right.{patch}"
        )
    tried = f"a copy with the change is right.{patch}" if first.confirmed else "the change was not tried."
    return f"up to {first.gain:.2f} times as fast, predicted without {first.without or 'this cost'}; {tried}"


def _waiting(time: Timed) -> str:
    """The line at which warps wait longest."""
    total = sum(row.cycles for row in time.lines)
    row = next((each for each in time.lines if each.line), None)
    if row is None or not total:
        return ""
    return f"{PurePath(row.file).name}:{row.line}, where warps wait {row.cycles / total:.0%} of the time"
