"""What a block computes: its windows on A and B, its tile of C by warp, and the outputs of one warp by lane."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from gemmsmith.report.charts.cells import SHADES
from gemmsmith.report.charts.frame import Canvas, Chart, Drawing, Table, document
from gemmsmith.report.charts.svg import SERIES, el, join, line, rect, text, width_of
from gemmsmith.report.drawings.regions import pattern, regions
from gemmsmith.report.drawings.shape import Shape, shape_of
from gemmsmith.report.owners import Owners
from gemmsmith.report.report_model import COMPILER, SIMULATED, Rung

_MOST = 420  # rectangles of one panel; beyond that it shows a part of the tile
_WARP = 32
_SIDE = 250.0
_REACH = 96.0  # how much of A and B is drawn along k
_PANEL = Canvas(300, 11.5, narrow=True)  # one drawing for all widths: panels go below each other on a phone


def tiles(rung: Rung, anchor: str) -> Chart | None:
    """Up to three panels; None if the rung's tiles are not known."""
    shape = shape_of(rung)
    if shape is None:
        return None
    own = rung.owners
    warps = -(-own.threads // _WARP) if own else 0
    outputs = _outputs(own)
    words = [f"A block computes {shape.bm} × {shape.bn} outputs."]
    if shape.bk:
        words.append(f"It reads A and B in k-tiles {shape.bk} deep.")
    else:
        words.append("Each thread reads its row of A and its column of B itself.")
    if own:
        words.append(f"Its {own.threads} threads form {warps} warp{'s' * (warps != 1)}; one thread writes "
                     f"{outputs} output{'s' * (outputs != 1)} (outlined: thread {_first(own)}).")  # fmt: skip
    elif shape.consumers:
        words.append(_warpgroups(shape))
    rows = [("tile of C", f"{shape.bm} × {shape.bn}"), ("k-tile of A", f"{shape.bm} × {shape.bk}"),
            ("k-tile of B", f"{shape.bk} × {shape.bn}"), ("tile of a warp", f"{shape.wm} × {shape.wn}"),
            ("threads", str(own.threads if own else 0)), ("outputs per thread", str(outputs)),
            ("stages", str(shape.stages if shape.bk else 0))]  # fmt: skip
    table = Table(("what", "size"), tuple((name, size) for name, size in rows if size not in ("0", "0 × 0")
                                          and not (shape.bk == 0 and "k-tile" in name)))  # fmt: skip
    panels = [("its operands", _operands(shape))]
    if own is not None:
        panels += [("by warp", _warps(own)), ("by lane", _lanes(own))]
    elif shape.consumers:
        panels.append(("by warpgroup", _consumer_rows(shape)))
    drawn = (document(f"{anchor}-tiles-{at}", f"What a block computes: {name}", words[0], _PANEL, panel, "chart small")
             for at, (name, panel) in enumerate(panels))  # fmt: skip
    return Chart(f"{anchor}-tiles", "What a block computes", " ".join(words), Markup(""),
                 el("div", *drawn, class_="panels"), table, (SIMULATED if own else COMPILER,))  # fmt: skip


def _warpgroups(shape: Shape) -> str:
    if shape.consumers == 1:
        return f"One consumer warpgroup multiplies all {shape.bm} rows."
    return f"Its {shape.consumers} consumer warpgroups multiply {shape.bm // shape.consumers} rows each."


def _outputs(own: Owners | None) -> int:
    return int((own.thread == _first(own)).sum()) if own else 0


def _first(own: Owners) -> int:
    """The first thread that writes: those before it may only load."""
    return int(own.thread[own.thread >= 0].min())


def _operands(shape: Shape) -> Drawing:
    """B above, A to the left of C, as the product lines up; the block's windows to scale, the matrices beyond open."""
    unit = 118 / max(shape.bm, shape.bn)
    deep = min(max(shape.bk * unit, 7.0), _REACH) if shape.bk else 0.0
    wide, high = shape.bn * unit, shape.bm * unit
    left, top = 112.0, 130.0  # of C
    reach = _REACH
    parts = [
        rect(left - reach - 10, top, reach, high, "operand", "A: the rows that the block reads"),
        rect(left, top - reach - 10, wide, reach, "operand", "B: the columns that the block reads"),
        rect(left, top, wide, high, "s1 fill mark", f"C: the block's tile, {shape.bm} × {shape.bn}", 2),
        text(left + wide / 2, top + high / 2 - 3, "C", "on-bar s1", "middle"),
        text(left + wide / 2, top + high / 2 + 13, f"{shape.bm} × {shape.bn}", "on-bar s1", "middle"),
        text(left - reach - 10, top - 8, "A", "axis"), text(left + wide + 6, top - reach, "B", "axis"),
    ]  # fmt: skip
    if deep:
        for at in range(min(shape.stages, max(1, int(reach / (deep + 2))))):
            class_ = f"s{2 + at % (SERIES - 1)} fill mark"
            parts.append(rect(left - reach - 10 + at * (deep + 2), top, deep, high, class_,
                              f"k-tile {at} of A: {shape.bm} × {shape.bk}"))  # fmt: skip
            parts.append(rect(left, top - reach - 10 + at * (deep + 2), wide, deep, class_,
                              f"k-tile {at} of B: {shape.bk} × {shape.bn}"))  # fmt: skip
        parts.append(text(left - reach - 10, top + high + 16, f"k-tile: {shape.bk} of k →", "tick"))
    else:
        parts.append(text(left - reach - 10, top + high + 16, "k →", "tick"))
    if shape.stages > 1 and deep:
        parts.append(text(left - reach - 10, top + high + 32, f"{shape.stages} k-tiles in shared memory", "tick"))
    if shape.split > 1:
        parts.append(text(left - reach - 10, top + high + 48, f"K is divided among {shape.split} blocks", "tick"))
    elif shape.cluster_m * shape.cluster_n > 1:
        words = f"cluster of {shape.cluster_m} × {shape.cluster_n} blocks shares k-tiles"
        parts.append(text(left - reach - 10, top + high + 48, words, "tick"))
    return Drawing(join(*parts), top + high + 58)


def _warps(own: Owners) -> Drawing:
    """The tile by warp; the outputs of the first thread are outlined."""
    warp = np.where(own.thread >= 0, own.thread // _WARP, -1)
    found = regions(warp)
    shown = warp if len(found) <= _MOST else warp[:_WARP, : 2 * _WARP]
    title = "the tile of C, by warp" if shown is warp else f"its first {shown.shape[0]} × {shown.shape[1]}, by warp"
    unit = _SIDE / max(shown.shape)
    parts = [text(0, 12, title, "axis")]
    for one in regions(shown):
        parts.append(rect(one.col * unit, 24 + one.row * unit, one.cols * unit, one.rows * unit,
                          f"s{one.label % SERIES + 1} fill mark cut", f"warp {one.label}"))  # fmt: skip
        if one.cols * unit > 26 and one.rows * unit > 16:
            parts.append(text((one.col + one.cols / 2) * unit, 24 + (one.row + one.rows / 2) * unit + 4,
                              str(one.label), f"on-bar s{one.label % SERIES + 1}", "middle"))  # fmt: skip
    first = _first(own)
    mine = np.where(own.thread[: shown.shape[0], : shown.shape[1]] == first, 0, -1)
    for one in regions(mine)[:_MOST]:
        parts.append(rect(one.col * unit, 24 + one.row * unit, max(one.cols * unit, 2.5), max(one.rows * unit, 2.5),
                          "thread-zero", f"thread {first}"))  # fmt: skip
    return Drawing(join(*parts), 24 + shown.shape[0] * unit + 8)


def _lanes(own: Owners) -> Drawing:
    """The outputs of the first warp that writes, by lane: light is lane 0, dark is lane 31."""
    warp = _first(own) // _WARP
    lanes = np.where(own.thread // _WARP == warp, own.thread % _WARP, -1)
    rows, cols = np.flatnonzero((lanes >= 0).any(axis=1)), np.flatnonzero((lanes >= 0).any(axis=0))
    box = lanes[rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1]
    part = pattern(box)
    unit = min(_SIDE / max(part.shape), 22.0)
    whole = part.shape == box.shape
    title = f"warp {warp}: {part.shape[0]} × {part.shape[1]} outputs, by lane"
    parts = [text(0, 12, title, "axis")]
    for one in regions(part)[:_MOST]:
        step = one.label * (SHADES - 1) // (_WARP - 1)
        parts.append(rect(one.col * unit, 24 + one.row * unit, one.cols * unit, one.rows * unit, f"h{step} mark cut",
                          f"lane {one.label}: {one.rows} × {one.cols}"))  # fmt: skip
        if one.cols * unit > width_of(str(one.label), 10) + 3 and one.rows * unit > 11:
            ink = "cell-ink deep" if step > SHADES // 2 else "cell-ink"
            parts.append(text((one.col + one.cols / 2) * unit, 24 + (one.row + one.rows / 2) * unit + 4,
                              str(one.label), f"{ink} lane", "middle"))  # fmt: skip
    bottom = 24 + part.shape[0] * unit
    if part.shape[1] * unit < 40:  # one column: the labels go beside it
        parts += [text(part.shape[1] * unit + 8, 24 + unit, "lane 0", "tick"),
                  text(part.shape[1] * unit + 8, bottom, f"lane {int(part.max())}", "tick")]  # fmt: skip
    elif part.shape[0] * unit < 40:
        parts += [text(0, bottom + 16, "lane 0", "tick"),
                  text(part.shape[1] * unit, bottom + 16, f"lane {int(part.max())}", "tick", "end")]  # fmt: skip
        bottom += 18
    if not whole:
        parts.append(text(0, bottom + 18, f"of {box.shape[0]} × {box.shape[1]}: the pattern repeats", "tick"))
        bottom += 20
    return Drawing(join(*parts), bottom + 8)


def _consumer_rows(shape: Shape) -> Drawing:
    unit = _SIDE / max(shape.bm, shape.bn)
    high, parts = shape.bm * unit / shape.consumers, [text(0, 12, "the tile of C, by warpgroup", "axis")]
    for at in range(shape.consumers):
        parts += [
            rect(0, 24 + at * high, shape.bn * unit, high, f"s{at + 2} fill mark cut", f"consumer warpgroup {at}"),
            text(shape.bn * unit / 2, 24 + (at + 0.5) * high + 4, f"consumer {at}", f"on-bar s{at + 2}", "middle"),
        ]  # fmt: skip
    below = 24 + shape.bm * unit
    parts.append(line(0, below + 10, shape.bn * unit, below + 10, "tie"))
    parts.append(text(0, below + 28, "a producer warpgroup loads for all", "tick"))
    return Drawing(Markup(join(*parts)), below + 40)
