"""Source lines at which warps wait longest, as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from gemmsmith.cli.render.output import say
from gemmsmith.explain.findings import Finding
from gemmsmith.explain.timing.timed import Timed

_LINES, _REASONS = 5, 3
_WORTH = 0.005  # of the waiting: less is 0%
MEANINGS = {
    "long_scoreboard": "waits for global memory",
    "short_scoreboard": "waits for shared memory",
    "mio_throttle": "the queue of shared-memory instructions is full",
    "lg_throttle": "the queue of global-memory instructions is full",
    "barrier": "waits at a barrier for other warps",
    "math_pipe_throttle": "the arithmetic unit is busy",
    "not_selected": "ready, but another warp issued",
    "wait": "a fixed number of cycles after an instruction",
}


def untold(found: Timed, findings: Sequence[Finding]) -> list[str]:
    """The sentences on a predicted time after the first, but for what-ifs that a finding tells."""
    if found.predicted is None:
        return []
    told = [each.cost for each in found.what_ifs if any(f"Without {each.cost}, " in f.sentence for f in findings)]
    return [text for text in found.sentences[1:] if not any(text.startswith(f"Without {cost}, ") for cost in told)]


def print_lines(found: Timed) -> None:
    """The lines with the most waiting, each with its share and its reasons under ncu's names."""
    total = sum(row.cycles for row in found.lines)
    if not total:
        return
    say()
    say("Where warps wait (predicted; reasons as ncu names them):")
    rows = [row for row in found.lines[:_LINES] if row.cycles >= _WORTH * total]
    for row in rows:
        reasons = (
            ", ".join(f"{name} {value / row.cycles:.0%}" for name, value in row.stalls[:_REASONS]) if row.cycles else ""
        )
        place = f"{PurePath(row.file).name}:{row.line}" if row.line else "no line"
        say(f"  {row.cycles / total:4.0%}  {place}  {reasons}")
    named = {name for row in rows for name, _ in row.stalls[:_REASONS]}
    if words := [f"{name}: {text}" for name, text in MEANINGS.items() if name in named]:
        say(f"  ({'; '.join(words)})", "dim", hang="   ")
