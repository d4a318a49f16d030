"""One rung's view: what it does, how fast it is and why, its source line by line, its resources."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from markupsafe import Markup

from gemmsmith.explain.comparison import Row, origin_of
from gemmsmith.explain.profile import Line
from gemmsmith.report.arithmetic import panel_of, units_of
from gemmsmith.report.charts.cells import SHADES
from gemmsmith.report.charts.frame import Chart, Table
from gemmsmith.report.charts.words import compact, percent, tflops, times
from gemmsmith.report.figures.machine import bounds, occupancy_steps
from gemmsmith.report.figures.names import contender
from gemmsmith.report.figures.speed import rung_over_size
from gemmsmith.report.header_comment import Opening, read_opening
from gemmsmith.report.highlight import highlight
from gemmsmith.report.reasons import contradiction, reason
from gemmsmith.report.report_model import COMPILER, Rung, Story
from gemmsmith.report.speeds import Speed, Speeds, headline

COUNTED = ("executed", "sectors", "wavefronts", "conflicts")


@dataclass(frozen=True)
class Listed:
    """A source line: its number, its text as HTML, its counts as words, and how hot it is, 0 … 8; -1: never ran."""

    number: int
    code: Markup
    counts: tuple[str, ...]
    heat: int


@dataclass(frozen=True)
class Fact:
    """A figure with its name and origin; ``note`` explains it in a few words."""

    name: str
    value: str
    origin: str
    note: str = ""


@dataclass(frozen=True)
class Change:
    """A quantity before and now."""

    name: str
    before: str
    now: str
    factor: str


@dataclass(frozen=True)
class Changes:
    """Quantities of one kind, all of one origin."""

    section: str
    origin: str
    rows: tuple[Change, ...]


@dataclass(frozen=True)
class RungView:
    """Everything the template of a rung shows."""

    rung: Rung
    anchor: str
    opening: Opening
    speed: Speed | None
    facts: tuple[Fact, ...]
    faster: str
    reason: str
    contradiction: str
    changes: tuple[Changes, ...]
    resources: tuple[Fact, ...]
    sizes: Chart | None
    bound: Chart | None
    steps: tuple[Chart, ...]
    counted: tuple[str, ...]
    listing: tuple[Listed, ...]
    opening_text: str
    headers: Table | None
    counted_at: str
    difference: tuple[tuple[str, str], ...]
    previous: Rung | None
    following: Rung | None


def view_rung(story: Story, speeds: Speeds, at: int, links: Mapping[str, str]) -> RungView:
    rung = story.rungs[at]
    anchor = links[rung.name]
    previous = story.rungs[at - 1] if at else None
    compared = next((r for r in story.rungs if r.name == rung.before), previous)
    speed = headline(rung, story, speeds)
    opening = read_opening(rung.source)
    counted, listing = _listing(rung, opening.lines)
    return RungView(
        rung=rung, anchor=anchor, opening=opening, speed=speed, facts=_facts(story, speeds, rung, speed, compared),
        faster=_faster(story, speeds, rung, speed, compared), reason=reason(rung, story, speeds),
        contradiction=contradiction(rung, story, speeds), changes=_changes(rung.changes),
        resources=_resources(rung, story), sizes=rung_over_size(story, speeds, rung, compared, f"{anchor}-sizes"),
        bound=bounds(rung, anchor), steps=tuple(occupancy_steps(rung, story, anchor)),
        counted=counted, listing=listing, opening_text="\n".join(rung.source.splitlines()[: opening.lines]),
        headers=_header_lines(rung), counted_at=_counted_at(rung), difference=_difference(compared, rung),
        previous=previous, following=story.rungs[at + 1] if at + 1 < len(story.rungs) else None,
    )  # fmt: skip


def _facts(story: Story, speeds: Speeds, rung: Rung, speed: Speed | None, before: Rung | None) -> tuple[Fact, ...]:
    if speed is None:
        return ()
    made = [Fact("TFLOPS", tflops(speed.tflops), speed.origin, speed.words)]
    if math.isfinite(speed.of_baseline):
        made.append(Fact(f"of {contender(story.baseline)}", percent(speed.of_baseline), speed.origin))
    for other in (before, panel_of(rung, story).rungs[0]):
        there = headline(other, story, speeds) if other is not None and other is not rung else None
        if there is not None and other is not None and _comparable(there, speed):
            name = f"over {other.name}{_other_units(rung, other)}"
            made.append(Fact(name, times(speed.tflops / there.tflops), speed.origin))
    return tuple(dict.fromkeys(made))


def _other_units(rung: Rung, other: Rung) -> str:
    """Said wherever a rung is compared with one whose multiplications other units do."""
    return "" if units_of(rung) == units_of(other) else f", on {units_of(other)}"


def _comparable(one: Speed, other: Speed) -> bool:
    return (one.origin, one.gpu) == (other.origin, other.gpu)


def _faster(story: Story, speeds: Speeds, rung: Rung, speed: Speed | None, before: Rung | None) -> str:
    """One sentence on the step up, from speeds of one origin; '' where they cannot be compared."""
    there = headline(before, story, speeds) if before is not None else None
    if speed is None or there is None or before is None or not _comparable(speed, there):
        return ""
    ratio = speed.tflops / there.tflops
    figures = f"{tflops(speed.tflops)} against {tflops(there.tflops)} TFLOPS on {speed.gpu}"
    name = before.name + (f", which runs on {units_of(before)}" if units_of(before) != units_of(rung) else "")
    if 0.98 < ratio < 1.02:
        return f"As fast as {name}: {figures}."
    if ratio < 1:
        return f"Slower than {name}, at {percent(ratio)} of its speed: {figures}."
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
    """×1.5; and ÷500 rather than ×0.00."""
    return times(ratio) if ratio >= 0.1 else f"÷{times(1 / ratio).removeprefix('×')}"


def _brief(row: Row, value: float | str) -> str:
    """As the comparison shows it; counts of millions are shortened."""
    return compact(value) if not isinstance(value, str) and value >= 1e6 else row.shown(value)


def _resources(rung: Rung, story: Story) -> tuple[Fact, ...]:
    made = []
    used, geometry, held = rung.resources, rung.geometry, rung.occupancy
    if used is not None:
        dynamic = geometry.smem if geometry else 0
        made += [
            Fact("registers a thread", str(used.registers), COMPILER),
            Fact("shared memory a block", f"{used.static_smem + dynamic:,} B", COMPILER),
            Fact(
                "spilled a thread",
                f"{used.spill_stores + used.spill_loads:,} B" if used.spills else "nothing",
                COMPILER,
            ),
            Fact("stack a thread", f"{used.stack:,} B", COMPILER) if used.stack else None,
            Fact("barriers", str(used.barriers), COMPILER),
        ]
    if geometry is not None:
        made.append(Fact("threads a block", str(geometry.threads), "simulated" if rung.profile else COMPILER))
        made.append(Fact("blocks", f"{geometry.blocks:,}", "simulated" if rung.profile else "predicted"))
    if held is not None:
        made += [
            Fact("blocks an SM", str(held.blocks_per_sm), "predicted"),
            Fact(
                f"occupancy on {story.gpu.name}", f"{percent(held.fraction)} ({held.warps_per_sm} warps)", "predicted"
            ),
        ]
    return tuple(fact for fact in made if fact is not None)


def _listing(rung: Rung, skip: int) -> tuple[tuple[str, ...], tuple[Listed, ...]]:
    """The source from the first line after the opening comment, with what each line counted; and the columns of counts,
    without those in which no line has any."""
    rows = [row.expandtabs(4).rstrip() for row in rung.source.splitlines()]
    lines = {line.number: line for line in (rung.profile.lines if rung.profile else ()) if line.file == rung.file}
    hottest = max((line.executed for line in lines.values()), default=0)
    made = []
    for number, code in enumerate(highlight(rows), start=1):
        if number <= skip:
            continue
        line = lines.get(number)
        made.append(Listed(number, code, _counts(line), _heat(line, hottest)))
    used = [i for i in range(len(COUNTED)) if any(one.counts[i] for one in made)]
    kept = tuple(replace(one, counts=tuple(one.counts[i] for i in used)) for one in made)
    return tuple(COUNTED[i] for i in used), kept


def _counts(line: Line | None) -> tuple[str, ...]:
    if line is None:
        return ("",) * len(COUNTED)
    values = (line.executed, *(line.total(word) for word in ("sectors", "wavefronts", "conflicts")))
    return tuple(compact(v) if v else "" for v in values)


def _heat(line: Line | None, hottest: int) -> int:
    if line is None or not line.executed:
        return -1
    # By orders of magnitude: the main loop runs thousands of times as often as the rest.
    return max(0, SHADES - 1 - round(2 * math.log10(hottest / line.executed)))


def _header_lines(rung: Rung) -> Table | None:
    """Lines of headers that did something, the busiest first."""
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
    sample = f", from {p.sampled_blocks} of {p.geometry.blocks:,} blocks" if p.sampled_blocks else ""
    depth = f" and the first {p.sampled_depth} of K" if p.sampled_depth else ""
    return f"{p.problem}{sample}{depth}"


def _difference(before: Rung | None, rung: Rung) -> tuple[tuple[str, str], ...]:
    """The code's difference to the rung before, without opening comments: (kind, line)."""
    if before is None or not before.source or not rung.source:
        return ()
    one, other = (r.source.splitlines()[read_opening(r.source).lines :] for r in (before, rung))
    made = []
    for row in list(difflib.unified_diff(one, other, lineterm="", n=2))[2:]:
        kind = {"+": "add", "-": "del", "@": "hunk"}.get(row[:1], "same")
        made.append((kind, row))
    return tuple(made)
