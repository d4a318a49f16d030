"""How climb prints: the ladder as one table, a sentence a rung, and what others published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from gemmsmith.cli.explain import wrapped
from gemmsmith.cli.output import bytes_text, console, table
from gemmsmith.explain.profile import CONFLICTS, Profile
from gemmsmith.measure.published import published_for
from gemmsmith.measure.results import Measurement, Run
from gemmsmith.report.gathering import Gathered
from gemmsmith.report.story import Rung, Story


def print_climb(
    story: Story, gathered: Sequence[Gathered], device: str, notes: Sequence[str], page: Path | None
) -> None:
    """The table, the reasons, the published figures, and where the page is."""
    out = console()
    run = (story.measured or story.recorded or (None,))[0]
    size = story.problem.m
    out.print(table(f"The ladder at {size}x{size}x{size}, verified on {device}", *_ladder(story, gathered, run)))
    out.print()
    out.print("[bold]Why each rung is faster than the one before[/bold] [dim](from its counters)[/dim]")
    for rung in story.rungs:
        if rung.why:
            out.print(wrapped(f"{rung.name}: {rung.why[0]}", "  "), markup=False)
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


def _ladder(
    story: Story, gathered: Sequence[Gathered], run: Run | None
) -> tuple[tuple[tuple[str, str], ...], list[tuple[str, ...]]]:
    timed = _timed(run, story.problem.m)
    slowest = timed.get(story.rungs[0].name)
    rows = []
    for rung, step in zip(story.rungs, gathered, strict=True):
        used = step.compiled.resources
        state = "[green]verified[/green]" if step.ok else "[red]WRONG[/red]"
        occupied = f"{rung.occupancy.fraction:.0%}" if rung.occupancy is not None else ""
        rows.append((str(rung.number), rung.name, state, str(used.registers),
                     bytes_text(used.static_smem + step.profile.geometry.smem), occupied, *_counts(step.profile),
                     *_speed(timed.get(rung.name), slowest)))  # fmt: skip
    if timed:
        for name, measurement in timed.items():
            if measurement.identity.kind == "baseline" and measurement.problem.dtype.name == story.rungs[0].dtype:
                rows.append(("", name, "", "", "", "", "", "", "", *_speed(measurement, slowest)))
    headings = ["", "rung", "", "regs", "shared", "occu-\npancy", "sectors", "wave-\nfronts", "con-\nflicts"]
    headings += ["TFLOPS", "× naive", "of\ncuBLAS"] if timed else []
    sides = ["right", "left", "left", *["right"] * (len(headings) - 3)]
    return tuple(zip(headings, sides, strict=True)), rows


def _timed(run: Run | None, size: int) -> dict[str, Measurement]:
    """Who was timed at this size, by name; of a baseline that is there for two types, the first."""
    found: dict[str, Measurement] = {}
    for m in run.measurements if run is not None else ():
        if (m.problem.m, m.problem.n, m.problem.k) == (size, size, size) and not m.rejected:
            found.setdefault(m.identity.name, m)
    return found


def _counts(profile: Profile) -> tuple[str, str, str]:
    sectors = profile.sectors("ld") + profile.sectors("st")
    waves = sum(profile.wavefronts(op) for op in ("ld", "st", "ldgsts"))
    return _large(sectors), _large(waves), _large(sum(profile.value(name) for name in CONFLICTS.values()))


def _large(count: float) -> str:
    """A count in three digits: 537 M."""
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f}"


def _speed(measured: Measurement | None, slowest: Measurement | None) -> tuple[str, ...]:
    if measured is None:
        return ()
    ratio = measured.ratio("cublas")
    over = measured.tflops / slowest.tflops if slowest is not None else math.nan
    own = "100%" if measured.identity.name == "cublas" else ""
    return f"{measured.tflops:.3g}", f"{over:.1f}", own if math.isnan(ratio) else f"{ratio:.0%}"


def _published(rungs: Sequence[Rung]) -> tuple[tuple[tuple[str, str], ...], list[tuple[str, ...]]]:
    rows: list[tuple[str, ...]] = []
    for rung in rungs:
        found = [f"{p.gpu} at {p.size}: {p.tflops:.3g}" for p in published_for(rung.name) if p.size in (2048, 4096)]
        if found:
            rows.append((rung.name, "; ".join(dict.fromkeys(found))))
    return (("rung", "left"), ("published", "left")), rows


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
            "type; TF32 is not fp32."
        )
    else:
        lines.append("Speeds: none; they need a GPU.")
    lines.append("gemmsmith explain RUNG says what bounds a rung on a GPU of your choice; show RUNG, what it does.")
    return lines
