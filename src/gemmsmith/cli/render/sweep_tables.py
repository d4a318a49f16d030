"""How ``gemmsmith sweep`` shows its points: a table with bars, a grid of two parameters, CSV and JSON."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

from rich.markup import escape

from gemmsmith.cli.render.output import item, print_table, say
from gemmsmith.explain.profile import plain
from gemmsmith.store.results import Measurement
from gemmsmith.store.run_file import measurement_to_json
from gemmsmith.sweep.axes import WAVES
from gemmsmith.sweep.experiments import EXPERIMENTS
from gemmsmith.sweep.quantities import QUANTITIES, Quantity, columns, quantity_named
from gemmsmith.sweep.results import Outcome, Sweep

_BAR = 8
# Headings that need no explanation.
_PLAIN = ("threads", "registers", "spill_bytes", "smem_bytes", "occupancy", "blocks_per_sm", "grid_blocks", "waves",
          "seconds", "tflops")  # fmt: skip
_STATES = {"illegal": "[dim]illegal[/dim]", "failed": "[red]failed[/red]", "wrong": "[red]WRONG[/red]"}


def print_sweep(sweep: Sweep) -> None:
    if sweep.experiment is not None:
        say(sweep.experiment.asks, "bold")
    main = quantity_named(sweep.main)
    every = [quantity_named(name) for name in columns(sweep.main, sweep.origin)]
    shown, same = _telling_apart(sweep, every)
    largest = max((v for o in sweep.outcomes if math.isfinite(v := o.value(main))), default=0.0)
    with_shape = any(WAVES in dict(o.point.settings) for o in sweep.outcomes)
    rows = [_cells(sweep, outcome, shown, main, largest, with_shape) for outcome in sweep.outcomes]
    heads = [(axis.title, "right") for axis in sweep.axes]
    heads += [("M×N×K", "right")] if with_shape else []
    heads += [(_two_lines(q.heading), "right") for q in shown[:-1]]
    heads += [(f"of\n{name}", "right") for name in sweep.baselines]
    heads += [(_two_lines(main.heading), "right"), ("", "bar")]
    if sweep.origin == "predicted":
        heads.append(("limited by", "left"))
    print_table(heads, rows, sweep.title)
    if same:
        say(f"The same at every point: {same}.")
    if len(sweep.axes) == 2:
        say()
        say(f"{main.heading}: {main.meaning}")
        _print_grid(sweep, main)
    _print_refused(sweep)
    say()
    if sweep.experiment is not None:
        say(sweep.experiment.see)
    for remark in sweep.remarks:
        item(f"note: {remark}")
    meanings = "; ".join(f"{q.heading}: {q.meaning}" for q in shown if q.name not in _PLAIN)
    say(sweep.note + (f" {meanings}." if meanings else ""), "dim")


def _two_lines(heading: str) -> str:
    return heading.replace(" ", "\n", 1)


def _telling_apart(sweep: Sweep, every: Sequence[Quantity]) -> tuple[list[Quantity], str]:
    """The quantities that differ between points and the main one; and the others as text."""
    varied = {"smem_bytes" if name == "smem" else name for axis in sweep.axes for name in axis.names}
    shown, same = [], []
    for quantity in every:
        texts = {_text(quantity, o.measurement) for o in sweep.outcomes if o.measurement is not None}
        if quantity.name == sweep.main or (len(texts) > 1 and quantity.name not in varied):
            shown.append(quantity)
        elif len(texts) == 1 and "–" not in texts:
            same.append(f"{quantity.heading} {texts.pop()}")
    return shown, ", ".join(same)


def _cells(
    sweep: Sweep, outcome: Outcome, shown: Sequence[Quantity], main: Quantity, largest: float, with_shape: bool
) -> list[str]:
    found, problem = outcome.measurement, outcome.point.problem
    cells = [escape(axis.label(outcome.point.settings)) for axis in sweep.axes]
    if with_shape:
        cells.append(f"{problem.m}×{problem.n}×{problem.k}" if problem else "")
    texts = {q.name: _text(q, found) for q in shown}
    if found is not None and found.counter("spill_bytes") > 0 and "spill_bytes" in texts:
        texts["spill_bytes"] = f"[yellow]{texts['spill_bytes']}[/yellow]"
    cells += [texts[q.name] for q in shown[:-1]] + [_baseline(found, name) for name in sweep.baselines]
    value = outcome.value(main)
    bar = "█" * round(_BAR * value / largest) if largest > 0 and value >= 0 else ""
    cells += [texts[main.name], _STATES.get(outcome.state, bar)]
    return [*cells, outcome.limiter] if sweep.origin == "predicted" else cells


def _text(quantity: Quantity, found: Measurement | None) -> str:
    value = quantity.read(found) if found is not None else math.nan
    return quantity.write(value) if math.isfinite(value) else "–"


def _baseline(found: Measurement | None, name: str) -> str:
    value = found.ratio(name) if found is not None else math.nan
    return f"{100 * value:.1f}%" if math.isfinite(value) else "–"


def _print_grid(sweep: Sweep, main: Quantity) -> None:
    """The main quantity over two parameters, one down and one across; the largest and the smallest in bold."""
    down, across = sweep.axes
    at = {(down.label(o.point.settings), across.label(o.point.settings)): o.value(main) for o in sweep.outcomes}
    known = [value for value in at.values() if math.isfinite(value)]
    extremes = {min(known), max(known)} if known else set()
    rows = []
    for row in ("×".join(value) for value in down.values):
        cells = [row]
        for column in ("×".join(value) for value in across.values):
            value = at[row, column]
            text = main.write(value) if math.isfinite(value) else "–"
            cells.append(f"[bold]{text}[/bold]" if value in extremes else text)
        rows.append(cells)
    corner = f"{down.title} \\ {across.title}"
    print_table([(corner, "right"), *(("×".join(v), "right") for v in across.values)], rows)


def _print_refused(sweep: Sweep) -> None:
    refused = [outcome for outcome in sweep.outcomes if outcome.reasons]
    if refused:
        say()
    for outcome in refused:
        item(f"{outcome.state} {outcome.point.label}: {'; '.join(outcome.reasons)}")


def print_experiments() -> None:
    heads = (("name", "bar"), ("question", "left"), ("rung", "bar"))
    rows = [(e.name, e.asks, e.kernel) for e in EXPERIMENTS]
    print_table(heads, rows, "Experiments: gemmsmith sweep --experiment NAME")


def experiments_json() -> dict[str, Any]:
    return {"experiments": [
        {"name": e.name, "asks": e.asks, "kernel": e.kernel, "config": e.fixed, "vary": list(e.vary),
         "shape": e.shape, "shows": e.shows, "see": e.see} for e in EXPERIMENTS]}  # fmt: skip


def sweep_json(sweep: Sweep, command: str, version: str) -> dict[str, Any]:
    """Plain types; a point without a measurement says why."""
    return {
        "command": command, "gemmsmith": version, "kernel": sweep.kernel, "fixed": sweep.fixed,
        "experiment": sweep.experiment.name if sweep.experiment else "", "origin": sweep.origin,
        "device": sweep.device, "gpu": sweep.gpu, "note": sweep.note, "remarks": list(sweep.remarks),
        "main": sweep.main,
        "axes": [{"names": list(a.names), "values": [list(v) for v in a.values]} for a in sweep.axes],
        "points": [
            {
                "settings": dict(o.point.settings), "state": o.state, "reasons": list(o.reasons),
                "limited_by": o.limiter,
                "values": {q.name: plain(o.value(q)) for q in QUANTITIES.values()},
                "measurement": measurement_to_json(o.measurement) if o.measurement else None,
            }
            for o in sweep.outcomes
        ],
    }  # fmt: skip


def sweep_csv(sweep: Sweep) -> str:
    """One row per point: settings, state, problem, every quantity that any point has, and the reasons."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    names = list(dict.fromkeys(name for o in sweep.outcomes for name, _ in o.point.settings))
    known = [q for q in QUANTITIES.values() if any(math.isfinite(o.value(q)) for o in sweep.outcomes)]
    rows.writerow(("kernel", *(f"set_{name}" for name in names), "state", "origin", "config", "m", "n", "k", "dtype",
                   *(q.name for q in known), *(f"ratio_{name}" for name in sweep.baselines), "reasons"))  # fmt: skip
    for outcome in sweep.outcomes:
        point, found = outcome.point, outcome.measurement
        problem = point.problem
        shape = (problem.m, problem.n, problem.k, problem.dtype.name) if problem else ("", "", "", "")
        values = [outcome.value(q) for q in known]
        ratios = [found.ratio(name) if found else math.nan for name in sweep.baselines]
        rows.writerow((
            sweep.kernel, *(dict(point.settings).get(name, "") for name in names), outcome.state, sweep.origin,
            point.variant.text if point.variant else "", *shape,
            *(f"{v:.10g}" if math.isfinite(v) else "" for v in (*values, *ratios)), "; ".join(outcome.reasons),
        ))  # fmt: skip
    return text.getvalue()
