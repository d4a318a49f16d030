"""Blocks that work together: a cluster that shares k-tiles, or blocks that divide K among them."""

from __future__ import annotations

from markupsafe import Markup

from gemmsmith.report.charts.frame import Canvas, Chart, Drawing, Table, chart
from gemmsmith.report.charts.svg import SERIES, join, line, rect, text
from gemmsmith.report.drawings.shape import Shape, shape_of
from gemmsmith.report.report_model import COMPILER, Rung

_SIDE = 62.0


def together(rung: Rung, anchor: str) -> Chart | None:
    """None for a rung whose blocks work alone."""
    shape = shape_of(rung)
    if shape is None:
        return None
    if shape.split > 1:
        return _split(shape, anchor)
    return _cluster(shape, anchor) if shape.cluster_m * shape.cluster_n > 1 else None


def _split(shape: Shape, anchor: str) -> Chart:
    """K in as many parts as blocks; their sums meet in one tile."""
    parts = shape.split
    caption = (f"{parts} blocks compute one tile of {shape.bm} × {shape.bn}, each over its part of K. Each sends its "
               f"partial sums to the blocks that store them: {shape.bm // parts} rows each.")  # fmt: skip
    table = Table(("block", "part of K", "rows that it stores"), tuple(
        (str(n), f"{n}/{parts} to {n + 1}/{parts}", f"{n * shape.bm // parts} to {(n + 1) * shape.bm // parts - 1}")
        for n in range(parts)))  # fmt: skip
    return chart(f"{anchor}-together", f"{parts} blocks share a tile: K is divided", caption, table,
                 lambda c: _draw_split(c, parts), [COMPILER], small=True)  # fmt: skip


def _draw_split(canvas: Canvas, parts: int) -> Drawing:
    high, left, gap = 26.0, 64.0, 84.0
    bar, tile = canvas.width - left - gap - _SIDE - 6, parts * high - 4
    made = [text(left, 12, "its part of K", "axis"), text(canvas.width - _SIDE, 12, "tile of C", "axis")]
    for n in range(parts):
        y, class_ = 22 + n * high, f"s{n % SERIES + 1}"
        made += [
            text(0, y + 15, f"block {n}", "name"),
            rect(left, y + 6, bar, 8, "sector"),
            rect(left + n * bar / parts, y, bar / parts, high - 4, f"{class_} fill mark",
                 f"block {n}: part {n + 1} of {parts} of K", 3),
            line(left + bar + 6, y + 11, canvas.width - _SIDE - 6, 22 + tile / 2, "leader"),
            rect(canvas.width - _SIDE, 22 + n * tile / parts, _SIDE, tile / parts, f"{class_} fill mark cut",
                 f"block {n} adds and stores these rows"),
        ]  # fmt: skip
    made.append(text(left + bar + gap / 2, 22 + tile + 16, "partial sums, added in order", "tick", "middle"))
    return Drawing(join(*made), 22 + tile + 26)


def _cluster(shape: Shape, anchor: str) -> Chart:
    down, along = shape.cluster_m, shape.cluster_n
    shares = []
    if along > 1:
        shares.append(f"the {along} blocks of a row need the same rows of A: each loads 1/{along} of them for all")
    if down > 1:
        shares.append(f"the {down} blocks of a column need the same columns of B: each loads 1/{down} of them for all")
    caption = f"A cluster of {down} × {along} blocks on neighbouring SMs. In a k-tile, {'; '.join(shares)} (multicast)."
    table = Table(("block", "loads of A", "loads of B"), tuple(
        (f"{m}, {n}", _part(n, along, "its rows"), _part(m, down, "its columns"))
        for m in range(down) for n in range(along)))  # fmt: skip
    return chart(f"{anchor}-together", f"{down * along} blocks load each k-tile once", caption, table,
                 lambda c: _draw_cluster(c, down, along), [COMPILER], small=True)  # fmt: skip


def _part(at: int, of: int, what: str) -> str:
    return what if of == 1 else f"part {at + 1} of {of} of {what}, for {of} blocks"


def _draw_cluster(canvas: Canvas, down: int, along: int) -> Drawing:
    """C's tiles with A to the left and B above, each cut into what one block loads."""
    side = min(_SIDE, (canvas.width - 110) / along)
    left, top, depth = 96.0, 74.0, 40.0
    made: list[Markup] = [
        text(left - depth - 14, top - 8, "A", "axis"),
        text(left - 14, top - depth - 4, "B", "axis", "end"),
    ]
    for m in range(down):
        for n in range(along):
            number = m * along + n
            class_, x, y = f"s{number % SERIES + 1}", left + n * side, top + m * side
            made += [
                rect(x, y, side, side, f"{class_} fill mark cut", f"block {m}, {n}: its tile of C"),
                text(x + side / 2, y + side / 2 + 4, f"{m}, {n}", f"on-bar {class_}", "middle"),
                rect(left - depth - 14, y + n * side / along, depth, side / along, f"{class_} fill mark cut",
                     f"block {m}, {n} loads this part of A"),
                rect(x + m * side / down, top - depth - 14, side / down, depth, f"{class_} fill mark cut",
                     f"block {m}, {n} loads this part of B"),
            ]  # fmt: skip
    below = top + down * side + 18
    made.append(text(left - depth - 14, below, "the colour is the block that loads", "tick"))
    return Drawing(join(*made), below + 8)
