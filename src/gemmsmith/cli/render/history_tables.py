"""What ``gemmsmith history`` prints: runs, one run, and two runs compared."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from gemmsmith.cli.commands.explain import wrapped
from gemmsmith.cli.render.output import console, table
from gemmsmith.problem import OUTPUTS, Problem
from gemmsmith.store.results import Measurement, Run
from gemmsmith.store.run_comparison import SAME, VERDICTS, Change, RunComparison

_SHORT = 8  # characters of an id, unless two runs share them
_COMMAND = 102  # characters of a command in the list, in three lines or so
# What bench and sweep record of options that nobody gave: it would hide the words that tell runs apart.
_USUAL = re.compile(
    r" --(out-dtype fp32|layout NN|against cublas|(precision|within) 0\.005|budget 5|seed 0|device auto)(?= |$)"
)


def short(run_id: str, ids: Sequence[str]) -> str:
    """The id's beginning, as long as it takes to tell it from all others."""
    length = _SHORT
    while length < len(run_id) and sum(other.startswith(run_id[:length]) for other in ids) > 1:
        length += 1
    return run_id[:length]


def best_tflops(run: Run) -> Measurement | None:
    """The fastest measurement that may be believed."""
    timed = [m for m in run.measurements if m.verified and not m.rejected and math.isfinite(m.tflops)]
    return max(timed, key=lambda m: m.tflops, default=None)


def print_runs(runs: Sequence[Run], ids: Sequence[str]) -> None:
    """One line a run, newest first."""
    rows = []
    for run in runs:
        best = best_tflops(run)
        shown = "" if best is None else f"{best.tflops:.4g} {_who(best)}"
        rows.append((short(run.id, ids), run.started[:16].replace("T", " "), _command(run.command),
                     _cut(run.machine.gpu.removeprefix("NVIDIA ") or "none", 14), str(len(run.measurements)),
                     _cut(shown, 24)))  # fmt: skip
    columns = (("run", "left"), ("started (UTC)", "left"), ("command", "left"), ("GPU", "left"),
               ("results", "right"), ("best TFLOPS", "left"))  # fmt: skip
    out = console()
    out.print(table("", columns, [tuple(_plain(cell) for cell in row) for row in rows]))
    if len(runs) < len(ids):
        out.print(f"[dim]{len(runs)} of {len(ids)} runs; --limit shows more.[/dim]")


def print_run(run: Run) -> None:
    """Where it took place, then a line a measurement."""
    out, machine = console(), run.machine
    out.print(f"[bold]{_plain(run.id)}[/bold]  {_plain(run.started)}  gemmsmith {_plain(run.gemmsmith)}")
    _say(out, f"command   {run.command}")
    facts = [machine.gpu or "no GPU", machine.arch, machine.driver and f"driver {machine.driver}",
             machine.cuda and f"CUDA {machine.cuda}", machine.compiler]  # fmt: skip
    _say(out, f"GPU       {', '.join(filter(None, facts))}")
    _say(out, f"machine   {machine.host}, {machine.system}, {machine.cpu}, Python {machine.python}")
    if machine.packages:
        _say(out, f"packages  {', '.join(f'{name} {version}' for name, version in machine.packages)}")
    out.print()
    if not run.measurements:
        out.print("No measurements: the run ended before the first was complete.")
        return
    rows = []
    for m in run.measurements:
        best = m.best
        against = ", ".join(f"{ratio.baseline} {100 * ratio.value:.4g} %" for ratio in m.ratios[:2])
        rows.append((
            _cut(f"{_who(m)} {m.identity.config}".strip(), 27), _problem(m.problem), _micro(m.seconds),
            "" if best is None or math.isnan(best.spread) else f"{100 * best.spread:.2g}",
            _number(m.tflops), _cut(against, 20), m.origin if m.verified and not m.rejected else "rejected",
        ))  # fmt: skip
    columns = (("contender", "left"), ("problem", "left"), ("µs", "right"), ("±%", "right"), ("TFLOPS", "right"),
               ("of", "left"), ("origin", "left"))  # fmt: skip
    out.print(table("", columns, [tuple(_plain(cell) for cell in row) for row in rows]))
    for m in run.measurements:
        if m.rejected or not m.verified:
            _say(out, f"rejected: {m.identity.name} on {m.problem}: {m.rejected or 'not verified'}")
    out.print("[dim]µs: median of one launch, cold L2 where it was measured; ±%: interquartile range over it.[/dim]")


def print_comparison(found: RunComparison, ids: Sequence[str], everything: bool) -> None:
    """What differs besides the contenders, then the changes, then the rule."""
    out = console()
    for letter, run in (("A", found.a), ("B", found.b)):
        facts = ", ".join(filter(None, (run.machine.gpu or "no GPU", run.started[:16].replace("T", " "), run.command)))
        _say(out, f"{letter}  {short(run.id, ids)}  {facts}")
    for remark in found.remarks:
        _say(out, f"- {remark}")
    out.print()
    shown = [change for change in found.changes if everything or change.verdict != SAME]
    if shown:
        columns = (("verdict", "left"), ("contender", "left"), ("problem", "left"), ("timing", "left"),
                   ("A µs", "right"), ("B µs", "right"), ("speed", "right"))  # fmt: skip
        out.print(table("", columns, [tuple(_plain(cell) for cell in _change_row(change)) for change in shown]))
        notes = {
            f"{change.measurement.identity.name} on {change.measurement.problem}: {'; '.join(change.notes)}": None
            for change in shown if change.notes
        }  # fmt: skip
        for note in notes:
            _say(out, f"  {note}")
        out.print()
    counts = [f"{found.count(verdict)} {verdict}" for verdict in VERDICTS if found.count(verdict)]
    _say(out, f"{', '.join(counts)}." if counts else "The runs have nothing to compare: no measurements.")
    rule = (
        f"Faster or slower: the medians' 95 % intervals do not overlap and the medians differ by {_least(found)} % "
        "or more. Speed: how much faster B is than A. A library that got slower is not a regression."
    )
    out.print(f"[dim]{escape(wrapped(rule))}[/dim]")


def comparison_json(found: RunComparison) -> dict[str, Any]:
    """The comparison in plain types; what is not known is null."""
    return {
        "a": found.a.id,
        "b": found.b.id,
        "least_change": found.least_change,
        "remarks": list(found.remarks),
        "regression": bool(found.regressions),
        "counts": {verdict: found.count(verdict) for verdict in VERDICTS},
        "changes": [_change_json(change) for change in found.changes],
    }


def _change_json(change: Change) -> dict[str, Any]:
    m = change.measurement
    numbers = (*change.seconds, change.speedup, change.low, change.high)
    a, b, speedup, low, high = (value if math.isfinite(value) else None for value in numbers)
    return {
        "verdict": change.verdict, "regression": change.regression, "contender": m.identity.name,
        "kind": m.identity.kind, "config": m.identity.config, "precision": m.identity.precision,
        "problem": str(m.problem), "origin": m.origin, "mode": change.mode, "cache": change.cache,
        "a_seconds": a, "b_seconds": b, "speedup": speedup, "low": low, "high": high, "notes": list(change.notes),
    }  # fmt: skip


def _change_row(change: Change) -> tuple[str, ...]:
    m = change.measurement
    speed = "" if math.isnan(change.speedup) else f"{100 * (change.speedup - 1):+.1f} %"
    return (change.verdict, _cut(_who(m), 25), _problem(m.problem), f"{change.mode} {change.cache}".strip(),
            _micro(change.seconds[0]), _micro(change.seconds[1]), speed)  # fmt: skip


def _who(measurement: Measurement) -> str:
    """The contender, with its arithmetic where neither its name nor the problem's type says it: TF32 is not fp32."""
    name, precision = measurement.identity.name, measurement.identity.precision
    return name if precision in name or precision == measurement.problem.dtype.name else f"{name} {precision}"


def _command(text: str) -> str:
    """What tells a run from others: without the usual options, and with the end of a long one."""
    text = _USUAL.sub("", text.removeprefix("gemmsmith "))
    half = (_COMMAND - 3) // 2
    return text if len(text) <= _COMMAND else f"{text[:half].rstrip()} … {text[-half:].lstrip()}"


def _problem(problem: Problem) -> str:
    """The problem with its layout, and with its output's type where its inputs leave a choice."""
    size, _, rest = str(problem).partition(f" {problem.dtype}")
    rest = rest.removeprefix(f" to {problem.out_dtype}").removeprefix(f" {problem.layout}")
    to = f" to {problem.out_dtype}" if len(OUTPUTS[problem.dtype]) > 1 else ""
    return f"{size} {problem.dtype}{to} {problem.layout}{rest}"


def _least(found: RunComparison) -> str:
    return f"{100 * found.least_change:.3g}"


def _micro(seconds: float) -> str:
    return _number(1e6 * seconds)


def _number(value: float) -> str:
    if not math.isfinite(value):
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _say(out: Console, text: str) -> None:
    out.print(escape(wrapped(_printable(text))))


def _plain(text: str) -> str:
    """A cell: nothing in a record is markup."""
    return escape(_printable(text))


def _printable(text: str) -> str:
    """Nothing in a record moves the cursor or is no Unicode."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
