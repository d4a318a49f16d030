"""The view of one rung: what it does, how fast it is and why, its source with counters, its resources."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from markupsafe import Markup

from gemmsmith.explain.comparison_rows import Row, origin_of
from gemmsmith.explain.profile import Line
from gemmsmith.report.arithmetic import panel_of, units_of
from gemmsmith.report.chapters import Chapter, chapters_of
from gemmsmith.report.charts.cells import SHADES
from gemmsmith.report.charts.frame import Chart, Table
from gemmsmith.report.charts.words import compact, percent, tflops, times
from gemmsmith.report.difference import Difference, difference
from gemmsmith.report.drawings.access import costliest_access
from gemmsmith.report.drawings.pipeline import pipeline
from gemmsmith.report.drawings.tiles import tiles
from gemmsmith.report.drawings.together import together
from gemmsmith.report.figures.machine import bounds, occupancy_steps
from gemmsmith.report.figures.names import contender
from gemmsmith.report.figures.speed import rung_over_size
from gemmsmith.report.figures.step import counters_that_moved, speed_step
from gemmsmith.report.header_comment import HeaderComment, read_header_comment
from gemmsmith.report.highlight import highlight
from gemmsmith.report.narrative import Narrative, narrative
from gemmsmith.report.reasons import at_own_shapes, contradiction, reason
from gemmsmith.report.report_model import COMPILER, ReportModel, Rung
from gemmsmith.report.speeds import Speed, Speeds, headline

COUNTED = ("executed", "sectors", "wavefronts", "conflicts")


@dataclass(frozen=True)
class SourceLine:
    """A source line: number, HTML text, formatted counts, and heat from 0 to 8 (-1: never executed)."""

    number: int
    code: Markup
    counts: tuple[str, ...]
    heat: int


@dataclass(frozen=True)
class Fact:
    """A figure with its name and origin; ``note`` explains it."""

    name: str
    value: str
    origin: str
    note: str = ""


@dataclass(frozen=True)
class Change:
    """One quantity in both rungs."""

    name: str
    before: str
    now: str
    factor: str


@dataclass(frozen=True)
class Changes:
    """Quantities of one section, all of one origin."""

    section: str
    origin: str
    rows: tuple[Change, ...]


@dataclass(frozen=True)
class RungView:
    """Everything that the template rung.html shows."""

    rung: Rung
    anchor: str
    header: HeaderComment
    speed: Speed | None
    facts: tuple[Fact, ...]
    faster: str
    reason: str
    contradiction: str
    own_shapes: str
    changes: tuple[Changes, ...]
    resources: tuple[Fact, ...]
    sizes: Chart | None
    bound: Chart | None
    steps: tuple[Chart, ...]
    counted: tuple[str, ...]
    listing: tuple[SourceLine, ...]
    header_text: str
    headers: Table | None
    counted_at: str
    difference: Difference | None
    story: Narrative
    chapter: Chapter
    tiles: Chart | None
    pipeline: Chart | None
    together: Chart | None
    access: Chart | None
    moved: Chart | None
    step: Chart | None
    previous: Rung | None
    following: Rung | None


def view_rung(model: ReportModel, speeds: Speeds, at: int, links: Mapping[str, str]) -> RungView:
    rung = model.rungs[at]
    anchor = links[rung.name]
    previous = model.rungs[at - 1] if at else None
    compared = next((r for r in model.rungs if r.name == rung.before), previous)
    speed = headline(rung, model, speeds)
    header = read_header_comment(rung.source)
    counted, listing = _listing(rung, header.lines)
    named = next((r for r in model.rungs if r.name == rung.named), compared)
    chapter = next(one for one in chapters_of(model.rungs) if rung in one.rungs)
    return RungView(
        rung=rung, anchor=anchor, header=header, speed=speed, facts=_facts(model, speeds, rung, speed, compared),
        faster=_faster(model, speeds, rung, speed, compared), reason=reason(rung, model, speeds),
        contradiction=contradiction(rung, model, speeds), own_shapes=at_own_shapes(rung),
        changes=_changes(rung.changes),
        resources=_resources(rung, model), sizes=rung_over_size(model, speeds, rung, compared, f"{anchor}-sizes"),
        bound=bounds(rung, anchor), steps=tuple(occupancy_steps(rung, model, anchor)),
        counted=counted, listing=listing, header_text="\n".join(rung.source.splitlines()[: header.lines]),
        headers=_header_lines(rung), counted_at=_counted_at(rung), difference=difference(named, rung),
        story=narrative(model, rung, compared), chapter=chapter, tiles=tiles(rung, anchor),
        pipeline=pipeline(rung, anchor), together=together(rung, anchor), access=costliest_access(rung, anchor),
        moved=counters_that_moved(rung, anchor), step=speed_step(model, speeds, rung, compared, anchor),
        previous=previous, following=model.rungs[at + 1] if at + 1 < len(model.rungs) else None,
    )  # fmt: skip


def _facts(
    model: ReportModel, speeds: Speeds, rung: Rung, speed: Speed | None, before: Rung | None
) -> tuple[Fact, ...]:
    if speed is None:
        return ()
    made = [Fact("TFLOPS", tflops(speed.tflops), speed.origin, speed.words)]
    if math.isfinite(speed.of_baseline):
        made.append(Fact(f"of {contender(model.baseline)}", percent(speed.of_baseline), speed.origin))
    for other in (before, panel_of(rung, model).rungs[0]):
        there = headline(other, model, speeds) if other is not None and other is not rung else None
        if there is not None and other is not None and _comparable(there, speed):
            name = f"vs {other.name}{_other_units(rung, other)}"
            made.append(Fact(name, times(speed.tflops / there.tflops), speed.origin))
    return tuple(dict.fromkeys(made))


def _other_units(rung: Rung, other: Rung) -> str:
    """Names the other rung's execution unit, if it differs."""
    return "" if units_of(rung) == units_of(other) else f", on {units_of(other)}"


def _comparable(one: Speed, other: Speed) -> bool:
    return (one.origin, one.gpu) == (other.origin, other.gpu)


def _faster(model: ReportModel, speeds: Speeds, rung: Rung, speed: Speed | None, before: Rung | None) -> str:
    """One sentence that compares the speeds; '' if they are not comparable."""
    there = headline(before, model, speeds) if before is not None else None
    if speed is None or there is None or before is None or not _comparable(speed, there):
        return ""
    ratio = speed.tflops / there.tflops
    figures = f"{tflops(speed.tflops)} vs {tflops(there.tflops)} TFLOPS on {speed.gpu}"
    name = before.name + (f", which runs on {units_of(before)}" if units_of(before) != units_of(rung) else "")
    if 0.98 < ratio < 1.02:
        return f"As fast as {name}: {figures}."
    if ratio < 1:
        return f"Slower than {name}: {percent(ratio)} of its speed, {figures}."
    return f"{ratio:.2f} times as fast as {name}: {figures}."


def _changes(rows: tuple[Row, ...]) -> tuple[Changes, ...]:
    kinds = dict.fromkeys((row.section, origin_of(row)) for row in rows)
    return tuple(
        Changes(section, origin, tuple(_change(r) for r in rows if (r.section, origin_of(r)) == (section, origin)))
        for section, origin in kinds
    )


def _change(row: Row) -> Change:
    factor = ""
    if isinstance(row.left, (int, float)) and isinstance(row.right, (int, float)):
        same = row.shown(row.left) == row.shown(row.right)
        usable = row.left > 0 and row.right > 0 and math.isfinite(row.left) and math.isfinite(row.right)
        factor = "=" if same else (_factor(row.right / row.left) if usable else "")
    else:
        factor = "=" if row.left == row.right else ""
    return Change(row.name, _brief(row, row.left), _brief(row, row.right), factor)


def _factor(ratio: float) -> str:
    """×1.5; small ratios as ÷500 instead of ×0.00."""
    return times(ratio) if ratio >= 0.1 else f"÷{times(1 / ratio).removeprefix('×')}"


def _brief(row: Row, value: float | str) -> str:
    """As the comparison shows it, with counts of a million and more shortened."""
    return compact(value) if not isinstance(value, str) and value >= 1e6 else row.shown(value)


def _resources(rung: Rung, model: ReportModel) -> tuple[Fact, ...]:
    made = []
    used, geometry, held = rung.resources, rung.geometry, rung.occupancy
    if used is not None:
        dynamic = geometry.smem if geometry else 0
        made += [
            Fact("registers per thread", str(used.registers), COMPILER),
            Fact("shared memory per block", f"{used.static_smem + dynamic:,} B", COMPILER),
            Fact(
                "spilled per thread",
                f"{used.spill_stores + used.spill_loads:,} B" if used.spills else "none",
                COMPILER,
            ),
            Fact("stack per thread", f"{used.stack:,} B", COMPILER) if used.stack else None,
            Fact("barriers", str(used.barriers), COMPILER),
        ]
    if geometry is not None:
        made.append(Fact("threads per block", str(geometry.threads), "simulated" if rung.profile else COMPILER))
        made.append(Fact("blocks", f"{geometry.blocks:,}", "simulated" if rung.profile else "predicted"))
    if held is not None:
        made += [
            Fact("blocks per SM", str(held.blocks_per_sm), "predicted"),
            Fact(
                f"occupancy on {model.gpu.name}", f"{percent(held.fraction)} ({held.warps_per_sm} warps)", "predicted"
            ),
        ]
    return tuple(fact for fact in made if fact is not None)


def _listing(rung: Rung, skip: int) -> tuple[tuple[str, ...], tuple[SourceLine, ...]]:
    """The counter columns in use, and the source after the header comment with each line's counts."""
    rows = [row.expandtabs(4).rstrip() for row in rung.source.splitlines()]
    lines = {line.number: line for line in (rung.profile.lines if rung.profile else ()) if line.file == rung.file}
    hottest = max((line.executed for line in lines.values()), default=0)
    made = []
    for number, code in enumerate(highlight(rows), start=1):
        if number <= skip:
            continue
        line = lines.get(number)
        made.append(SourceLine(number, code, _counts(line), _heat(line, hottest)))
    used = [i for i in range(len(COUNTED)) if any(one.counts[i] for one in made)]
    trimmed = tuple(replace(one, counts=tuple(one.counts[i] for i in used)) for one in made)
    return tuple(COUNTED[i] for i in used), trimmed


def _counts(line: Line | None) -> tuple[str, ...]:
    if line is None:
        return ("",) * len(COUNTED)
    values = (line.executed, *(line.total(word) for word in ("sectors", "wavefronts", "conflicts")))
    return tuple(compact(v) if v else "" for v in values)


def _heat(line: Line | None, hottest: int) -> int:
    if line is None or not line.executed:
        return -1
    # Logarithmic: the main loop runs thousands of times as often as the rest.
    return max(0, SHADES - 1 - round(2 * math.log10(hottest / line.executed)))


def _header_lines(rung: Rung) -> Table | None:
    """Executed lines of headers, the most executed first."""
    found = [line for line in (rung.profile.lines if rung.profile else ()) if line.file != rung.file]
    if not found:
        return None
    found.sort(key=lambda line: -line.executed)
    rows = ((line.file, str(line.number), *_counts(line), line.text.strip()) for line in found[:20])
    return Table(("file", "line", *COUNTED, "code"), tuple(rows))


def _counted_at(rung: Rung) -> str:
    if rung.profile is None:
        return ""
    p = rung.profile
    sample = f", extrapolated from {p.sampled_blocks} of {p.geometry.blocks:,} blocks" if p.sampled_blocks else ""
    depth = f" and K = {p.sampled_depth}" if p.sampled_depth else ""
    return f"{p.problem}{sample}{depth}"
