"""A sweep as a chart: a heat map for two parameters, bars otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gemmsmith.report.charts.bars import Bar, draw_bars
from gemmsmith.report.charts.cells import Cell, draw_cells
from gemmsmith.report.charts.frame import Canvas, Chart, Drawing, Table, chart
from gemmsmith.report.charts.words import ABSENT, short
from gemmsmith.report.figures.sweep_words import fixed_words, title_in_words
from gemmsmith.report.report_model import Sweep, SweepPoint


def sweep_chart(sweep: Sweep, key: str) -> Chart | None:
    """None if every point was illegal or failed."""
    good = [p for p in sweep.points if math.isfinite(p.value)]
    if not good:
        return None
    pick = max if sweep.more_is_better else min
    best = pick(good, key=lambda p: p.value)
    illegal = len(sweep.points) - len(good)
    varied = " and ".join(sweep.parameters)
    caption = f"{sweep.quantity} by {varied}. Best: {_label(sweep, best)}, {short(best.value)}.{fixed_words(sweep)}"
    if illegal:
        caption += f" {illegal} of {len(sweep.points)} points could not run; the data table says why."
    made_by = " on ".join(words for words in (sweep.command, sweep.where) if words)
    table = Table((*sweep.parameters, sweep.quantity, "note"), tuple(
        (*p.values, short(p.value, 4) if math.isfinite(p.value) else ABSENT, p.illegal or p.note)
        for p in sweep.points))  # fmt: skip
    grid = _grid(sweep)
    if grid is not None:
        rows, columns = grid
        low, high = min(p.value for p in good), max(p.value for p in good)
        shades = (low, high) if sweep.more_is_better else (high, low)

        def draw(c: Canvas) -> Drawing:
            cells = [(v, 0, [_cell(sweep, v, w, best) for w in columns]) for v in rows]
            return draw_cells(c, columns, cells, *shades, sweep.parameters[0], sweep.parameters[1])

    else:
        bars = [
            Bar(_label(sweep, p), p.value, _words(p, p is best), low=p.low, high=p.high)
            for p in sweep.points
        ]  # fmt: skip

        def draw(c: Canvas) -> Drawing:
            return draw_bars(c, bars, [], sweep.quantity)

    return chart(key, title_in_words(sweep), caption, table, draw, [sweep.origin], made_by)


def _words(point: SweepPoint, best: bool) -> str:
    if not math.isfinite(point.value):
        return "illegal" if point.illegal else "failed"
    return short(point.value) + (" ★ best" if best else "")


def _label(sweep: Sweep, point: SweepPoint) -> str:
    return ", ".join(f"{name}={value}" for name, value in zip(sweep.parameters, point.values, strict=True))


def _grid(sweep: Sweep) -> tuple[Sequence[str], Sequence[str]] | None:
    """Rows and columns of a two-parameter sweep, if there are enough of both for a grid."""
    if len(sweep.parameters) != 2:
        return None
    rows = list(dict.fromkeys(p.values[0] for p in sweep.points))
    columns = list(dict.fromkeys(p.values[1] for p in sweep.points))
    return (rows, columns) if len(rows) > 1 and 1 < len(columns) <= 8 else None


def _cell(sweep: Sweep, row: str, column: str, best: SweepPoint) -> Cell:
    point = next((p for p in sweep.points if p.values == (row, column)), None)
    if point is None:
        return Cell(math.nan, ABSENT, "not run")
    if not math.isfinite(point.value):
        return Cell(math.nan, "illegal" if point.illegal else "failed", point.illegal or point.note)
    words = short(point.value) + (" ★" if point is best else "")
    return Cell(point.value, words, f"{_label(sweep, point)}: {short(point.value, 4)}", point is best)
