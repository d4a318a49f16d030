"""The frame of a chart: two widths, axes, legend, title, and the data table.

A chart is drawn twice, for a wide page and for a phone, because scaling a picture makes its text unreadable. The page
shows one of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gemmsmith.report.charts.scale import Scale
from gemmsmith.report.charts.svg import el, group, join, line, marker, rect, text, width_of


@dataclass(frozen=True)
class Canvas:
    """The width of a drawing and the size of its text, in pixels at natural size."""

    width: float
    font: float
    narrow: bool = False


WIDE = Canvas(980, 13)
NARROW = Canvas(348, 11.5, narrow=True)
SMALL = Canvas(320, 11.5, narrow=True)


@dataclass(frozen=True)
class Drawing:
    """The content of an SVG, and its height."""

    body: Markup
    height: float


@dataclass(frozen=True)
class Table:
    """The data behind a chart, formatted."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Which columns hold numbers and are therefore right-aligned."""
        return tuple(all(not row[i] or row[i][0] in "0123456789×–" for row in self.rows)
                     for i in range(len(self.columns)))  # fmt: skip


@dataclass(frozen=True)
class Chart:
    """A finished chart: both drawings, caption, data table, and the origins of its figures."""

    key: str
    title: str
    caption: str
    wide: Markup
    narrow: Markup
    table: Table
    origins: tuple[str, ...] = ()
    note: str = ""


Draw = Callable[[Canvas], Drawing]


def chart(key: str, title: str, caption: str, table: Table, draw: Draw, origins: Sequence[str] = (),
          note: str = "", small: bool = False) -> Chart:  # fmt: skip
    """Draw a chart at both widths; a ``small`` chart has one drawing that fits both."""
    wide = "" if small else document(key + "-wide", title, caption, WIDE, draw(WIDE), "chart wide")
    canvas = SMALL if small else NARROW
    narrow = document(key + "-narrow", title, caption, canvas, draw(canvas), "chart small" if small else "chart narrow")
    return Chart(key, title, caption, Markup(wide), narrow, table, tuple(dict.fromkeys(origins)), note)


def document(key: str, title: str, caption: str, canvas: Canvas, drawn: Drawing, class_: str,
             xmlns: str | None = None) -> Markup:  # fmt: skip
    """The SVG with title and description. With links inside, its role is group, so that they stay reachable.

    ``xmlns`` is needed in a standalone file, not inside HTML.
    """
    role = "group" if "<a " in drawn.body else "img"
    return el(
        "svg", el("title", title, id=f"{key}-title"), el("desc", caption, id=f"{key}-desc"), drawn.body,
        class_=class_, viewBox=f"0 0 {canvas.width:g} {drawn.height:g}", width=canvas.width, height=drawn.height,
        role=role, aria_labelledby=f"{key}-title {key}-desc", xmlns=xmlns,
    )  # fmt: skip


def x_axis(scale: Scale, ticks: Sequence[float], top: float, bottom: float, form: Callable[[float], str],
           title: str) -> Markup:  # fmt: skip
    """Vertical grid lines with labels below them, and the title below the labels."""
    parts = []
    for tick in ticks:
        parts += [line(scale(tick), top, scale(tick), bottom, "grid"),
                  text(scale(tick), bottom + 16, form(tick), "tick", "middle")]  # fmt: skip
    centre = (scale.start + scale.end) / 2
    return group(*parts, text(centre, bottom + 36, title, "axis", "middle"), class_="axes")


def y_axis(scale: Scale, ticks: Sequence[float], left: float, right: float, form: Callable[[float], str],
           title: str) -> Markup:  # fmt: skip
    """Horizontal grid lines with labels on the left, and the title above."""
    parts = []
    for tick in ticks:
        parts += [line(left, scale(tick), right, scale(tick), "grid"),
                  text(left - 6, scale(tick) + 4, form(tick), "tick", "end")]  # fmt: skip
    return group(*parts, text(0, scale.end - 14, title, "axis"), class_="axes")


@dataclass(frozen=True)
class Key:
    """One legend entry: a marker ('circle', …), 'swatch' or 'line', its CSS class, and its text."""

    kind: str
    class_: str
    words: str
    overlay: str = ""


def legend(entries: Sequence[Key], canvas: Canvas, top: float) -> tuple[Markup, float]:
    """Legend entries in rows that fit the canvas; returns them and the y below the last row."""
    parts, x, y = [], 0.0, top + 10
    for entry in entries:
        width = 26 + width_of(entry.words, canvas.font)
        if x and x + width > canvas.width:
            x, y = 0.0, y + 20
        if entry.kind == "swatch":
            parts.append(rect(x, y - 7, 14, 14, entry.class_, radius=2))
            if entry.overlay:
                parts.append(rect(x, y - 7, 14, 14, entry.overlay, radius=2))
        elif entry.kind == "line":
            parts.append(line(x, y, x + 14, y, entry.class_))
        else:
            parts.append(marker(x + 7, y, entry.kind, entry.class_))
        parts.append(text(x + 20, y + 4, entry.words, "tick"))
        x += width
    return group(join(*parts), class_="legend"), y + 18
