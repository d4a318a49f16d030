"""A sweep as a picture: the page's chart in an SVG file of its own."""

from __future__ import annotations

import math
import re
from importlib.resources import files
from pathlib import Path

from markupsafe import Markup

from gemmsmith.errors import UsageError
from gemmsmith.report import report_model
from gemmsmith.sweep.quantities import Quantity, quantity_named
from gemmsmith.sweep.results import Outcome, Sweep

_STYLES = ("colours.css", "charts.css")
_MARGIN, _HEAD = 20, 68


def write_plot(sweep: Sweep, path: Path, command: str) -> bool:
    """Draw the main quantity: bars over one parameter, cells over two. False where no point has it."""
    from gemmsmith.report.charts.frame import WIDE
    from gemmsmith.report.charts.patterns import patterns
    from gemmsmith.report.charts.svg import el, text
    from gemmsmith.report.figures.sweeps import sweep_chart

    chart = sweep_chart(as_page_sweep(sweep, command), "sweep")
    if chart is None:
        return False
    css = "\n".join(files("gemmsmith.report").joinpath("templates", name).read_text("utf-8") for name in _STYLES)
    style = Markup("<style>{} .sheet {{ background: var(--card); }}</style>").format(Markup(css))
    inner = Markup(str(chart.wide).replace("<svg ", f'<svg x="{_MARGIN}" y="{_HEAD}" ', 1))
    height = float(re.findall(r'<svg [^>]*\bheight="([\d.]+)"', inner)[0]) + _HEAD + _MARGIN
    width = WIDE.width + 2 * _MARGIN
    made = el(
        "svg", style, patterns(), text(_MARGIN, 28, sweep.title, "axis"), text(_MARGIN, 50, chart.caption, "tick"),
        inner,
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width:g} {height:g}", width=width, height=height,
        class_="chart sheet",
    )  # fmt: skip
    try:
        path.write_text(f"{made}\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    return True


def as_page_sweep(sweep: Sweep, command: str) -> report_model.Sweep:
    """The sweep as the page takes it: one quantity over the parameters; shares in per cent."""
    main = quantity_named(sweep.main)
    return report_model.Sweep(
        title=sweep.title, parameters=tuple(axis.title for axis in sweep.axes), origin=sweep.origin,
        quantity=f"{main.meaning}, {main.unit}" if main.unit else main.meaning, command=command, where=sweep.device,
        points=tuple(_point(sweep, outcome, main) for outcome in sweep.outcomes), more_is_better=main.more_is_better,
    )  # fmt: skip


def _point(sweep: Sweep, outcome: Outcome, main: Quantity) -> report_model.SweepPoint:
    scale = 100 if main.unit == "%" else 1
    best = outcome.measurement.best if outcome.measurement is not None else None
    low, high = math.nan, math.nan
    if main.name == "tflops" and best is not None and outcome.measurement is not None:
        flops = outcome.measurement.problem.flops / 1e12
        low, high = flops / best.high, flops / best.low
    reasons = "; ".join(outcome.reasons)
    return report_model.SweepPoint(
        values=tuple(axis.label(outcome.point.settings) for axis in sweep.axes), low=low, high=high,
        value=scale * outcome.value(main), note="" if outcome.state == "illegal" else reasons,
        illegal=reasons if outcome.state == "illegal" else "",
    )  # fmt: skip
