"""How fast: the ladder, speed over size, and what others published."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from gemmsmith.report.charts.bars import Bar, Reference, draw_bars
from gemmsmith.report.charts.frame import Chart, Draw, Table, chart
from gemmsmith.report.charts.lines import Line, draw_lines, finite_points
from gemmsmith.report.charts.rows import Kind, Row, draw_dots
from gemmsmith.report.charts.words import ABSENT, percent, seconds, short, size_of, tflops, times
from gemmsmith.report.figures.names import contender
from gemmsmith.report.speeds import Speed, Speeds, headline, predicted, same_gpu
from gemmsmith.report.story import PREDICTED, PUBLISHED, Published, Rung, Story

_FAR = 1.6  # a baseline this many times beyond everything else would squash the ladder: it is named in the note


def origin_words(origin: str, gpu: str) -> str:
    """An origin in the words of the page's legend."""
    return {"measured": f"measured here, on {gpu}", "recorded": f"recorded on {gpu}",
            "predicted": f"predicted for {gpu}"}.get(origin, origin)  # fmt: skip


@dataclass(frozen=True)
class Ladder:
    """The ladder's chart before it is drawn: the page and the picture for a README share it."""

    title: str
    caption: str
    table: Table
    draw: Draw
    origins: tuple[str, ...]
    note: str
    where: str


def ladder(story: Story, speeds: Speeds, links: Mapping[str, str]) -> Chart | None:
    made = ladder_parts(story, speeds, links)
    if made is None:
        return None
    return chart("ladder", made.title, made.caption, made.table, made.draw, made.origins, made.note)


def ladder_parts(story: Story, speeds: Speeds, links: Mapping[str, str]) -> Ladder | None:
    """One bar a rung at the story's size, the baselines and the GPU's limit as lines."""
    found = {rung.name: headline(rung, story, speeds) for rung in story.rungs}
    known = [s for s in found.values() if s is not None]
    if not known:
        return None
    origin, gpu = Counter((s.origin, s.gpu) for s in known).most_common(1)[0][0]
    bars = [_bar(rung, found[rung.name], story, origin, links) for rung in story.rungs]
    lines, far = _references(story, speeds, max(s.tflops for s in known), gpu)
    size = size_of(story.problem.m, story.problem.n, story.problem.k)
    alike = [s for s in known if (s.origin, s.gpu) == (origin, gpu)]  # only these may be compared with each other
    first, best = alike[0], max(alike, key=lambda s: s.tflops)
    caption = (f"TFLOPS of each rung for C = αAB + βC at {size}, {origin_words(origin, gpu)}: from "
               f"{tflops(first.tflops)} ({first.name}) to {tflops(best.tflops)} ({best.name}). Beside each bar: TFLOPS"
               + (f" and the share of {contender(story.baseline)}." if any(math.isfinite(s.of_baseline) for s in known)
                  else "."))  # fmt: skip
    others = {s.origin for s in known} - {origin}
    ghost = f"predicted for {story.gpu.name}" if any(math.isfinite(b.ghost) for b in bars) else ""
    faint = " or ".join(origin_words(o, gpu) for o in sorted(others))

    def words(s: Speed | None) -> tuple[str, ...]:
        if s is None:
            return (ABSENT,) * 6
        known_to = f"{tflops(s.low)} – {tflops(s.high)}" if math.isfinite(s.low) else ABSENT
        over = times(s.tflops / first.tflops) if (s.origin, s.gpu) == (origin, gpu) else ABSENT
        return (tflops(s.tflops), known_to, seconds(s.seconds), percent(s.of_baseline), over, s.origin)

    base = contender(story.baseline)
    rows = [(str(r.number or ""), r.name, r.dtype, *words(found[r.name])) for r in story.rungs]
    for name in speeds.baselines:
        at = speeds.at(name, story.problem)
        if at is not None:
            rows.append(("", contender(name, at.precision), at.precision, *words(at)))
    table = Table(("rung", "kernel", "inputs", "TFLOPS", "95 % interval", "time", f"of {base}",
                   f"over {first.name}", "origin"), tuple(rows))  # fmt: skip
    return Ladder(
        _ladder_title(first, best, base, size), caption, table,
        lambda canvas: draw_bars(canvas, bars, lines, "TFLOPS", ghost, faint, origin_words(origin, gpu)),
        (origin, *others, *([PREDICTED] if ghost else [])), far, f"{size}, {origin_words(origin, gpu)}",
    )  # fmt: skip


def _ladder_title(first: Speed, best: Speed, base: str, size: str) -> str:
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
        return Bar(
            label,
            math.nan,
            "wrong results: no speed" if rung.trusted is False else "no figure at this size",
            rung.number,
            href,
        )
    words = f"{tflops(speed.tflops)}" + (f" · {percent(speed.of_baseline)}" if math.isfinite(speed.of_baseline) else "")
    guess = predicted(rung, story)
    comparable = (guess is not None and speed.origin != PREDICTED and same_gpu(speed.gpu, story.gpu)
                  and guess.problem.flops == speed.problem.flops)  # fmt: skip
    return Bar(label, speed.tflops, words, rung.number, href, speed.low, speed.high,
               guess.tflops if guess is not None and comparable else math.nan, speed.origin != origin)  # fmt: skip


def _references(story: Story, speeds: Speeds, highest: float, gpu: str) -> tuple[list[Reference], str]:
    """Baselines that fit beside the bars, and the data sheet's peak; the sentence names those too far away."""
    peak = story.gpu.fp32_tflops if same_gpu(gpu, story.gpu) else 0.0
    near = max(highest, peak) * _FAR
    lines, far = [], []
    for name in speeds.baselines:
        at = speeds.at(name, story.problem)
        if at is None or at.gpu != gpu:
            continue
        words = f"{contender(name, at.precision)} {tflops(at.tflops)}"
        if at.tflops <= near:
            lines.append(Reference(words, at.tflops))
        else:
            far.append(words)
    if peak:
        lines.append(Reference(f"fp32 peak {short(peak)}", peak, "2 3"))
    lines.sort(key=lambda r: r.value)
    return lines, f"Off this scale, in other arithmetic: {', '.join(far)} TFLOPS." if far else ""


def over_size(story: Story, speeds: Speeds, key: str = "sizes", only: tuple[str, ...] = ()) -> Chart | None:
    """A curve a rung and a baseline; with ``only``, the other rungs are quiet context."""
    curves, rows, origins = [], [], []
    squares: dict[str, list[Speed]] = {}
    ranks = {rung.name: rung.number for rung in story.rungs}
    for name in (*ranks, *speeds.baselines):
        mine = [s for s in speeds.of(name) if s.problem.m == s.problem.n == s.problem.k]
        points = finite_points([(s.problem.m, s.tflops, s.words) for s in mine])
        if not points:
            continue
        squares[name] = mine
        rung = ranks.get(name, 0)
        label = name if rung else contender(name, mine[0].precision)
        curves.append(Line(label, points, rung, bool(only) and bool(rung) and name not in only, str(rung or label)))
        origins += [s.origin for s in mine]
        rows += [(label, str(s.problem.m), tflops(s.tflops), percent(s.of_baseline), percent(s.spread), s.origin, s.gpu)
                 for s in mine if not only or name in only or not rung]  # fmt: skip
    sizes = {s.problem.m for mine in squares.values() for s in mine}
    if len(sizes) < 2 or (only and only[0] not in squares):
        return None
    table = Table(("kernel", "M = N = K", "TFLOPS", f"of {contender(story.baseline)}", "spread", "origin", "GPU"),
                  tuple(rows))  # fmt: skip
    caption = (f"Speed over matrix size, {min(sizes)} to {max(sizes)}, both axes logarithmic. A curve that is still "
               "rising at the right would gain from larger matrices; small ones cannot fill the GPU.")  # fmt: skip
    title = f"{only[0]} over size" if only else "TFLOPS over size"
    return chart(key, title, caption, table, lambda c: draw_lines(c, curves, "M = N = K", "TFLOPS"), origins)


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
