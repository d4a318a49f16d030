"""A rung's k-tiles in time: which are copied while which is multiplied, by the number of stages."""

from __future__ import annotations

from gemmsmith.report.charts.frame import Canvas, Chart, Drawing, Table, chart
from gemmsmith.report.charts.svg import SERIES, join, line, rect, text
from gemmsmith.report.drawings.shape import Shape, shape_of
from gemmsmith.report.report_model import COMPILER, Rung


def pipeline(rung: Rung, anchor: str) -> Chart | None:
    """None for a rung without k-tiles. The drawing is of the order, not of durations."""
    shape = shape_of(rung)
    if shape is None or not shape.bk:
        return None
    ahead = shape.stages - 1
    if ahead:
        title = f"{shape.stages} stages: {_count(ahead)} in flight while one is multiplied"
        caption = (f"K-tile i + {ahead} is copied into the stage that k-tile i − 1 has left, while k-tile i is "
                   "multiplied. One colour is one stage of shared memory. Drawn is the order, not the "
                   "duration.")  # fmt: skip
    else:
        title = "One stage: copy and multiply take turns"
        caption = ("The block copies a k-tile to shared memory, waits for it, multiplies it, and waits again before it "
                   "overwrites it. Drawn is the order, not the duration.")  # fmt: skip
    rows = tuple((str(at), _words(shape, at, "copied"), f"k-tile {at}") for at in range(4))
    table = Table(("step", "copied", "multiplied"), rows)
    return chart(f"{anchor}-pipeline", title, caption, table, lambda c: _draw(c, shape), [COMPILER], small=True)


def _count(ahead: int) -> str:
    return f"{ahead} k-tile{'s' * (ahead > 1)}"


def _words(shape: Shape, step: int, _what: str) -> str:
    if shape.stages == 1:
        return f"k-tile {step}, before"
    first = range(shape.stages - 1) if step == 0 else range(0)
    names = [*(f"{i}" for i in first), str(step + shape.stages - 1)]
    return f"k-tile{'s' * (len(names) > 1)} {', '.join(names)}"


def _draw(canvas: Canvas, shape: Shape) -> Drawing:
    left, top, high = 74.0, 8.0, 26.0
    steps = 5
    prologue = shape.stages - 1 if shape.stages > 1 else 0
    slots = steps * 2 if shape.stages == 1 else steps + 1  # the prologue takes one slot
    wide = (canvas.width - left - 6) / slots
    copy_y, multiply_y = top, top + 2 * high
    parts = [text(0, copy_y + 17, "copy", "name"), text(0, multiply_y + 17, "multiply", "name")]

    def box(x: float, y: float, width: float, tile: int, what: str) -> None:
        stage = tile % shape.stages
        class_ = f"s{stage % SERIES + 1}"
        parts.append(rect(x + 1, y, max(width - 2, 3.0), high, f"{class_} fill mark",
                          f"{what} k-tile {tile}, stage {stage}", 3))  # fmt: skip
        if width > 16:
            parts.append(text(x + width / 2, y + 17, str(tile), f"on-bar {class_}", "middle"))

    if shape.stages == 1:
        for at in range(steps):
            box(left + 2 * at * wide, copy_y, wide, at, "copy")
            box(left + (2 * at + 1) * wide, multiply_y, wide, at, "multiply")
            for edge in (2 * at + 1, 2 * at + 2):
                parts.append(line(left + edge * wide, top, left + edge * wide, multiply_y + high, "leader", "3 3"))
    else:
        for tile in range(prologue):
            box(left + tile * wide / prologue, copy_y, wide / prologue, tile, "copy")
        for at in range(steps):
            x = left + (at + 1) * wide
            box(x, copy_y, wide, at + prologue, "copy")
            box(x, multiply_y, wide, at, "multiply")
            parts.append(line(x, top, x, multiply_y + high, "leader", "3 3"))
    below = multiply_y + high + 20
    parts.append(text(left, below, "time →   a dashed line is a wait", "tick"))  # fmt: skip
    return Drawing(join(*parts), below + 10)
