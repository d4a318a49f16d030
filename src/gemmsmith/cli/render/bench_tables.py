"""How bench prints a run: a table per shape, the GPU's clocks meanwhile, notes, and how times were measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from rich.markup import escape

from gemmsmith.bench.rig import TimingPolicy
from gemmsmith.cli.render.output import Column, item, print_table, say
from gemmsmith.store.results import Conditions, Measurement, Run

_TITLE = "Launched one by one; with a hot L2; the host's time for a launch; errors"


def print_run(run: Run, notes: Sequence[str], plan: TimingPolicy, recorded: bool) -> None:
    """Every shape, then notes, then how it was measured."""
    for problem, group in groupby(run.measurements, lambda m: m.problem):
        rows = list(group)
        print_table(*speeds(rows), f"{problem} on {run.machine.gpu}, measured")
        say(conditions_line(rows[0].conditions), "dim")
        if not plan.quick:
            print_table(*other_times(rows), _TITLE)
        for row in rows:
            if row.rejected:
                item(f"{row.identity.name} REJECTED: {row.rejected}", "red")
        say()
    for note in dict.fromkeys(notes):
        item(note, "yellow")
    say(
        "Medians of launches replayed from CUDA graphs, operands rotated over twice the L2; ± is half of the 95 % "
        "interval, spread the interquartile range. Percentages of a baseline's speed are from the same rounds. "
        f"* is not known to {plan.precision:.1%}. Errors are in units of roundoff.",
        "dim",
    )  # fmt: skip
    if recorded:
        say(f"Recorded as run {run.id[:12]}; gemmsmith history shows it again.", "dim")


Columns = tuple[Column, ...]
Rows = list[tuple[str, ...]]


def speeds(rows: Sequence[Measurement]) -> tuple[Columns, Rows]:
    """The times that are compared: cold caches, from a graph."""
    compared = {r.baseline for m in rows for r in m.ratios}
    baselines = [m.identity.name for m in rows if m.identity.name in compared]
    names = ("time", "±", "TFLOPS", "GB/s", *(f"of\n{name}" for name in baselines), "of\nlimit")
    return (("", "bar"), *((name, "right") for name in names)), [(_name(m), *_speed(m, baselines)) for m in rows]


def other_times(rows: Sequence[Measurement]) -> tuple[Columns, Rows]:
    """Times of other ways to launch, and errors."""
    names = ("spread", "one by one", "hot", "host", "error\nbefore", "after")
    return (("", "bar"), *((name, "right") for name in names)), [(_name(m), *_other_timings(m)) for m in rows]


def conditions_line(found: Conditions) -> str:
    """The GPU's clock, power and temperature meanwhile."""
    if not found.samples:
        return "clock, power and temperature: not known"
    throttled = f"; slowed by {', '.join(found.throttled)}" if found.throttled else "; not throttled"
    return (
        f"SM clock {found.sm_mhz:.0f} MHz ({found.sm_mhz_min:.0f} to {found.sm_mhz_max:.0f}), "
        f"{found.power_w:.0f} W, at most {found.power_w_max:.0f} W and {found.temperature_c:.0f} °C{throttled}"
    )


def _name(measurement: Measurement) -> str:
    """With the arithmetic, unless the name or the input type says it: TF32 is never left unsaid."""
    identity = measurement.identity
    own = identity.precision in identity.name or identity.precision == measurement.problem.dtype.name
    return escape(identity.name if own else f"{identity.name} ({identity.precision})")


def _speed(measurement: Measurement, baselines: Sequence[str]) -> tuple[str, ...]:
    best = measurement.best
    if best is None or measurement.rejected:
        return ("rejected", *[""] * (4 + len(baselines)))
    half = (best.high - best.low) / 2 / best.median
    return (
        _seconds(best.median), f"{half:.2%}" + ("" if best.converged else "*"), _figure(measurement.tflops),
        f"{measurement.gbs:.0f}",
        *(_percent(measurement.ratio(name), "") for name in baselines), _percent(measurement.of_limit, "?"),
    )  # fmt: skip


def _other_timings(measurement: Measurement) -> tuple[str, ...]:
    times = {(t.mode, t.cache): t.median for t in measurement.timings}
    seconds = (times.get(("stream", "cold"), math.nan), times.get(("graph", "hot"), math.nan), measurement.overhead)
    best = measurement.best
    return ("" if best is None else f"{best.spread:.1%}", *("" if math.isnan(s) else _seconds(s) for s in seconds),
            *("" if math.isnan(r) else f"{r:.2g}" for r in measurement.rho))  # fmt: skip


def _seconds(seconds: float) -> str:
    """Four digits with a unit."""
    for factor, unit in ((1e6, "µs"), (1e3, "ms"), (1.0, "s")):
        value = seconds * factor
        if value < 1000 or unit == "s":
            return f"{value:.{max(0, 3 - len(str(int(value))))}f} {unit}"
    raise AssertionError


def _figure(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def _percent(value: float, unknown: str) -> str:
    return unknown if math.isnan(value) else f"{value:.1%}"
