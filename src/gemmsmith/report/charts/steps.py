"""Occupancy over one resource: a falling staircase, with the kernel's position marked."""

from __future__ import annotations

from collections.abc import Sequence

from gemmsmith.explain.occupancy import Step
from gemmsmith.report.charts.frame import Canvas, Drawing, x_axis, y_axis
from gemmsmith.report.charts.scale import Scale, nice_ticks
from gemmsmith.report.charts.svg import join, line, marker, polyline, text
from gemmsmith.report.charts.words import compact, percent


def draw_steps(canvas: Canvas, stairs: Sequence[Step], here: float, level: float, x_title: str,
               colour_class: str) -> Drawing:  # fmt: skip
    """``here`` is the kernel's use of the resource, ``level`` its occupancy."""
    top, bottom, left, right = 30.0, 150.0, 46.0, canvas.width - 12
    x = Scale(stairs[0].first, max(stairs[-1].last, here, stairs[0].first + 1), left, right)
    y = Scale(0, 1, bottom, top)
    path = []
    for at, step in enumerate(stairs):
        # A level extends to the next one: values in between are not possible.
        end = stairs[at + 1].first if at + 1 < len(stairs) else step.last
        path += [(x(step.first), y(step.occupancy.fraction)), (x(end), y(step.occupancy.fraction))]
    above = level < 0.75
    near_end = x(here) > (left + right) / 2
    words = f"{here:,.0f}: {percent(level)}"
    parts = [
        y_axis(y, (0, 0.5, 1), left, right, percent, "occupancy"),
        x_axis(x, nice_ticks(x.low, x.high, 4), top, bottom, compact, x_title),
        polyline(path, f"{colour_class} curve"),
        line(x(here), y(level), x(here), bottom, "leader"),
        marker(x(here), y(level), "circle", f"{colour_class} fill mark", words, 6, level),
        text(x(here) + (-9 if near_end else 9), y(level) - 10 if above else y(level) + 18, words, "value halo",
             "end" if near_end else "start"),
    ]  # fmt: skip
    return Drawing(join(*parts), bottom + 44)
