"""How climb prints: the ladder as one table, a sentence a rung, and what others published."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from gemmsmith.cli.explain import wrapped
from gemmsmith.cli.output import bytes_text, console, table
from gemmsmith.explain.bottleneck import OPS, conflicts_of
from gemmsmith.explain.profile import Profile
from gemmsmith.measure.published import published, published_for
from gemmsmith.measure.results import Measurement, Run
from gemmsmith.report.gathering import Gathered
from gemmsmith.report.story import Rung, Story

_SAME = 0.98  # a rung within two per cent of the one before is not called slower


def print_climb(
    story: Story, gathered: Sequence[Gathered], device: str, notes: Sequence[str], page: Path | None
) -> None:
    """The table, the reasons, the published figures, and where the page is."""
    out = console()
    run = (story.measured or story.recorded or (None,))[0]
    size = story.problem.m
    out.print(table(f"The ladder at {size}x{size}x{size}, verified on {device}", *_ladder(story, gathered, run)))
    out.print()
    out.print("[bold]Why each rung differs from the one before[/bold] [dim](from its counters)[/dim]")
    for sentence in reasons(story, _timed(run, size)):
        out.print(wrapped(sentence, "  "), markup=False)
    out.print()
    out.print(table("Published by others, in TFLOPS, on their GPUs", *_published(story.rungs)))
    for step in gathered:
        for verdict in step.verdicts:
            if not verdict.trusted:
                out.print(str(verdict), markup=False, style="red")
    for note in notes:
        out.print(note, markup=False, style="yellow")
    out.print()
    for line in _origins(story, run):
        out.print(wrapped(line), markup=False, style="dim")
    if page is not None:
        out.print(
            f"\nThe page: [bold]{page}[/bold]: charts, source with counts line by line, roofline, how it was measured"
        )


def reasons(story: Story, timed: Mapping[tuple[str, str], Measurement]) -> list[str]:
    """A sentence a rung: the largest reason for its speed; that it is no faster comes first, where it is not."""
    by_name = {rung.name: rung for rung in story.rungs}
    return [f"{rung.name}: {_reason(rung, by_name.get(rung.before), timed)}" for rung in story.rungs if rung.why]


def _reason(rung: Rung, before: Rung | None, timed: Mapping[tuple[str, str], Measurement]) -> str:
    """By timings where both rungs were timed, else by the model."""
    largest = rung.why[1] if len(rung.why) > 1 else rung.why[0]
    if before is None:
        return largest
    guess = _ratio(_predicted(rung), _predicted(before))
    alike = _SAME < guess < 1 / _SAME
    here, there = (timed.get((r.name, r.dtype)) for r in (rung, before))
    if here is None or there is None:
        if guess <= _SAME:
            return f"predicted to be slower than {before.name}, at {guess:.0%} of its speed. {largest}"
        return rung.why[0] if alike else largest
    known = _ratio(here.tflops, there.tflops)
    figures = f"{here.tflops:.3g} against {there.tflops:.3g} TFLOPS"
    if known <= _SAME:
        unseen = "" if guess <= _SAME else f", which the model does not predict ({guess:.2f} times)"
        return f"slower than {before.name}, {figures}{unseen}. {largest}"
    if known < 1 / _SAME:
        return f"as fast as {before.name}, {figures}. {largest}"
    return f"{known:.2f} times as fast as {before.name}. {rung.why[0]}" if guess < 1 / _SAME else largest


def _predicted(rung: Rung) -> float:
    return rung.diagnosis.case.estimate.tflops if rung.diagnosis is not None else math.nan


def _ratio(one: float, other: float) -> float:
    """NaN, which compares with nothing, where one of them is not known."""
    return one / other if one > 0 and other > 0 else math.nan


def _ladder(
    story: Story, gathered: Sequence[Gathered], run: Run | None
) -> tuple[tuple[tuple[str, str], ...], list[tuple[str, ...]]]:
    timed = _timed(run, story.problem.m)
    first = story.rungs[0]
    slowest = timed.get((first.name, first.dtype))
    rows = []
    for rung, step in zip(story.rungs, gathered, strict=True):
        used = step.compiled.resources
        state = "[green]verified[/green]" if step.ok else "[red]WRONG[/red]"
        occupied = f"{rung.occupancy.fraction:.0%}" if rung.occupancy is not None else ""
        same = slowest if rung.tensor_cores == first.tensor_cores else None
        rows.append((f"{rung.number:>2} {rung.name}", state, str(used.registers),
                     bytes_text(used.static_smem + step.profile.geometry.smem), occupied, *_counts(step.profile),
                     *_speed(timed.get((rung.name, rung.dtype)), same)))  # fmt: skip
    for (name, _), measurement in timed.items():
        own = measurement.identity
        if own.kind == "baseline":
            label = name if own.precision.lower() in name.lower() else f"{name} {own.precision}"
            same = slowest if own.precision == "fp32" and not first.tensor_cores else None
            rows.append((f"   {label}", "", "", "", "", "", "", "", *_speed(measurement, same)))
    headings = ["   rung", "", "regs", "shared", "occu-\npancy", "sectors", "wave-\nfronts", "con-\nflicts"]
    headings += ["TFLOPS", f"× {first.name}", "of\ncuBLAS"] if timed else []
    sides = ["left", "left", *["right"] * (len(headings) - 2)]
    return tuple(zip(headings, sides, strict=True)), rows


def _timed(run: Run | None, size: int) -> dict[tuple[str, str], Measurement]:
    """Who was timed at this size, by name and type of inputs."""
    found: dict[tuple[str, str], Measurement] = {}
    for m in run.measurements if run is not None else ():
        if (m.problem.m, m.problem.n, m.problem.k) == (size, size, size) and not m.rejected:
            found.setdefault((m.identity.name, m.problem.dtype.name), m)
    return found


def _counts(profile: Profile) -> tuple[str, str, str]:
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
    """TFLOPS, how often the first rung's where both multiply on the same units, and the share of cuBLAS."""
    if measured is None:
        return ()
    ratio = measured.ratio("cublas")
    over = f"{measured.tflops / slowest.tflops:.1f}" if slowest is not None else ""
    own = "100%" if measured.identity.name == "cublas" else ""
    return f"{measured.tflops:.3g}", over, own if math.isnan(ratio) else f"{ratio:.0%}"


def _published(rungs: Sequence[Rung]) -> tuple[tuple[tuple[str, str], ...], list[tuple[str, ...]]]:
    """Each GPU at the size that most of its figures are for; several figures of one rung as their range."""
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
    return (("rung", "left"), ("published", "left")), rows


def _range(values: Sequence[float]) -> str:
    low, high = (f"{value:.3g}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _origins(story: Story, run: Run | None) -> list[str]:
    size = story.problem.m
    lines = [
        f"Counts: simulated at {size}³ from the PTX for {story.gpu.name}, one block of each kind, K continued from "
        f"short runs. Occupancy: predicted for {story.gpu.name}. Registers: the compiler's."
    ]
    if run is not None:
        what = (
            "measured here"
            if story.measured
            else f"recorded on {run.machine.gpu}, {run.started[:10]}, by {run.command}"
        )
        lines.append(
            f"Speeds: {what}; medians, operands rotated over twice the L2. Of cuBLAS: as torch calls it, in the same "
            f"type; TF32 is not fp32. × {story.rungs[0].name}: only where the same units multiply."
        )
    else:
        lines.append("Speeds: none; they need a GPU.")
    lines.append("gemmsmith explain RUNG says what bounds a rung on a GPU of your choice; show RUNG, what it does.")
    return lines
