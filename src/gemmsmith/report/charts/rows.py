"""Charts with one row per rung: dots on an axis, and stacked bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gemmsmith.report.charts.frame import Canvas, Drawing, Key, legend, x_axis
from gemmsmith.report.charts.scale import Scale, log_bounds, log_ticks, nice_ticks, nice_top
from gemmsmith.report.charts.svg import badge, el, group, join, line, marker, rect, series, text, width_of
from gemmsmith.report.charts.words import percent, short


@dataclass(frozen=True)
class Kind:
    """What a dot or segment stands for: text, CSS class, and a shape or hatching besides the colour."""

    words: str
    class_: str
    shape: str = "circle"
    overlay: str = ""


@dataclass(frozen=True)
class Row:
    """One rung: a value per kind (NaN: none), the text at its end, and tooltips."""

    label: str
    values: tuple[float, ...]
    rung: int = 0
    href: str = ""
    words: str = ""
    titles: tuple[str, ...] = ()


def draw_dots(canvas: Canvas, kinds: Sequence[Kind], rows: Sequence[Row], unit: str, log: bool = True,
              reference: tuple[str, float] | None = None, labels: bool = False) -> Drawing:  # fmt: skip
    """One row of dots per rung, joined by a thin line."""
    head, top = legend([Key(k.shape, f"{k.class_} fill", k.words) for k in kinds], canvas, 0)
    top += 18 if reference else 4
    left, pitch = _left(canvas, rows), 42.0 if canvas.narrow else 34.0
    every = [v for row in rows for v in row.values if math.isfinite(v) and (v > 0 or not log)]
    if log:
        scale = Scale(*log_bounds(every), left, canvas.width - 14, log=True)
        ticks = log_ticks(scale.low, scale.high)
    else:
        about = 4 if canvas.narrow else 7
        scale = Scale(0, nice_top(max([*every, reference[1] if reference else 0.0]), about), left, canvas.width - 22)
        ticks = nice_ticks(0, scale.high, about)
    bottom = top + pitch * len(rows)
    parts = [head, x_axis(scale, ticks, top, bottom, short, unit)]
    if reference:
        at = scale(reference[1])
        parts.append(line(at, top - 8, at, bottom, "reference-line", "6 4"))
        parts.append(text(at, top - 12, reference[0], "reference", "middle"))
    for i, row in enumerate(rows):
        middle = top + pitch * i + (pitch - 10 if canvas.narrow else pitch / 2)
        one = [_name(canvas, row, middle)]
        here = [(v, k, t) for v, k, t in zip(row.values, kinds, _titles(row), strict=True)
                if math.isfinite(v) and (v > 0 or not log)]  # fmt: skip
        if len(here) > 1:
            ends = [scale(v) for v, _, _ in here]
            one.append(line(min(ends), middle, max(ends), middle, "tie"))
        one += [marker(scale(v), middle, k.shape, f"{k.class_} fill mark", t, 6, v) for v, k, t in here]
        if labels and here:
            one.append(_ends(scale, [v for v, _, _ in here], middle, left, canvas))
        parts.append(series(row.label, *one))
    return Drawing(join(*parts), bottom + 44)


def draw_stacked(canvas: Canvas, kinds: Sequence[Kind], rows: Sequence[Row], unit: str, share: bool = False) -> Drawing:
    """Stacked bars; ``share`` scales every row to its own total."""
    head, top = legend([Key("swatch", f"{k.class_} fill", k.words, k.overlay) for k in kinds], canvas, 0)
    top += 4
    left = _left(canvas, rows)
    pitch, thick = (46.0, 20.0) if canvas.narrow else (34.0, 22.0)
    totals = [math.fsum(v for v in row.values if math.isfinite(v)) for row in rows]
    about = 4 if canvas.narrow else 7
    room = 0.0 if canvas.narrow else max((width_of(row.words, canvas.font) for row in rows), default=0) + 12
    high = 1.0 if share else nice_top(max(totals), about)
    scale = Scale(0, high, left, canvas.width - 16 - (room if not share else 0))
    bottom = top + pitch * len(rows)
    form = percent if share else short
    parts = [head, x_axis(scale, nice_ticks(0, high, 5 if share else about), top, bottom, form, unit)]
    for i, (row, total) in enumerate(zip(rows, totals, strict=True)):
        y = top + pitch * i + (pitch - thick if canvas.narrow else (pitch - thick) / 2)
        one = [_name(canvas, row, y + thick / 2)]
        one.append(_segments(canvas, kinds, row, total if share else 1.0, scale, y, thick))
        if row.words and canvas.narrow:
            one.append(text(canvas.width, y - 7.5, row.words, "value", "end"))
        elif row.words:
            one.append(text(scale(total) + 8, y + thick / 2 + 4.5, row.words, "value"))
        parts.append(series(row.label, *one))
    return Drawing(join(*parts), bottom + 44)


def _segments(canvas: Canvas, kinds: Sequence[Kind], row: Row, whole: float, scale: Scale, y: float,
              thick: float) -> Markup:  # fmt: skip
    parts, start = [], 0.0
    for value, kind, title in zip(row.values, kinds, _titles(row), strict=True):
        if not math.isfinite(value) or value <= 0:
            continue
        size = value / whole
        x, width = scale(start), scale(start + size) - scale(start)
        parts.append(rect(x, y, width, thick, f"{kind.class_} fill mark", title, value=value))
        if kind.overlay:
            parts.append(rect(x, y, width, thick, kind.overlay))
        words = percent(size)
        if whole != 1.0 and width > width_of(words, canvas.font) + 6:
            parts.append(text(x + width / 2, y + thick / 2 + 4.5, words, f"on-bar {kind.class_}", "middle"))
        start += size
    return group(*parts)


def _ends(scale: Scale, values: list[float], middle: float, left: float, canvas: Canvas) -> Markup:
    """Labels for the smallest and the largest value, outside their dots if they fit."""
    low, high = min(values), max(values)
    words = short(low)
    before = low < high and scale(low) - 12 - width_of(words, canvas.font) > left
    first = text(scale(low) - 12, middle + 4.5, words, "value halo", "end") if before else Markup("")
    after = scale(high) + 12 + width_of(short(high), canvas.font) < canvas.width
    last = text(scale(high) + (12 if after else -12), middle + 4.5, short(high), "value halo",
                "start" if after else "end")  # fmt: skip
    return join(first, last)


def _left(canvas: Canvas, rows: Sequence[Row]) -> float:
    return 4.0 if canvas.narrow else 40 + max(width_of(row.label, canvas.font) for row in rows)


def _name(canvas: Canvas, row: Row, middle: float) -> Markup:
    y = middle - 22 if canvas.narrow else middle
    inside = join(badge(11, y, row.rung, 10 if canvas.narrow else 11) if row.rung else "",
                  text(26 if row.rung else 0, y + 4.5, row.label, "name"))  # fmt: skip
    return el("a", inside, href=row.href) if row.href else inside


def _titles(row: Row) -> tuple[str, ...]:
    return row.titles or ("",) * len(row.values)
