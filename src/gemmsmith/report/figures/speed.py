"""Speed over size, and published results."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gemmsmith.report.arithmetic import Panel, panel_of, panels_of, units_of
from gemmsmith.report.charts.frame import Chart, Table, chart
from gemmsmith.report.charts.lines import Line, draw_lines, finite_points
from gemmsmith.report.charts.rows import Kind, Row, draw_dots
from gemmsmith.report.charts.words import percent, short, tflops
from gemmsmith.report.figures.names import contender
from gemmsmith.report.report_model import PUBLISHED, Published, ReportModel, Rung
from gemmsmith.report.speeds import Speed, Speeds


def over_sizes(model: ReportModel, speeds: Speeds) -> tuple[Chart, ...]:
    """One chart per panel, with a curve per rung and per baseline of its arithmetic."""
    made = (_over_size(model, speeds, panel, panel.rungs, panel.key("sizes"), "") for panel in panels_of(model))
    return tuple(chart for chart in made if chart is not None)


def rung_over_size(model: ReportModel, speeds: Speeds, rung: Rung, before: Rung | None, key: str) -> Chart | None:
    """One rung, the rung it is compared with, and the first and the fastest of its panel. The overview shows all."""
    panel = panel_of(rung, model)
    timed = [(s.tflops, r) for r in panel.rungs if (s := speeds.at(r.name, model.problem)) is not None]
    ends = [timed[0][1], max(timed, key=lambda item: item[0])[1]] if timed else []
    shown = [r for r in model.rungs if r is rung or r is before or r in ends]
    return _over_size(model, speeds, panel, shown, key, rung.name)


def _over_size(model: ReportModel, speeds: Speeds, panel: Panel, rungs: Sequence[Rung], key: str,
               only: str) -> Chart | None:  # fmt: skip
    """``only`` is the rung that the chart is about; '' for all of them."""
    curves, rows, origins = [], [], []
    squares: dict[str, list[Speed]] = {}
    by_name = {rung.name: rung for rung in rungs}
    for name in (*by_name, *speeds.baselines):
        mine = [s for s in speeds.of(name) if s.problem.m == s.problem.n == s.problem.k]
        points = finite_points([(s.problem.m, s.tflops, s.words) for s in mine])
        rung = by_name.get(name)
        if not points or (rung is None and not panel.has_baseline(mine[0].precision)):
            continue
        if only and rung is None and name.partition(":")[0] != model.baseline:
            continue
        squares[name] = mine
        number = rung.number if rung is not None else 0
        label = contender(name, mine[0].precision) if rung is None else _label(rung, panel)
        curves.append(Line(label, points, number, str(number or label), name == only))
        origins += [s.origin for s in mine]
        rows += [(label, str(s.problem.m), tflops(s.tflops), percent(s.of_baseline), percent(s.spread), s.origin, s.gpu)
                 for s in mine]  # fmt: skip
    sizes = {s.problem.m for mine in squares.values() for s in mine}
    if len(sizes) < 2 or (only and only not in squares):
        return None
    table = Table(("kernel", "M = N = K", "TFLOPS", f"of {contender(model.baseline)}", "spread", "origin", "GPU"),
                  tuple(rows))  # fmt: skip
    caption = (f"Speed{panel.on_units} over matrix size, {min(sizes)} to {max(sizes)}, on logarithmic axes. Small "
               "matrices do not fill the GPU; a curve that still rises at the right end gains from larger ones. Shares "
               f"of {contender(model.baseline)} are for the same input type.")  # fmt: skip
    title = f"{only} over size" if only else panel.title("TFLOPS over size")
    return chart(key, title, caption, table, lambda c: draw_lines(c, curves, "M = N = K", "TFLOPS"), origins)


def _label(rung: Rung, panel: Panel) -> str:
    return rung.name if units_of(rung) == panel.units else f"{rung.name} ({units_of(rung)})"


def published(model: ReportModel, speeds: Speeds) -> Chart | None:
    """Each author's share of their own baseline, one row per rung, with ours if it was timed."""
    usable = [p for p in model.published if math.isfinite(p.pct_of_baseline) and p.kernel != "baseline"]
    order = {rung.name: rung.number for rung in model.rungs}
    best: dict[tuple[str, str], Published] = {}
    for p in usable:
        # Of an author's figures at several sizes and configurations, the chart shows the largest share.
        old = best.get((p.kernel, p.source))
        if p.kernel in order and (old is None or p.pct_of_baseline > old.pct_of_baseline):
            best[p.kernel, p.source] = p
    if not best:
        return None
    sources = list(dict.fromkeys(p.source for p in best.values()))
    shapes = ("square", "triangle", "diamond", "circle")
    kinds = [Kind(f"{s} ({next(p.gpu for p in usable if p.source == s)})", f"s{2 + i}", shapes[i % 4])
             for i, s in enumerate(sources)]  # fmt: skip
    ours = {name: headline_of(name, model, speeds) for name in order}
    has_ours = any(math.isfinite(v) for v in ours.values())
    if has_ours:
        kinds.append(Kind(f"ours, {contender(model.baseline)}", "s1", "circle"))
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
               percent(p.pct_of_baseline / 100), p.baseline) for p in model.published),
    )  # fmt: skip
    caption = ("Each author's kernels as a share of that author's own baseline, on that author's GPU. Baselines "
               "differ, so compare the trend, not single dots.")  # fmt: skip
    return chart("published", "The same steps, as published by others", caption, table,
                 lambda c: draw_dots(c, kinds, rows, "% of the baseline", log=False, reference=("100 %", 100)),
                 [PUBLISHED, *({s.origin for s in speeds.known if s.name in order} if has_ours else ())],
                 _tf32_note(model))  # fmt: skip


def headline_of(name: str, model: ReportModel, speeds: Speeds) -> float:
    at = speeds.at(name, model.problem)
    return at.of_baseline if at is not None else math.nan


def _tf32_note(model: ReportModel) -> str:
    mixed = sorted({p.source for p in model.published if "TF32" in p.baseline})
    return f"The baseline of {' and '.join(mixed)} ran in TF32, not in the fp32 of its kernels." if mixed else ""
