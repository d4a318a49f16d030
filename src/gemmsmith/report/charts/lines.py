"""Line chart with logarithmic axes and labels at the right ends: speed over size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gemmsmith.report.charts.frame import Canvas, Drawing, x_axis, y_axis
from gemmsmith.report.charts.scale import Scale, log_bounds, log_ticks, spread
from gemmsmith.report.charts.svg import (
    badge,
    colour,
    dash,
    group,
    join,
    line,
    marker,
    polyline,
    series,
    shape,
    text,
    width_of,
)
from gemmsmith.report.charts.words import short


@dataclass(frozen=True)
class Line:
    """One curve: points (x, y, tooltip). ``rung`` 0 is a baseline; the curve that the chart is about is ``thick``."""

    label: str
    points: tuple[tuple[float, float, str], ...]
    rung: int = 0
    short_label: str = ""
    thick: bool = False


def draw_lines(canvas: Canvas, lines: Sequence[Line], x_title: str, y_title: str) -> Drawing:
    """Both axes are logarithmic; x has a tick per value, thinned where labels would touch."""
    xs = sorted({x for one in lines for x, _, _ in one.points})
    ys = [y for one in lines for _, y, _ in one.points]
    left = 44.0
    labels = [one.short_label or one.label if canvas.narrow else one.label for one in lines]
    room = max(_label_width(one, words, canvas) for one, words in zip(lines, labels, strict=True))
    top, bottom = 34.0, (max(330.0, 25.0 * len(lines)) if canvas.narrow else max(440.0, 36.0 * len(lines)))
    right = canvas.width - room - 34
    low, high = (xs[0], xs[-1]) if len(xs) > 1 else (xs[0] / 2, xs[0] * 2)
    x_scale = Scale(low, high, left + 10, right - 8, log=True)
    y_scale = Scale(*log_bounds(ys), bottom, top, log=True)
    parts = [
        y_axis(y_scale, log_ticks(y_scale.low, y_scale.high), left, right, short, y_title),
        x_axis(x_scale, _thinned(xs, x_scale, canvas), top, bottom, lambda v: f"{v:.0f}", x_title),
    ]
    parts += [_curve(one, x_scale, y_scale) for one in lines]
    parts.append(_names(lines, labels, x_scale, y_scale, right))
    return Drawing(join(*parts), bottom + 44)


def _label_width(one: Line, words: str, canvas: Canvas) -> float:
    if one.rung > 0 and canvas.narrow:
        return 24.0
    return width_of(words, canvas.font) + (28 if one.rung > 0 else 4)


def _thinned(xs: Sequence[float], scale: Scale, canvas: Canvas) -> list[float]:
    """Ticks whose labels do not touch; the largest is always included."""
    ticks: list[float] = []
    for x in reversed(xs):
        if not ticks or scale(ticks[-1]) - scale(x) >= width_of(f"{ticks[-1]:.0f}", canvas.font) + 8:
            ticks.append(x)
    return ticks[::-1]


def _curve(one: Line, x: Scale, y: Scale) -> Markup:
    places = [(x(px), y(py)) for px, py, _ in one.points]
    baseline = "baseline-line" if one.rung == 0 else "curve thick" if one.thick else "curve"
    return series(
        one.label,
        polyline(places, f"{colour(one.rung)} {baseline}", dash(one.rung)),
        *(
            marker(px, py, shape(one.rung), f"{colour(one.rung)} fill mark", f"{one.label}: {words}", 4, value)
            for (px, py), (_, value, words) in zip(places, one.points, strict=True)
        ),
    )


def _names(lines: Sequence[Line], labels: Sequence[str], x: Scale, y: Scale, right: float) -> Markup:
    """Labels beside the last point of each curve, spread to avoid overlap, joined by leader lines."""
    ends = [one.points[-1] for one in lines]
    places = spread([y(value) for _, value, _ in ends], 23, y.end, y.start)
    parts = []
    for one, words, (at, value, _), place in zip(lines, labels, ends, places, strict=True):
        name = [line(x(at) + 7, y(value), right + 18, place, "leader")]
        if one.rung > 0:
            name.append(badge(right + 30, place, one.rung, 10))
            if words != str(one.rung):
                name.append(text(right + 46, place + 4.5, words, "name"))
        else:
            name.append(text(right + 22, place + 4.5, words, "name strong"))
        parts.append(series(one.label, *name))
    return group(*parts)


def finite_points(points: Sequence[tuple[float, float, str]]) -> tuple[tuple[float, float, str], ...]:
    """The points that logarithmic axes can show, ordered by x."""
    good = (p for p in points if math.isfinite(p[1]) and p[1] > 0 and p[0] > 0)
    return tuple(sorted(good, key=lambda p: p[0]))
