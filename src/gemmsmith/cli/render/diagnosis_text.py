"""Findings as text: what costs time, where in the source, what the threads do there, and what to change."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from gemmsmith.cli.render.output import columns, patch, say
from gemmsmith.explain.findings import Finding
from gemmsmith.verify.quick_check import QuickCheck

_WORTH = 1.005  # smaller gains are rounding
_INDENT = "   "


def print_quick_check(name: str, check: QuickCheck | None) -> None:
    """Said before any figure."""
    if check is not None:
        say(check.sentence(name), "" if check.ok else "bold red")


def check_json(check: QuickCheck | None) -> dict[str, Any]:
    """ "checked" of a user's kernel: right, wrong, racy or not checked, and why."""
    return {} if check is None else {"checked": {"state": check.state, "said": check.said}}


def print_findings(findings: Sequence[Finding], check: QuickCheck | None = None) -> None:
    """Those with a gain, numbered; then the others. Nothing is called faster that is not known to be right."""
    sure = check is None or check.ok
    shown = [f for f in findings if f.gain >= _WORTH]
    hidden = [f for f in findings if f.gain < _WORTH]
    if shown:
        say("\nWhat costs time, and what to do about it", "bold")
    for number, finding in enumerate(shown, 1):
        start = f"{number}. {finding.kind}"
        say(f"{start}: {gain_of(finding, sure)}", lead=start)
        _print_body(finding)
    if hidden:
        say("\nNo gain alone" + (", while the above bounds the kernel" if shown else ""), "bold")
    for finding in hidden:
        start = f"- {finding.kind}"
        say(f"{start}: {finding.sentence}", lead=start, hang="  ")


def gain_of(finding: Finding, sure: bool) -> str:
    """Of the copy with the change, else at most that of the cost; a share, if the kernel is not known to be right."""
    if not sure:
        return f"costs up to {1 - 1 / finding.gain:.0%} of the time"
    if finding.copy_gain:
        return f"{finding.copy_gain:.2f} times as fast with the change that was tried"
    return f"up to {finding.gain:.2f} times as fast"


def _print_body(finding: Finding) -> None:
    if finding.pattern is None:
        say(f"{finding.sentence} {finding.fix}", indent=_INDENT)
        return
    say(finding.sentence, indent=_INDENT)
    _print_excerpt(finding)
    say(finding.lanes, indent=_INDENT)
    say(finding.fix, indent=_INDENT)
    if finding.diff:
        patch(finding.diff)
    if finding.tried:
        say(finding.tried, indent=_INDENT)


def _print_excerpt(finding: Finding) -> None:
    """The line of the user's kernel, and that of the helper it calls."""
    pattern = finding.pattern
    assert pattern is not None
    places = [(f"{pattern.file}:{pattern.line}", pattern.text)]
    if pattern.called_at:
        places.insert(0, (pattern.called_at, pattern.called_text))
    width = max(len(place) for place, _ in places)
    for place, text in places:
        if text.strip():
            line = f"{_INDENT}  {place:<{width}} | {text.strip()}"
            room = columns()
            sys.stdout.write((line if len(line) <= room else line[: room - 1] + "…") + "\n")
