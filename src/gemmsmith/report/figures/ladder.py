"""The ladder: a chart for rungs on CUDA cores and one for those on tensor cores, each with its scale and its peak."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from gemmsmith.report.arithmetic import CUDA_CORES, Panel, panels_of
from gemmsmith.report.charts.bars import Bar, Reference, draw_bars
from gemmsmith.report.charts.frame import Chart, Draw, Table, chart
from gemmsmith.report.charts.words import ABSENT, percent, seconds, short, size_of, tflops, times
from gemmsmith.report.figures.names import contender
from gemmsmith.report.report_model import PREDICTED, Rung, Story
from gemmsmith.report.speeds import Speed, Speeds, headline, predicted, same_gpu

_FAR = 1.6  # a baseline this many times beyond everything else would squash the ladder: it is named in the note


def origin_words(origin: str, gpu: str) -> str:
    """An origin in the words of the page's legend."""
    return {"measured": f"measured here, on {gpu}", "recorded": f"recorded on {gpu}",
            "predicted": f"predicted for {gpu}"}.get(origin, origin)  # fmt: skip


@dataclass(frozen=True)
class Ladder:
    """One panel before it is drawn: the page and the picture for a README share it. ``heading`` names its units."""

    key: str
    heading: str
    title: str
    caption: str
    table: Table
    draw: Draw
    origins: tuple[str, ...]
    note: str
    where: str


def ladders(story: Story, speeds: Speeds, links: Mapping[str, str]) -> tuple[Chart, ...]:
    """The page's charts; none where no rung has a speed."""
    return tuple(chart(made.key, made.title, made.caption, made.table, made.draw, made.origins, made.note)
                 for made in ladder_parts(story, speeds, links))  # fmt: skip


def ladder_parts(story: Story, speeds: Speeds, links: Mapping[str, str]) -> tuple[Ladder, ...]:
    """A panel a kind of units of which a rung has a speed."""
    made = (_panel(story, speeds, panel, links) for panel in panels_of(story))
    return tuple(one for one in made if one is not None)


def _panel(story: Story, speeds: Speeds, panel: Panel, links: Mapping[str, str]) -> Ladder | None:
    """One bar a rung at the story's size, the baselines of its arithmetic and the GPU's limit as lines."""
    found = {rung.name: headline(rung, story, speeds) for rung in panel.rungs}
    known = [s for s in found.values() if s is not None]
    if not known:
        return None
    origin, gpu = Counter((s.origin, s.gpu) for s in known).most_common(1)[0][0]
    bars = [_bar(rung, found[rung.name], story, origin, links) for rung in panel.rungs]
    lines, far = _references(story, speeds, panel, max(s.tflops for s in known), gpu)
    size = size_of(story.problem.m, story.problem.n, story.problem.k)
    alike = [s for s in known if (s.origin, s.gpu) == (origin, gpu)]  # only these may be compared with each other
    first, best = alike[0], max(alike, key=lambda s: s.tflops)
    base = contender(story.baseline)
    shares = any(math.isfinite(s.of_baseline) for s in known)
    caption = (f"TFLOPS of each rung{panel.on_units} for C = αAB + βC at {size}, {origin_words(origin, gpu)}: from "
               f"{tflops(first.tflops)} ({first.name}) to {tflops(best.tflops)} ({best.name}). Beside each bar: TFLOPS"
               + (f" and the share of {base} with the same type of inputs." if shares else "."))  # fmt: skip
    others = {s.origin for s in known} - {origin}
    ghost = f"predicted for {story.gpu.name}" if any(math.isfinite(b.ghost) for b in bars) else ""
    faint = " or ".join(origin_words(o, gpu) for o in sorted(others))

    def words(s: Speed | None) -> tuple[str, ...]:
        if s is None:
            return (ABSENT,) * 6
        known_to = f"{tflops(s.low)} – {tflops(s.high)}" if math.isfinite(s.low) else ABSENT
        over = times(s.tflops / first.tflops) if (s.origin, s.gpu) == (origin, gpu) else ABSENT
        return (tflops(s.tflops), known_to, seconds(s.seconds), percent(s.of_baseline), over, s.origin)

    rows = [(str(r.number or ""), r.name, r.dtype, *words(found[r.name])) for r in panel.rungs]
    rows += [("", contender(name, at.precision), at.precision, *words(at))
             for name, at in _baselines(story, speeds, panel)]  # fmt: skip
    table = Table(("rung", "kernel", "inputs", "TFLOPS", "95 % interval", "time", f"of {base}",
                   f"over {first.name}", "origin"), tuple(rows))  # fmt: skip
    return Ladder(
        panel.key("ladder"), panel.title("").rstrip(": "), panel.title(_title(first, best, base, size)), caption, table,
        lambda canvas: draw_bars(canvas, bars, lines, "TFLOPS", ghost, faint, origin_words(origin, gpu)),
        (origin, *others, *([PREDICTED] if ghost else [])), far, f"{size}, {origin_words(origin, gpu)}",
    )  # fmt: skip


def _title(first: Speed, best: Speed, base: str, size: str) -> str:
    if first is best:
        return f"The ladder at {size}"
    share = f" and {percent(best.of_baseline)} of {base}" if math.isfinite(best.of_baseline) else ""
    return (
        f"{best.name} has {times(best.tflops / first.tflops).removeprefix('×')} times the speed of {first.name}{share}"
    )


def _bar(rung: Rung, speed: Speed | None, story: Story, origin: str, links: Mapping[str, str]) -> Bar:
    href = f"#{links[rung.name]}" if rung.name in links else ""
    label = rung.name if rung.dtype == story.problem.dtype.name else f"{rung.name} ({rung.dtype})"
    if speed is None:
        missing = "wrong results: no speed" if rung.trusted is False else "no figure at this size"
        return Bar(label, math.nan, missing, rung.number, href)
    words = f"{tflops(speed.tflops)}" + (f" · {percent(speed.of_baseline)}" if math.isfinite(speed.of_baseline) else "")
    guess = predicted(rung, story)
    comparable = (guess is not None and speed.origin != PREDICTED and same_gpu(speed.gpu, story.gpu)
                  and guess.problem.flops == speed.problem.flops)  # fmt: skip
    return Bar(label, speed.tflops, words, rung.number, href, speed.low, speed.high,
               guess.tflops if guess is not None and comparable else math.nan, speed.origin != origin)  # fmt: skip


def _baselines(story: Story, speeds: Speeds, panel: Panel) -> list[tuple[str, Speed]]:
    found = ((name, speeds.at(name, story.problem)) for name in speeds.baselines)
    return [(name, at) for name, at in found if at is not None and panel.has_baseline(at.precision)]


def _references(
    story: Story, speeds: Speeds, panel: Panel, highest: float, gpu: str
) -> tuple[list[Reference], str]:  # fmt: skip
    """Baselines that fit beside the bars, and the data sheet's peak; the sentence names those too far away."""
    peaks = panel.peaks(story.gpu) if same_gpu(gpu, story.gpu) else ()
    near = max([highest, *(peak.tflops for peak in peaks)]) * _FAR
    lines, far = [], []
    for name, at in _baselines(story, speeds, panel):
        if at.gpu != gpu:
            continue
        inputs = " (fp32 inputs)" if at.problem.dtype.name == "fp32" and panel.units != CUDA_CORES else ""
        words = f"{contender(name, at.precision)} {tflops(at.tflops)}{inputs}"
        if at.tflops <= near:
            lines.append(Reference(words, at.tflops))
        else:
            far.append((words, panel.same_units(at.precision)))
    lines += [Reference(f"{peak.arithmetic} peak {short(peak.tflops)}", peak.tflops, "2 3") for peak in peaks]
    lines.sort(key=lambda r: r.value)
    if not far:
        return lines, ""
    other = "" if any(same for _, same in far) else ", in other arithmetic"
    return lines, f"Off this scale{other}: {', '.join(words for words, _ in far)} TFLOPS."
