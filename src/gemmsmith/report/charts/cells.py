"""A heat map with the value written in each cell: sweeps over two parameters, bytes used per sector."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gemmsmith.report.charts.frame import Canvas, Drawing
from gemmsmith.report.charts.svg import badge, group, join, rect, series, text, width_of

SHADES = 9


@dataclass(frozen=True)
class Cell:
    """One cell; NaN is drawn hatched."""

    value: float
    words: str
    title: str = ""
    best: bool = False


def draw_cells(canvas: Canvas, columns: Sequence[str], rows: Sequence[tuple[str, int, Sequence[Cell]]], low: float,
               high: float, corner: str = "", column_title: str = "") -> Drawing:  # fmt: skip
    """``rows`` are (label, rung number or 0, cells); shades run from ``low`` to ``high``."""
    badges = any(rung for _, rung, _ in rows)
    left = max(width_of(label, canvas.font) for label, _, _ in rows) + (40 if badges else 14)
    left = min(max(left, width_of(corner, canvas.font) + 10), canvas.width * 0.45)
    wide = min((canvas.width - left) / len(columns), 132.0)
    high_cell = 32.0
    top = 44.0 if column_title else 26.0
    parts = [text(0, top - 9, corner, "axis")]
    if column_title:
        parts.append(text(left, 14, column_title, "axis"))
    parts += [text(left + wide * (i + 0.5), top - 9, name, "tick", "middle") for i, name in enumerate(columns)]
    for r, (label, rung, cells) in enumerate(rows):
        y, one = top + r * high_cell, []
        if rung:
            one.append(badge(11, y + high_cell / 2, rung, 10))
        one.append(text(28 if rung else 0, y + high_cell / 2 + 4.5, label, "name"))
        for c, cell in enumerate(cells):
            x = left + wide * c
            missing = not math.isfinite(cell.value)
            step = 0 if missing else shade(cell.value, low, high)
            one.append(rect(x + 1, y + 1, wide - 2, high_cell - 2, "cell none" if missing else f"cell h{step} mark",
                              cell.title, 3, None if missing else cell.value))  # fmt: skip
            if missing:
                one.append(rect(x + 1, y + 1, wide - 2, high_cell - 2, "hatch-ink", radius=3))
            if cell.best:
                one.append(rect(x + 2.5, y + 2.5, wide - 5, high_cell - 5, "best", radius=2))
            ink = "cell-none" if missing else f"cell-ink{' deep' if step > SHADES // 2 else ''}"
            one.append(text(x + wide / 2, y + high_cell / 2 + 4.5, cell.words, ink, "middle"))
        parts.append(series(label, *one) if rung else join(*one))
    return Drawing(group(join(*parts)), top + len(rows) * high_cell + 8)


def shade(value: float, low: float, high: float) -> int:
    """The shade, 0 to 8, of ``value`` between ``low`` and ``high``; if less is better, ``high`` is the smaller."""
    if high == low:
        return SHADES - 1
    share = (value - low) / (high - low)
    return min(SHADES - 1, max(0, math.floor(share * SHADES)))
