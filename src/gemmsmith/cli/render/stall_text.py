"""Source lines at which warps wait longest, as text."""

from __future__ import annotations

from pathlib import PurePath

from gemmsmith.cli.render.output import say
from gemmsmith.explain.timing.timed import Timed

_LINES, _REASONS = 5, 3


def print_lines(found: Timed) -> None:
    """The lines with the most waiting, each with its share and its reasons under ncu's names."""
    total = sum(row.cycles for row in found.lines)
    if not total:
        return
    say()
    say("Where warps wait (predicted; reasons as ncu names them):")
    for row in found.lines[:_LINES]:
        reasons = (
            ", ".join(f"{name} {value / row.cycles:.0%}" for name, value in row.stalls[:_REASONS]) if row.cycles else ""
        )
        place = f"{PurePath(row.file).name}:{row.line}" if row.line else "no line"
        say(f"  {row.cycles / total:4.0%}  {place}  {reasons}")
