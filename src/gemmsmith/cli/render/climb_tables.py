"""How climb prints: the ladder as a table, a sentence per rung, and published figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from gemmsmith.cli.render.output import Column, bytes_text, columns, item, print_table, say
from gemmsmith.explain.bottleneck import OPS, conflicts_of
from gemmsmith.explain.profile import Profile
from gemmsmith.report.choices import choice_rows
from gemmsmith.report.collect import CollectedRung
from gemmsmith.report.reasons import reason
from gemmsmith.report.report_model import ReportModel, Rung
from gemmsmith.report.speeds import is_ladder_timing, short_gpu_name, speeds_of
from gemmsmith.store.published import published, published_for
from gemmsmith.store.results import Measurement, Run

_COUNTS = 8  # columns of the table before speeds
_ONE_TABLE = 98  # terminal columns that the table needs with speeds


def print_climb(
    model: ReportModel, gathered: Sequence[CollectedRung], device: str, notes: Sequence[str], page: Path | None
) -> None:
    """The table, the reasons, the published figures, and where the page is."""
    run = (model.measured or model.recorded or (None,))[0]
    say(_title(model, gathered, device, run), "italic")
    _print_ladder(*_ladder(model, gathered, run))
    say()
    lead = "Why each rung differs from the one before"
    say(f"{lead} (counted; gains predicted)", lead=lead)
    for sentence in reasons(model):
        item(sentence, indent="  ")
    say()
    heads, figures = _published(model.rungs)
    print_table(heads, figures, "Published by others, in TFLOPS, on their GPUs")
    for step in gathered:
        for verdict in step.verdicts:
            if not verdict.trusted:
                item(str(verdict), "red")
    for note in notes:
        item(note, "yellow")
    say()
    for line in _origins(model, run):
        say(line, "dim")
    if page is not None:
        say(f"\nThe page {page} has charts, source with counts line by line, roofline, and how it was measured.")


def _title(model: ReportModel, gathered: Sequence[CollectedRung], device: str, run: Run | None) -> str:
    """What was counted, verified and timed, each with its size and place."""
    size = model.problem.m
    lines = [f"The ladder: counts simulated at {size}³"]
    cubes = {v.problem.m for step in gathered for v in step.verdicts if v.problem.m == v.problem.n == v.problem.k}
    if cubes:
        lines[0] += f"; verified on {device} at {', '.join(f'{m}³' for m in sorted(cubes))} and a ragged shape"
    if run is not None and _timed(model, run):
        lines.append(f"speeds at {size}³: {_origin(model, run)}")
    return "\n".join(lines)


def _origin(model: ReportModel, run: Run) -> str:
    gpu = short_gpu_name(run.machine.gpu)
    return f"measured here, on {gpu}" if model.measured else f"recorded on {gpu}, {run.started[:10]}"


def reasons(model: ReportModel) -> list[str]:
    """A sentence per rung: the largest reason for its speed, as on the page."""
    speeds = speeds_of(model)
    told = ((rung.name, reason(rung, model, speeds)) for rung in model.rungs)
    return [f"{name}: {words}" for name, words in told if words]


def _print_ladder(heads: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """One table; on a narrow terminal two, of counts and of speeds."""
    if columns() >= _ONE_TABLE or len(heads) <= _COUNTS:
        print_table(heads, rows)
        return
    print_table(heads[:_COUNTS], [row[:_COUNTS] for row in rows if row[2]])
    say()
    print_table([heads[0], *heads[_COUNTS:]], [(row[0], *row[_COUNTS:]) for row in rows if row[_COUNTS:]])


def _ladder(
    model: ReportModel, gathered: Sequence[CollectedRung], run: Run | None
) -> tuple[list[Column], list[tuple[str, ...]]]:
    timed = _timed(model, run)
    first = model.rungs[0]
    slowest = timed.get((first.name, first.dtype))
    rows = []
    for rung, step in zip(model.rungs, gathered, strict=True):
        used = step.compiled.resources
        verified = "[green]✓[/green]" if step.verdicts or rung.simulated else ""
        state = verified if step.ok else "[red]✗[/red]"
        occupied = f"{rung.occupancy.fraction:.0%}" if rung.occupancy is not None else ""
        same = slowest if rung.tensor_cores == first.tensor_cores else None
        rows.append((f"{rung.number:>2} {_label(rung)}", state, str(used.registers),
                     bytes_text(used.static_smem + step.geometry.smem), occupied, *_counts(step.profile),
                     *_speed(timed.get((rung.name, rung.dtype)), same)))  # fmt: skip
    for (name, _), measurement in timed.items():
        own = measurement.identity
        if own.kind == "baseline":
            label = name if own.precision.lower() in name.lower() else f"{name} {own.precision}"
            same = slowest if own.precision == "fp32" and not first.tensor_cores else None
            rows.append((f"   {label}", "", "", "", "", "", "", "", *_speed(measurement, same)))
    if timed:
        choices = choice_rows(model, speeds_of(model))
        rows += [(f"   {name}", *[""] * 7, speed, "", share) for name, speed, share in choices]
    headings = ["   rung", "", "regs", "shared", "occu-\npancy", "sec-\ntors", "wave-\nfronts", "con-\nflicts"]
    headings += ["TFLOPS", f"×\n{first.name}", "of\ncuBLAS"] if timed else []
    sides = ["bar", "bar", *["right"] * (len(headings) - 2)]
    return list(zip(headings, sides, strict=True)), rows


def _label(rung: Rung) -> str:
    """Its name, and its inputs where they are not fp32."""
    return rung.name if rung.dtype == "fp32" else f"{rung.name} ({rung.dtype})"


def _timed(model: ReportModel, run: Run | None) -> dict[tuple[str, str], Measurement]:
    """Timings at the page's size, by name and input type; of rungs only in the ladder's configuration."""
    size = model.problem.m
    ours = {rung.name: (rung.dtype, rung.config) for rung in model.rungs}
    found: dict[tuple[str, str], Measurement] = {}
    for m in run.measurements if run is not None else ():
        own = ours.get(m.identity.name)
        usual = is_ladder_timing(m, *own) if own is not None else m.problem.layout == "NN"
        if (m.problem.m, m.problem.n, m.problem.k) == (size, size, size) and usual and not m.rejected:
            found.setdefault((m.identity.name, m.problem.dtype.name), m)
    return found


def _counts(profile: Profile | None) -> tuple[str, str, str]:
    if profile is None:
        return "", "", ""
    sectors = profile.sectors("ld") + profile.sectors("st")
    waves = sum(count for op in OPS if not math.isnan(count := profile.wavefronts(op)))
    return _large(sectors), _large(waves), _large(conflicts_of(profile))


def _large(count: float) -> str:
    """A count in three digits: 537 M."""
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f}"


def _speed(measured: Measurement | None, slowest: Measurement | None) -> tuple[str, ...]:
    """TFLOPS, the ratio to the first rung if both use the same units, and the share of cuBLAS.

    cuBLAS in TF32 has no share: it is another arithmetic.
    """
    if measured is None:
        return ()
    other = measured.identity.kind == "baseline" and measured.identity.precision == "tf32"
    ratio = math.nan if other else measured.ratio("cublas")
    over = f"{measured.tflops / slowest.tflops:.1f}" if slowest is not None else ""
    own = "100%" if measured.identity.name == "cublas" else ""
    return f"{measured.tflops:.3g}", over, own if math.isnan(ratio) else f"{ratio:.0%}"


def _published(rungs: Sequence[Rung]) -> tuple[list[Column], list[tuple[str, ...]]]:
    """Each GPU at the size of most of its figures; several figures of one rung as a range."""
    sizes = {gpu: Counter(p.size for p in published() if p.gpu == gpu).most_common(1)[0][0]
             for gpu in {p.gpu for p in published()}}  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for rung in rungs:
        by_gpu: dict[str, list[float]] = {}
        for p in published_for(rung.name):
            if p.size == sizes[p.gpu]:
                by_gpu.setdefault(p.gpu, []).append(p.tflops)
        if by_gpu:
            rows.append((rung.name, "; ".join(f"{gpu} at {sizes[gpu]}: {_range(v)}" for gpu, v in by_gpu.items())))
    return [("rung", "bar"), ("published", "left")], rows


def _range(values: Sequence[float]) -> str:
    low, high = (f"{value:.3g}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _origins(model: ReportModel, run: Run | None) -> list[str]:
    size = model.problem.m
    lines = [
        f"Counts: simulated at {size}³ from the PTX for {model.gpu.name}, one block of each kind, extrapolated in K "
        f"from short runs. Occupancy: predicted for {model.gpu.name}. Registers: by ptxas."
    ]
    if unknown := [rung.name for rung in model.rungs if not rung.simulated]:
        checked = "" if any(rung.trusted is not None for rung in model.rungs if not rung.simulated) else (
            "; only a GPU verifies and times them")  # fmt: skip
        lines.append(f"Not simulated, so without counts{checked}: {', '.join(unknown)}.")
    if run is not None and not _timed(model, run):
        cubes = sorted({m.problem.m for m in run.measurements if m.problem.m == m.problem.n == m.problem.k})
        known = ", ".join(f"{m}³" for m in cubes) or "no cube"
        lines.append(f"Speeds: none at {size}³; {_origin(model, run)}: {known}.")
    elif run is not None:
        what = (
            "measured here"
            if model.measured
            else f"recorded on {run.machine.gpu}, {run.started[:10]}, by {run.command}"
        )
        lines.append(
            f"Speeds: {what}; medians, operands rotated over twice the L2. Of cuBLAS: as torch calls it, in the same "
            f"type; TF32 is not fp32. × {model.rungs[0].name}: only for rungs that use the same units."
        )
    else:
        lines.append("Speeds: none; they need a GPU.")
    lines.append("gemmsmith explain RUNG says what bounds a rung on any GPU; gemmsmith show RUNG, what it does.")
    return lines
