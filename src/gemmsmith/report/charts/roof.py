"""The roofline chart: arithmetic intensity against speed, both logarithmic, under one GPU's limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gemmsmith.report.charts.frame import Canvas, Drawing, x_axis, y_axis
from gemmsmith.report.charts.scale import Scale, log_ticks, spread
from gemmsmith.report.charts.svg import (
    badge,
    colour,
    el,
    group,
    join,
    line,
    marker,
    number,
    polyline,
    series,
    text,
    width_of,
)
from gemmsmith.report.charts.words import short


@dataclass(frozen=True)
class Roof:
    """A bandwidth in TB/s; speed cannot exceed intensity times bandwidth."""

    label: str
    terabytes: float
    dash: str = ""


@dataclass(frozen=True)
class Ceiling:
    """A compute peak in TFLOPS."""

    label: str
    tflops: float


@dataclass(frozen=True)
class Spot:
    """One kernel's position; ``hollow`` marks are predictions."""

    rung: int
    label: str
    intensity: float
    tflops: float
    words: str
    hollow: bool = False


def draw_roofline(canvas: Canvas, spots: Sequence[Spot], roofs: Sequence[Roof], ceilings: Sequence[Ceiling],
                  x_title: str, y_title: str) -> Drawing:  # fmt: skip
    """Bandwidth roofs rise to the highest ceiling; each ceiling starts at the fastest roof."""
    top, bottom, left = 34.0, (350.0 if canvas.narrow else 470.0), 44.0
    right = canvas.width - (34 if canvas.narrow else 176)
    peak = max(ceiling.tflops for ceiling in ceilings)
    lowest = min(s.tflops for s in spots) / 2.5
    x_low = min(s.intensity for s in spots) / 2.5
    x_high = max(max(s.intensity for s in spots) * 2, peak / min(r.terabytes for r in roofs) * 3)
    x = Scale(x_low, x_high, left, right, log=True)
    y = Scale(lowest, max(peak * 2.2, max(s.tflops for s in spots) * 1.35), bottom, top, log=True)
    parts = [
        y_axis(y, log_ticks(y.low, y.high), left, right, short, y_title),
        x_axis(x, log_ticks(x_low, x_high), top, bottom, short, x_title),
    ]
    for roof in roofs:
        start = max(x_low, lowest / roof.terabytes)
        bend = [(x(start), y(start * roof.terabytes)), (x(peak / roof.terabytes), y(peak))]
        parts.append(polyline(bend, "roof", roof.dash))
    fastest = max(roof.terabytes for roof in roofs)
    for ceiling in ceilings:
        ridge, level = x(ceiling.tflops / fastest), y(ceiling.tflops)
        parts.append(line(ridge, level, x(x_high), level, "roof"))
        parts.append(_ceiling_label(ceiling, ridge, level, canvas))
    parts.append(_roof_labels(roofs, x, y))
    parts.append(_spots(canvas, spots, x, y, right))
    return Drawing(join(*parts), bottom + 44)


def _ceiling_label(ceiling: Ceiling, ridge: float, level: float, canvas: Canvas) -> Markup:
    """The label goes left of the ridge if there is room, else above the line."""
    if ridge - 8 - width_of(ceiling.label, canvas.font) > 48:
        return text(ridge - 8, level + 4.5, ceiling.label, "reference", "end")
    return text(ridge + 6, level - 7, ceiling.label, "reference halo")


def _roof_labels(roofs: Sequence[Roof], x: Scale, y: Scale) -> Markup:
    """Each roof's label, along its slope near the lower end."""
    rise = math.log(y.high / y.low) / (y.start - y.end)  # logarithm per pixel
    run = math.log(x.high / x.low) / (x.end - x.start)
    angle = -math.degrees(math.atan2(run, rise))
    parts = []
    for roof in roofs:
        foot = max(x.low * math.exp(14 * run), y.low * math.exp(18 * rise) / roof.terabytes)
        at, level = x(foot), y(foot * roof.terabytes) - 9
        parts.append(el("text", roof.label, x=at, y=level, class_="reference halo",
                        transform=f"rotate({number(angle)} {number(at)} {number(level)})"))  # fmt: skip
    return group(*parts)


def _spots(canvas: Canvas, spots: Sequence[Spot], x: Scale, y: Scale, right: float) -> Markup:
    places = spread([y(s.tflops) for s in spots], 23, y.end, y.start)
    made = []
    for spot, place in zip(spots, places, strict=True):
        at, level = x(spot.intensity), y(spot.tflops)
        one = [line(at, level, right + 8, place, "leader")]
        filling = "hollow" if spot.hollow else "fill"
        class_, words = f"{colour(spot.rung)} {filling} mark", f"{spot.label}: {spot.words}"
        one += [marker(at, level, "circle", class_, words, 6, spot.tflops), badge(right + 20, place, spot.rung, 10)]
        if not canvas.narrow:
            one.append(text(right + 36, place + 4.5, spot.label, "name"))
        made.append(series(spot.label, *one))
    return group(*made)
