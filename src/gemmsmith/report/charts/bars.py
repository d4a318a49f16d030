"""Horizontal bars with reference lines: the ladder, and sweeps over one parameter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gemmsmith.report.charts.frame import Canvas, Drawing, Key, legend, x_axis
from gemmsmith.report.charts.scale import Scale, nice_ticks, nice_top
from gemmsmith.report.charts.svg import badge, el, group, join, line, marker, rect, series, text, width_of
from gemmsmith.report.charts.words import short


@dataclass(frozen=True)
class Bar:
    """One row. A NaN ``value`` draws no bar; ``words`` then say why.

    low, high  the value's 95 % interval
    ghost      a second figure of another origin, drawn as a diamond
    faint      the value's origin is not the chart's main one
    overlay    a pattern that sets the bar apart, besides its colour
    """

    label: str
    value: float
    words: str
    rung: int = 0
    href: str = ""
    low: float = math.nan
    high: float = math.nan
    ghost: float = math.nan
    faint: bool = False
    class_: str = "s1"
    overlay: str = ""


@dataclass(frozen=True)
class Reference:
    """A vertical line: a baseline or a limit."""

    label: str
    value: float
    dash: str = "6 4"


def draw_bars(canvas: Canvas, bars: Sequence[Bar], references: Sequence[Reference], unit: str,
              ghost: str = "", faint: str = "", solid: str = "", more: Sequence[Key] = ()) -> Drawing:  # fmt: skip
    """``ghost``, ``faint``, ``solid`` and ``more`` are legend entries; a legend needs at least two in use."""
    label_width = 0.0 if canvas.narrow else 34 + max(width_of(b.label, canvas.font) for b in bars)
    pitch, thick = (46.0, 20.0) if canvas.narrow else (36.0, 24.0)
    finite = [v for b in bars for v in (b.value, b.high, b.ghost) if math.isfinite(v)]
    top_value = max([*finite, *(r.value for r in references)], default=1.0)
    about = 4 if canvas.narrow else 7
    scale = Scale(0, nice_top(top_value, about), label_width + 2, canvas.width - 14)
    keys = [*_keys(bars, ghost, faint, solid), *more]
    head, y = legend(keys, canvas, 0) if len(keys) > 1 else (Markup(""), 0.0)
    lines_from = y + 16
    top = y + 16 * len(references) + 8
    bottom = top + pitch * len(bars)
    ticks = nice_ticks(0, scale.high, about)
    parts = [head, x_axis(scale, ticks, top, bottom, short, unit)]
    for i, reference in enumerate(references):
        parts.append(_reference(scale, reference, lines_from + 16 * i, bottom, canvas))
    parts += [_row(canvas, scale, bar, top + pitch * i, pitch, thick) for i, bar in enumerate(bars)]
    return Drawing(join(*parts), bottom + 44)


def _keys(bars: Sequence[Bar], ghost: str, faint: str, solid: str) -> list[Key]:
    keys = []
    if solid and any(math.isfinite(b.value) and not b.faint and not b.overlay for b in bars):
        keys.append(Key("swatch", "s1 fill", solid))
    if any(_whisker(b) for b in bars):
        keys.append(Key("line", "whisker", "95 % interval"))
    if faint and any(math.isfinite(b.value) and b.faint for b in bars):
        keys.append(Key("swatch", "s1 fill faint", faint, "hatch"))
    if ghost and any(math.isfinite(b.ghost) for b in bars):
        keys.append(Key("diamond", "ghost", ghost))
    return keys


def _whisker(bar: Bar) -> bool:
    return math.isfinite(bar.value) and math.isfinite(bar.low) and math.isfinite(bar.high) and bar.high > bar.low


def _row(canvas: Canvas, scale: Scale, bar: Bar, top: float, pitch: float, thick: float) -> Markup:
    y = top + (pitch - thick if canvas.narrow else (pitch - thick) / 2)
    middle = y + thick / 2
    label_y = y - 12 if canvas.narrow else middle
    has_badge = bar.rung > 0
    name = text(26 if has_badge else 0, label_y + 4.5, bar.label, "name")
    inside = join(badge(11, label_y, bar.rung, 10 if canvas.narrow else 11) if has_badge else "", name)
    parts = [el("a", inside, href=bar.href) if bar.href else inside]
    if not math.isfinite(bar.value):
        parts.append(text(scale(0) + 6, middle + 4, bar.words, "tick"))
        return series(bar.label, *parts)
    title = f"{bar.label}: {bar.words}"
    length = scale(bar.value) - scale(0)
    parts.append(rect(scale(0), y, length, thick, f"{bar.class_} fill mark" + (" faint" * bar.faint), title, 3,
                      bar.value))  # fmt: skip
    if bar.faint or bar.overlay:
        parts.append(rect(scale(0), y, length, thick, bar.overlay or "hatch", radius=3))
    if _whisker(bar):
        parts.append(line(scale(bar.low), middle, scale(bar.high), middle, "whisker"))
    if math.isfinite(bar.ghost):
        parts.append(marker(scale(bar.ghost), middle, "diamond", "ghost", value=bar.ghost))
    needed = width_of(bar.words, canvas.font) + 14
    end = scale(bar.low if bar.low < bar.value else bar.value) - 10  # of words on the bar: left of the whisker
    if math.isfinite(bar.ghost) and end - needed - 8 < scale(bar.ghost) < end + 8:
        end = scale(bar.ghost) - 14
    edge = scale(max(v for v in (bar.value, bar.high) if math.isfinite(v)))
    if math.isfinite(bar.ghost) and edge - 8 < scale(bar.ghost) < edge + needed + 8:
        edge = scale(bar.ghost)  # the text would cover it, so the text goes to its right
    if canvas.narrow:
        parts.append(text(canvas.width, label_y + 4.5, bar.words, "value halo", "end"))
    elif end - scale(0) > needed - 2 and not bar.faint and not bar.overlay:
        parts.append(text(end, middle + 4.5, bar.words, "on-bar", "end"))
    else:
        parts.append(text(edge + 10, middle + 4.5, bar.words, "value halo"))
    return series(bar.label, *parts)


def _reference(scale: Scale, reference: Reference, y: float, bottom: float, canvas: Canvas) -> Markup:
    x, width = scale(reference.value), width_of(reference.label, canvas.font) + 8
    # Right of its line, else left of it, else as far right as it fits.
    if x + width < canvas.width:
        at, anchor = x + 6, "start"
    elif x - width > 0:
        at, anchor = x - 6, "end"
    else:
        at, anchor = canvas.width, "end"
    words = text(at, y - 3, reference.label, "reference halo", anchor)
    return group(line(x, y - 12, x, bottom, "reference-line", reference.dash), words)
