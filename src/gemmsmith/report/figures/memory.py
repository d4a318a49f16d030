"""Memory traffic, bank conflicts, sector utilization, and the instruction mix."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gemmsmith.explain.bottleneck import OPS, conflicts_of
from gemmsmith.explain.profile import CONFLICTS, Profile
from gemmsmith.report.arithmetic import Panel, panels_of
from gemmsmith.report.charts.cells import Cell, draw_cells
from gemmsmith.report.charts.frame import Chart, Table, chart
from gemmsmith.report.charts.rows import Kind, Row, draw_dots, draw_stacked
from gemmsmith.report.charts.words import ABSENT, compact, percent, short, size_of, times
from gemmsmith.report.report_model import PREDICTED, ReportModel, Rung

_TENSOR = ("tensor",)
# Instruction classes as the chart merges them; the table lists them separately.
MIX: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    (Kind("multiply-add", "s1"), ("multiply-add",)),
    (Kind("tensor-core multiply-add", "s6", overlay="hatch-back"), _TENSOR),
    (Kind("shared memory", "s2", overlay="hatch"), ("shared load", "shared store")),
    (Kind("global memory", "s3", overlay="dots"),
     ("global load", "global store", "asynchronous copy", "local load", "local store")),
    (Kind("integer and moves", "s7"), ("integer and moves",)),
    (Kind("other fp32, conversions", "s4", overlay="hatch-back"), ("other fp32", "convert")),
    (Kind("control", "s5", overlay="dots"), ("branch", "compare", "barrier")),
)  # fmt: skip


def traffic(model: ReportModel, links: Mapping[str, str]) -> Chart | None:
    """Bytes moved per multiply-add, from global and from shared memory."""
    have = _profiled(model)
    if not have:
        return None
    kinds = [Kind("global memory: sectors × 32 B", "s1", "circle"),
             Kind("shared memory: wavefronts × 128 B", "s2", "square")]  # fmt: skip
    rows, table = [], []
    for rung, p in have:
        work = p.problem.m * p.problem.n * p.problem.k
        by_space = {t.space: t.moved for t in p.traffic}
        far = math.fsum(v for s, v in by_space.items() if s.startswith(("global", "local")) and math.isfinite(v))
        near = math.fsum(
            v for s, v in by_space.items() if s.startswith(("shared", "asynchronous")) and math.isfinite(v)
        )
        titles = tuple(f"{rung.name}: {short(v / work)} B per multiply-add, {words}"
                       for v, words in ((far, "global"), (near, "shared")))  # fmt: skip
        rows.append(Row(rung.name, (far / work, near / work if near else math.nan), rung.number, _href(rung, links),
                        titles=titles))  # fmt: skip
        table += [(rung.name, t.space, compact(t.requested), compact(t.moved), short(t.moved / work), p.origin)
                  for t in p.traffic if t.moved or t.requested]  # fmt: skip
    caption = (f"Bytes moved per multiply-add ({_where(have)}), on a logarithmic scale. Tiling moves the dots to the "
               "left: shared-memory tiles cut global traffic, register tiles cut shared-memory traffic."
               f"{_halves(have)}")  # fmt: skip
    columns = ("kernel", "memory", "bytes requested", "bytes moved", "B per multiply-add", "origin")
    same_type = [row for row, (rung, _) in zip(rows, have, strict=True) if rung.dtype == have[0][0].dtype]
    return chart("traffic", _traffic_title(same_type), caption, Table(columns, tuple(table)),
                 lambda c: draw_dots(c, kinds, rows, "bytes moved per multiply-add", labels=True),
                 _origins(have))  # fmt: skip


def _traffic_title(rows: Sequence[Row]) -> str:
    first, least = rows[0], min(rows, key=lambda row: row.values[0])
    if first is least:
        return "Memory traffic"
    fewer = times(first.values[0] / least.values[0]).removeprefix("×")
    return f"{least.label} moves {fewer} times less global memory than {first.label}"


def _halves(have: Profiled) -> str:
    narrow = [rung.name for rung, p in have if p.problem.dtype.itemsize < have[0][1].problem.dtype.itemsize]
    return f" The 16-bit inputs of {', '.join(narrow)} take half the bytes." if narrow else ""


def bank_conflicts(model: ReportModel, links: Mapping[str, str]) -> tuple[Chart, ...]:
    """One chart per panel: on a shared scale the bars of tensor-core rungs would be too short to read."""
    made = (_bank_conflicts(model, panel, links) for panel in panels_of(model))
    return tuple(chart for chart in made if chart is not None)


def _bank_conflicts(model: ReportModel, panel: Panel, links: Mapping[str, str]) -> Chart | None:
    """Shared-memory wavefronts per warp-wide multiply-add: those needed, and those added by bank conflicts."""
    have = [(rung, p) for rung, p in _profiled(model)
            if rung in panel.rungs and sum(_finite(p.wavefronts(op)) for op in OPS) > 0]  # fmt: skip
    if not have:
        return None
    kinds = [Kind("needed", "s1"), Kind("bank conflicts", "s2", overlay="hatch")]
    rows, table = [], []
    for rung, p in have:
        each = p.problem.m * p.problem.n * p.problem.k / 32
        total = sum(_finite(p.wavefronts(op)) for op in OPS)
        lost = _finite(conflicts_of(p))
        words = f"{short(total / each)}, " + (f"{percent(lost / total)} conflicts" if lost else "no conflicts")
        titles = (f"{rung.name}: {compact(total - lost)} wavefronts needed",
                  f"{rung.name}: {compact(lost)} wavefronts of conflicts")  # fmt: skip
        rows.append(
            Row(rung.name, ((total - lost) / each, lost / each), rung.number, _href(rung, links), words, titles)
        )
        table.append((rung.name, *(f"{_finite(p.wavefronts(op)):,.0f}" for op in OPS),
                      *(f"{_finite(p.value(name)):,.0f}" for name in CONFLICTS.values()), percent(lost / total),
                      p.origin))  # fmt: skip
    columns = ("kernel", "load wavefronts", "store wavefronts", "cp.async wavefronts", "ldmatrix wavefronts",
               "load and ldmatrix conflicts", "store conflicts", "cp.async conflicts", "share", "origin")  # fmt: skip
    caption = (f"Shared-memory wavefronts per 32 multiply-adds{panel.on_units} ({_where(have)}). One wavefront serves "
               "each of 32 banks once; lanes that need different words of one bank take more. Shorter is better; "
               "hatched is wasted.")  # fmt: skip
    title = panel.title("shared memory and bank conflicts" if not panel.alone else "Shared memory and bank conflicts")
    return chart(panel.key("conflicts"), title, caption, Table(columns, tuple(table)),
                 lambda c: draw_stacked(c, kinds, rows, "wavefronts per 32 multiply-adds"),
                 _origins(have))  # fmt: skip


def sectors(model: ReportModel) -> Chart | None:
    """Bytes used per 32-byte sector: how well a warp's accesses coalesce."""
    have = _profiled(model)
    if not have:
        return None
    rows = []
    for rung, p in have:
        cells = [Cell(v, f"{v:.1f} of 32" if math.isfinite(v) else ABSENT, f"{rung.name}, {word}: {v:.1f} of 32 bytes")
                 for v, word in zip(p.bytes_per_sector, ("loads", "stores"), strict=True)]  # fmt: skip
        rows.append((rung.name, rung.number, cells))
    table = Table(("kernel", "loads: bytes used of 32", "stores: bytes used of 32", "origin"), tuple(
        (rung.name, *(f"{v:.1f}" if math.isfinite(v) else ABSENT for v in p.bytes_per_sector), p.origin)
        for rung, p in have))  # fmt: skip
    caption = f"Bytes used of the 32 in each sector that global requests touch ({_where(have)}). 32 is ideal."
    return chart("sectors", "Coalescing", caption, table,
                 lambda c: draw_cells(c, ("loads", "stores"), rows, 0, 32), _origins(have))  # fmt: skip


def instruction_mix(model: ReportModel, links: Mapping[str, str]) -> Chart | None:
    """Shares of the SASS instructions, estimated from simulated counts and the main loop's machine code."""
    have = [(rung, p) for rung, p in _profiled(model) if p.machine_mix]
    if not have:
        return None
    rows, names = [], list(dict.fromkeys(name for _, p in have for name, _ in p.machine_mix))
    kinds = [(kind, classes) for kind, classes in MIX if classes != _TENSOR or "tensor" in names]
    for rung, p in have:
        mix = dict(p.machine_mix)
        values = tuple(float(sum(mix.get(name, 0) for name in classes)) for _, classes in kinds)
        whole = sum(mix.values())
        titles = tuple(f"{rung.name}: {k.words}, {percent(v / whole)}"
                       for (k, _), v in zip(kinds, values, strict=True))  # fmt: skip
        rows.append(Row(rung.name, values, rung.number, _href(rung, links), titles=titles))
    table = Table(("kernel", *names), tuple(
        (rung.name, *(percent(dict(p.machine_mix).get(n, 0) / sum(dict(p.machine_mix).values())) for n in names))
        for rung, p in have))  # fmt: skip
    caption = (f"Share of the issue slots by instruction class ({_where(have)}). Only multiply-adds are useful work; "
               "later rungs execute more of them per load, comparison and address calculation."
               + (" One tensor-core instruction does the work of dozens of scalar ones." if "tensor" in names
                  else ""))  # fmt: skip
    # A tensor-core instruction does the work of many scalar ones, so the title compares only within one panel.
    first = panels_of(model)[0]
    shares = [row.values[0] / sum(row.values) for row, (rung, _) in zip(rows, have, strict=True)
              if rung in first.rungs]  # fmt: skip
    title = "Instruction mix"
    if shares and max(shares) > shares[0]:
        grow = f"from {percent(shares[0])} to {percent(max(shares))}"
        title = f"Multiply-adds grow {grow} of the instructions{first.on_units}"
    return chart("mix", title, caption, table,
                 lambda c: draw_stacked(c, [k for k, _ in kinds], rows, "share of warp instructions", share=True),
                 [PREDICTED])  # fmt: skip


Profiled = Sequence[tuple[Rung, Profile]]


def _profiled(model: ReportModel) -> Profiled:
    return [(rung, rung.profile) for rung in model.rungs if rung.profile is not None and rung.profile.problem.flops]


def _where(have: Profiled) -> str:
    """The origin and size of the counts: 'simulated at 128³'."""
    sizes = {(p.origin, size_of(p.problem.m, p.problem.n, p.problem.k)) for _, p in have}
    return " and ".join(f"{origin} at {size}" for origin, size in sorted(sizes))


def _origins(have: Profiled) -> list[str]:
    return [p.origin for _, p in have]


def _href(rung: Rung, links: Mapping[str, str]) -> str:
    return f"#{links[rung.name]}" if rung.name in links else ""


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
