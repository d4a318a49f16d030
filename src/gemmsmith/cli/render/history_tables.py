"""What ``gemmsmith history`` prints: runs, one run, and two runs compared."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from rich.markup import escape

from gemmsmith.cli.render.output import Column, item, print_table, say
from gemmsmith.problem import OUTPUTS, Problem
from gemmsmith.store.results import Measurement, Run
from gemmsmith.store.run_comparison import SAME, VERDICTS, Change, RunComparison

_SHORT = 8  # characters of an id, unless two runs share them
_COMMAND = 102  # characters of a command in the list, in three lines or so
# Options at their defaults, which bench and sweep record: they would hide the words that distinguish runs.
_USUAL = re.compile(
    r" --(out-dtype fp32|layout NN|against cublas|(precision|within) 0\.005|budget 5|seed 0|device auto)(?= |$)"
)


def short(run_id: str, ids: Sequence[str]) -> str:
    """The shortest beginning of the id that no other run has, of 8 characters at least."""
    length = _SHORT
    while length < len(run_id) and sum(other.startswith(run_id[:length]) for other in ids) > 1:
        length += 1
    return run_id[:length]


def best_tflops(run: Run) -> Measurement | None:
    """The fastest measurement that is verified and not rejected."""
    timed = [m for m in run.measurements if m.verified and not m.rejected and math.isfinite(m.tflops)]
    return max(timed, key=lambda m: m.tflops, default=None)


def print_runs(runs: Sequence[Run], ids: Sequence[str]) -> None:
    """One line per run, newest first."""
    rows = []
    for run in runs:
        best = best_tflops(run)
        shown = "" if best is None else f"{best.tflops:.4g} {_contender(best)}"
        rows.append((short(run.id, ids), run.started[:16].replace("T", " "), _command(run.command),
                     _cut(run.machine.gpu.removeprefix("NVIDIA ") or "none", 14), str(len(run.measurements)),
                     _cut(shown, 24)))  # fmt: skip
    heads = (("run", "bar"), ("started (UTC)", "left"), ("command", "left"), ("GPU", "left"), ("results", "right"),
             ("best TFLOPS", "left"))  # fmt: skip
    _print(heads, rows)
    if len(runs) < len(ids):
        say(f"{len(runs)} of {len(ids)} runs; --limit shows more.", "dim")


def print_run(run: Run) -> None:
    """The machine, then a line per measurement."""
    machine = run.machine
    say(_printable(f"{run.id}  {run.started}  gemmsmith {run.gemmsmith}"), lead=_printable(run.id))
    _fact("command", run.command)
    facts = [machine.gpu or "no GPU", machine.arch, machine.driver and f"driver {machine.driver}",
             machine.cuda and f"CUDA {machine.cuda}", machine.compiler]  # fmt: skip
    _fact("GPU", ", ".join(filter(None, facts)))
    _fact("machine", f"{machine.host}, {machine.system}, {machine.cpu}, Python {machine.python}")
    if machine.packages:
        _fact("packages", ", ".join(f"{name} {version}" for name, version in machine.packages))
    say()
    if not run.measurements:
        say("No measurements: the run ended before the first was complete.")
        return
    rows = []
    for m in run.measurements:
        best = m.best
        against = ", ".join(f"{ratio.baseline} {100 * ratio.value:.4g} %" for ratio in m.ratios[:2])
        rows.append((
            _cut(f"{_contender(m)} {m.identity.config}".strip(), 27), _problem(m.problem), _micro(m.seconds),
            "" if best is None or math.isnan(best.spread) else f"{100 * best.spread:.2g}",
            _number(m.tflops), _cut(against, 20), m.origin if m.verified and not m.rejected else "rejected",
        ))  # fmt: skip
    heads = (("contender", "left"), ("problem", "left"), ("µs", "right"), ("±%", "right"), ("TFLOPS", "right"),
             ("of", "left"), ("origin", "left"))  # fmt: skip
    _print(heads, rows)
    for m in run.measurements:
        if m.rejected or not m.verified:
            _item(f"rejected: {m.identity.name} on {m.problem}: {m.rejected or 'not verified'}")
    say("µs: median of one launch, cold L2 where it was measured; ±%: interquartile range over it.", "dim")


def print_comparison(found: RunComparison, ids: Sequence[str], everything: bool) -> None:
    """What else differs between the runs, then the changes, then the rule."""
    for letter, run in (("A", found.a), ("B", found.b)):
        facts = ", ".join(filter(None, (run.machine.gpu or "no GPU", run.started[:16].replace("T", " "), run.command)))
        _item(f"{letter}  {short(run.id, ids)}  {facts}")
    for remark in found.remarks:
        _item(f"- {remark}")
    say()
    shown = [change for change in found.changes if everything or change.verdict != SAME]
    if shown:
        heads = (("verdict", "bar"), ("contender", "left"), ("problem", "left"), ("timing", "left"), ("A µs", "right"),
                 ("B µs", "right"), ("speed", "right"))  # fmt: skip
        _print(heads, [_change_row(change) for change in shown])
        notes = {
            f"{change.measurement.identity.name} on {change.measurement.problem}: {'; '.join(change.notes)}": None
            for change in shown if change.notes
        }  # fmt: skip
        for note in notes:
            _item(f"  {note}")
        say()
    counts = [f"{found.count(verdict)} {verdict}" for verdict in VERDICTS if found.count(verdict)]
    say(f"{', '.join(counts)}." if counts else "The runs have nothing to compare: no measurements.")
    rule = (
        f"Faster or slower: the medians' 95 % intervals do not overlap and the medians differ by {_least(found)} % "
        "or more. Speed: how much faster B is than A. A library that got slower is not a regression."
    )
    say(rule, "dim")


def comparison_json(found: RunComparison) -> dict[str, Any]:
    """The comparison in plain types; unknown values are null."""
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
    return (change.verdict, _cut(_contender(m), 25), _problem(m.problem), f"{change.mode} {change.cache}".strip(),
            _micro(change.seconds[0]), _micro(change.seconds[1]), speed)  # fmt: skip


def _contender(measurement: Measurement) -> str:
    """The contender, with its arithmetic unless its name or the input type says it: TF32 is not fp32."""
    name, precision = measurement.identity.name, measurement.identity.precision
    return name if precision in name or precision == measurement.problem.dtype.name else f"{name} {precision}"


def _command(text: str) -> str:
    """What distinguishes a run: without options at their defaults, and with the end of a long command."""
    text = _USUAL.sub("", text.removeprefix("gemmsmith "))
    half = (_COMMAND - 3) // 2
    return text if len(text) <= _COMMAND else f"{text[:half].rstrip()} … {text[-half:].lstrip()}"


def _problem(problem: Problem) -> str:
    """The problem with its layout, and with its output type where the inputs allow several."""
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


def _fact(name: str, text: str) -> None:
    say(_printable(f"{name:9} {text}"), hang=" " * 10)


def _item(text: str) -> None:
    item(_printable(text))


def _print(heads: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """A table of recorded text, none of which is markup."""
    print_table(heads, [[escape(_printable(cell)) for cell in row] for row in rows])


def _printable(text: str) -> str:
    """Recorded text must not move the cursor, and may hold bytes that are not Unicode."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
