"""One step of the ladder: the counters that moved, and the speed before and after."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gemmsmith.explain.comparison_rows import Row, origin_of
from gemmsmith.report.arithmetic import panel_of
from gemmsmith.report.charts.bars import Bar, draw_bars
from gemmsmith.report.charts.frame import Chart, Table, chart
from gemmsmith.report.charts.moves import Move, draw_moves
from gemmsmith.report.charts.svg import colour
from gemmsmith.report.charts.words import compact, percent, size_of, tflops, times
from gemmsmith.report.figures.names import contender
from gemmsmith.report.report_model import ReportModel, Rung
from gemmsmith.report.speeds import Speed, Speeds, headline

_MOST = 8
_MOVED = 1.08  # a smaller change is not shown
# What the step did to the memory system first; sizes of tiles and shares of instructions follow from it.
_SECTIONS = ("coalescing", "shared memory", "instruction mix", "resources", "occupancy", "roofline")
_SMALLEST_SHARE = 0.01  # of the instructions


def counters_that_moved(rung: Rung, anchor: str) -> Chart | None:
    """The quantities whose ratio is largest, at most three of a section; None without a comparison."""
    moved = [row for row in rung.changes if row.section in _SECTIONS and abs(math.log(_ratio(row))) > math.log(_MOVED)]
    if not moved:
        return None
    chosen: list[Row] = []
    for row in sorted(moved, key=lambda r: -abs(math.log(_ratio(r)))):
        if sum(other.section == row.section for other in chosen) < 3 and len(chosen) < _MOST:
            chosen.append(row)
    chosen.sort(key=lambda r: (_SECTIONS.index(r.section), -abs(math.log(_ratio(r)))))
    moves = [Move(_label(r), _brief(r, r.left), _brief(r, r.right), _ratio(r), _words(r)) for r in chosen]
    table = Table(("quantity", rung.before, rung.name, "factor", "origin"),
                  tuple((m.label, m.before, m.now, m.words, origin_of(r))
                        for m, r in zip(moves, chosen, strict=True)))  # fmt: skip
    top = max(chosen, key=lambda r: abs(math.log(_ratio(r))))
    title = f"{_label(top)[:1].upper()}{_label(top)[1:]}: {_words(top)}"
    caption = (f"The quantities that changed most from {rung.before} to {rung.name}. A bar to the left is less than "
               "before, to the right more, on a logarithmic axis.")  # fmt: skip
    return chart(f"{anchor}-moves", title, caption, table, lambda c: draw_moves(c, moves),
                 [origin_of(r) for r in chosen])  # fmt: skip


def _ratio(row: Row) -> float:
    """Now over before; a count that appears or disappears has the ratio 1000 or 1/1000."""
    left, right = row.left, row.right
    if isinstance(left, str) or isinstance(right, str) or not (math.isfinite(left) and math.isfinite(right)):
        return 1.0
    if row.section == "instruction mix" and max(left, right) < _SMALLEST_SHARE:
        return 1.0
    if left > 0 and right > 0:
        return right / left
    return 1.0 if left == right else 1000.0 if right > left else 0.001


def _words(row: Row) -> str:
    ratio = _ratio(row)
    if ratio == 0.001:
        return "gone"
    if ratio == 1000.0:
        return "new"
    return times(ratio) if ratio >= 1 else f"÷{times(1 / ratio).removeprefix('×')}"


def _label(row: Row) -> str:
    """The quantity with what its section adds to its name."""
    if row.section == "instruction mix":
        return f"share of {row.name} instructions"
    if row.section == "shared memory" and "B" not in row.name and not row.name.startswith("wavefronts"):
        return f"shared {row.name}"
    return row.name


def _brief(row: Row, value: float | str) -> str:
    return compact(value) if not isinstance(value, str) and value >= 1e6 else row.shown(value)


def speed_step(model: ReportModel, speeds: Speeds, rung: Rung, before: Rung | None, anchor: str) -> Chart | None:
    """The rung, the one before and the baseline of its type, as bars; None unless two of them are comparable."""
    here = headline(rung, model, speeds)
    if here is None:
        return None
    there = headline(before, model, speeds) if before is not None else None
    bars, rows = [], []

    def add(label: str, speed: Speed, number: int, class_: str) -> None:
        share = f" · {percent(speed.of_baseline)}" if math.isfinite(speed.of_baseline) and number else ""
        bars.append(Bar(label, speed.tflops, tflops(speed.tflops) + share, number, low=speed.low, high=speed.high,
                        class_=class_))  # fmt: skip
        rows.append((label, tflops(speed.tflops), speed.origin, speed.gpu))

    if there is not None and before is not None and (there.origin, there.gpu) == (here.origin, here.gpu):
        add(before.name, there, before.number, "s7")
    add(rung.name, here, rung.number, colour(rung.number))
    for name, base in _libraries(model, speeds, rung, here):
        add(contender(name, base.precision), base, 0, "s0")
    if len(bars) < 2:
        return None
    size = size_of(model.problem.m, model.problem.n, model.problem.k)
    caption = f"TFLOPS at {size}, {here.origin} on {here.gpu}" + (
        f"; beside each bar, the share of {contender(model.baseline)} for the same input type." if any(
            math.isfinite(s) for s in (here.of_baseline,)) else ".")  # fmt: skip
    title = f"{tflops(here.tflops)} TFLOPS"
    if there is not None and before is not None and len(rows) > 1 and rows[0][0] == before.name:
        title += f", {times(here.tflops / there.tflops)} of {before.name}"
    return chart(f"{anchor}-speed", title, caption, Table(("kernel", "TFLOPS", "origin", "GPU"), tuple(rows)),
                 lambda c: draw_bars(c, bars, [], "TFLOPS"), [here.origin])  # fmt: skip


def _libraries(model: ReportModel, speeds: Speeds, rung: Rung, here: Speed) -> Sequence[tuple[str, Speed]]:
    """The baseline with the rung's input type, on the same GPU."""
    name = model.baseline if rung.dtype == model.problem.dtype.name else f"{model.baseline}:{rung.dtype}"
    found = speeds.at(name, model.problem)
    if found is None or (found.origin, found.gpu) != (here.origin, here.gpu):
        return ()
    if not panel_of(rung, model).has_baseline(found.precision):
        return ()
    return ((name, found),)
