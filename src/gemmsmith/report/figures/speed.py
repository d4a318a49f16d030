"""How fast: speed over size, and what others published."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gemmsmith.report.arithmetic import Panel, panel_of, panels_of, units_of
from gemmsmith.report.charts.frame import Chart, Table, chart
from gemmsmith.report.charts.lines import Line, draw_lines, finite_points
from gemmsmith.report.charts.rows import Kind, Row, draw_dots
from gemmsmith.report.charts.words import percent, short, tflops
from gemmsmith.report.figures.names import contender
from gemmsmith.report.report_model import PUBLISHED, Published, Rung, Story
from gemmsmith.report.speeds import Speed, Speeds


def over_sizes(story: Story, speeds: Speeds) -> tuple[Chart, ...]:
    """A chart a kind of units: a curve a rung, and one a baseline of that arithmetic."""
    made = (_over_size(story, speeds, panel, panel.rungs, panel.key("sizes"), ()) for panel in panels_of(story))
    return tuple(chart for chart in made if chart is not None)


def rung_over_size(story: Story, speeds: Speeds, rung: Rung, before: Rung | None, key: str) -> Chart | None:
    """One rung's curve and that of the rung it is compared with; the others of its kind are quiet context."""
    panel = panel_of(rung, story)
    shown = panel.rungs if before is None or before in panel.rungs else (before, *panel.rungs)
    only = (rung.name, before.name) if before is not None else (rung.name,)
    return _over_size(story, speeds, panel, shown, key, only)


def _over_size(story: Story, speeds: Speeds, panel: Panel, rungs: Sequence[Rung], key: str,
               only: tuple[str, ...]) -> Chart | None:  # fmt: skip
    curves, rows, origins = [], [], []
    squares: dict[str, list[Speed]] = {}
    by_name = {rung.name: rung for rung in rungs}
    for name in (*by_name, *speeds.baselines):
        mine = [s for s in speeds.of(name) if s.problem.m == s.problem.n == s.problem.k]
        points = finite_points([(s.problem.m, s.tflops, s.words) for s in mine])
        rung = by_name.get(name)
        if not points or (rung is None and not panel.has_baseline(mine[0].precision)):
            continue
        squares[name] = mine
        number = rung.number if rung is not None else 0
        label = contender(name, mine[0].precision) if rung is None else _label(rung, panel)
        quiet = bool(only) and rung is not None and name not in only
        curves.append(Line(label, points, number, quiet, str(number or label)))
        origins += [s.origin for s in mine]
        rows += [(label, str(s.problem.m), tflops(s.tflops), percent(s.of_baseline), percent(s.spread), s.origin, s.gpu)
                 for s in mine if not only or name in only or rung is None]  # fmt: skip
    sizes = {s.problem.m for mine in squares.values() for s in mine}
    if len(sizes) < 2 or (only and only[0] not in squares):
        return None
    table = Table(("kernel", "M = N = K", "TFLOPS", f"of {contender(story.baseline)}", "spread", "origin", "GPU"),
                  tuple(rows))  # fmt: skip
    caption = (f"Speed{panel.on_units} over matrix size, {min(sizes)} to {max(sizes)}, both axes logarithmic. A curve "
               "that is still rising at the right would gain from larger matrices; small ones cannot fill the "
               f"GPU. Shares of {contender(story.baseline)} are of its speed with the same inputs.")  # fmt: skip
    title = f"{only[0]} over size" if only else panel.title("TFLOPS over size")
    return chart(key, title, caption, table, lambda c: draw_lines(c, curves, "M = N = K", "TFLOPS"), origins)


def _label(rung: Rung, panel: Panel) -> str:
    return rung.name if units_of(rung) == panel.units else f"{rung.name} ({units_of(rung)})"


def published(story: Story, speeds: Speeds) -> Chart | None:
    """Each author's share of their own baseline, a row a rung, with ours where it was timed."""
    usable = [p for p in story.published if math.isfinite(p.pct_of_baseline) and p.kernel != "baseline"]
    order = {rung.name: rung.number for rung in story.rungs}
    best: dict[tuple[str, str], Published] = {}
    for p in usable:
        # An author's figures at several sizes and configurations: the one at their largest share stands in the chart.
        old = best.get((p.kernel, p.source))
        if p.kernel in order and (old is None or p.pct_of_baseline > old.pct_of_baseline):
            best[p.kernel, p.source] = p
    if not best:
        return None
    sources = list(dict.fromkeys(p.source for p in best.values()))
    shapes = ("square", "triangle", "diamond", "circle")
    kinds = [Kind(f"{s} ({next(p.gpu for p in usable if p.source == s)})", f"s{2 + i}", shapes[i % 4])
             for i, s in enumerate(sources)]  # fmt: skip
    ours = {name: headline_of(name, story, speeds) for name in order}
    has_ours = any(math.isfinite(v) for v in ours.values())
    if has_ours:
        kinds.append(Kind(f"ours, {contender(story.baseline)}", "s1", "circle"))
    rows = []
    for name, rank in order.items():
        values = [best[name, s].pct_of_baseline if (name, s) in best else math.nan for s in sources]
        values += [ours[name] * 100] if has_ours else []
        if any(map(math.isfinite, values)):
            titles = tuple(f"{name}, {k.words}: {v:.1f} %" for k, v in zip(kinds, values, strict=True))
            rows.append(Row(name, tuple(values), rank, titles=titles))
    table = Table(
        ("document", "GPU", "size", "kernel", "configuration", "ms", "GFLOPS", "of baseline", "baseline"),
        tuple((p.source, p.gpu, str(p.size), p.kernel, p.config, short(p.ms, 4), short(p.gflops, 5),
               percent(p.pct_of_baseline / 100), p.baseline) for p in story.published),
    )  # fmt: skip
    caption = ("Each author's kernels as a share of that author's own baseline, on that author's GPU. Baselines "
               "differ, so compare the shape of the climb, not one dot with another.")  # fmt: skip
    return chart("published", "The same rungs, as others published them", caption, table,
                 lambda c: draw_dots(c, kinds, rows, "% of the baseline", log=False, reference=("100 %", 100)),
                 [PUBLISHED, *({s.origin for s in speeds.known if s.name in order} if has_ours else ())],
                 _tf32_note(story))  # fmt: skip


def headline_of(name: str, story: Story, speeds: Speeds) -> float:
    at = speeds.at(name, story.problem)
    return at.of_baseline if at is not None else math.nan


def _tf32_note(story: Story) -> str:
    mixed = sorted({p.source for p in story.published if "TF32" in p.baseline})
    return (
        f"The baseline of {' and '.join(mixed)} ran in TF32: other arithmetic than its fp32 kernels." if mixed else ""
    )
