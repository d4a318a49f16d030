"""The ladder: one chart for CUDA-core rungs and one for tensor-core rungs, each with its own scale and peak."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gemmsmith.report.arithmetic import CUDA_CORES, Panel, panels_of
from gemmsmith.report.charts.bars import Bar, Reference, draw_bars
from gemmsmith.report.charts.frame import Chart, Draw, Key, Table, chart
from gemmsmith.report.charts.words import ABSENT, percent, seconds, short, size_of, tflops, times
from gemmsmith.report.choices import choice_note, choices_in, share_of_cublas
from gemmsmith.report.figures.names import contender
from gemmsmith.report.report_model import PREDICTED, RECORDED, ReportModel, Rung
from gemmsmith.report.speeds import Speed, Speeds, headline, predicted, same_gpu
from gemmsmith.store.tuned_choice import TunedChoice

_CHOICE = Key("swatch", "s3 fill", "gemmsmith.matmul, chosen by shape", "dots")
_FAR = 1.6  # a baseline beyond this factor would squash the bars; the note names it instead


def origin_words(origin: str, gpu: str) -> str:
    """An origin as the legend names it."""
    return {"measured": f"measured here, on {gpu}", "recorded": f"recorded on {gpu}",
            "predicted": f"predicted for {gpu}"}.get(origin, origin)  # fmt: skip


@dataclass(frozen=True)
class Ladder:
    """One panel before it is drawn, shared by the page and the README picture. ``heading`` names its execution unit."""

    key: str
    heading: str
    title: str
    caption: str
    table: Table
    draw: Draw
    origins: tuple[str, ...]
    note: str
    where: str


def ladders(model: ReportModel, speeds: Speeds, links: Mapping[str, str]) -> tuple[Chart, ...]:
    """The page's charts; empty if no rung has a speed."""
    return tuple(chart(made.key, made.title, made.caption, made.table, made.draw, made.origins, made.note)
                 for made in ladder_parts(model, speeds, links))  # fmt: skip


def ladder_parts(model: ReportModel, speeds: Speeds, links: Mapping[str, str]) -> tuple[Ladder, ...]:
    """One panel per execution unit with at least one known speed."""
    made = (_panel(model, speeds, panel, links) for panel in panels_of(model))
    return tuple(one for one in made if one is not None)


def _panel(model: ReportModel, speeds: Speeds, panel: Panel, links: Mapping[str, str]) -> Ladder | None:
    """One bar per rung at the report's size; lines for the baselines of that arithmetic and for the GPU's peak."""
    found = {rung.name: headline(rung, model, speeds) for rung in panel.rungs}
    known = [s for s in found.values() if s is not None]
    if not known:
        return None
    origin, gpu = Counter((s.origin, s.gpu) for s in known).most_common(1)[0][0]
    choices = choices_in(panel, model, speeds)
    bars = [_bar(rung, found[rung.name], model, origin, links) for rung in panel.rungs]
    bars += [_choice_bar(choice, links) for choice in choices]
    lines, far = _references(
        model, speeds, panel, max(*(s.tflops for s in known), *(c.tflops for c in choices), 0.0), gpu
    )
    size = size_of(model.problem.m, model.problem.n, model.problem.k)
    comparable = [s for s in known if (s.origin, s.gpu) == (origin, gpu)]
    first, best = comparable[0], max(comparable, key=lambda s: s.tflops)
    base = contender(model.baseline)
    shares = any(math.isfinite(s.of_baseline) for s in known)
    caption = (f"TFLOPS of each rung{panel.on_units} for C = αAB + βC at {size}, {origin_words(origin, gpu)}: from "
               f"{tflops(first.tflops)} ({first.name}) to {tflops(best.tflops)} ({best.name}). Beside each bar: TFLOPS"
               + (f" and the share of {base} for the same input type." if shares else "."))  # fmt: skip
    others = {s.origin for s in known} - {origin}
    ghost = f"predicted for {model.gpu.name}" if any(math.isfinite(b.ghost) for b in bars) else ""
    faint = " or ".join(origin_words(o, gpu) for o in sorted(others))
    more = [_CHOICE] if choices else []

    def words(s: Speed | None) -> tuple[str, ...]:
        if s is None:
            return (ABSENT,) * 6
        known_to = f"{tflops(s.low)} – {tflops(s.high)}" if math.isfinite(s.low) else ABSENT
        over = times(s.tflops / first.tflops) if (s.origin, s.gpu) == (origin, gpu) else ABSENT
        return (tflops(s.tflops), known_to, seconds(s.seconds), percent(s.of_baseline), over, s.origin)

    rows = [(str(r.number or ""), r.name, r.dtype, *words(found[r.name])) for r in panel.rungs]
    rows += [("", f"{c.name}: {c.kernel} {c.tile}", c.problem.dtype.name, tflops(c.tflops), ABSENT, seconds(c.seconds),
              share_of_cublas(c.of_cublas), ABSENT, RECORDED) for c in choices]  # fmt: skip
    rows += [("", contender(name, at.precision), at.precision, *words(at))
             for name, at in _baselines(model, speeds, panel)]  # fmt: skip
    table = Table(("rung", "kernel", "inputs", "TFLOPS", "95 % interval", "time", f"of {base}",
                   f"speedup over {first.name}", "origin"), tuple(rows))  # fmt: skip
    title = panel.title(_title(first, best, base, size) + _choice_title(choices, best))
    note = " ".join(filter(None, (far, choice_note(choices))))
    return Ladder(
        panel.key("ladder"), panel.title("").rstrip(": "), title, caption, table,
        lambda canvas: draw_bars(canvas, bars, lines, "TFLOPS", ghost, faint, origin_words(origin, gpu), more),
        (origin, *others, *([PREDICTED] if ghost else []), *([RECORDED] if choices else [])), note,
        f"{size}, {origin_words(origin, gpu)}",
    )  # fmt: skip


def _title(first: Speed, best: Speed, base: str, size: str) -> str:
    if first is best:
        return f"The ladder at {size}"
    share = f" and {percent(best.of_baseline)} of {base}" if math.isfinite(best.of_baseline) else ""
    factor = times(best.tflops / first.tflops).removeprefix("×")
    return f"{best.name} reaches {factor} times the speed of {first.name}{share}"


def _bar(rung: Rung, speed: Speed | None, model: ReportModel, origin: str, links: Mapping[str, str]) -> Bar:
    href = f"#{links[rung.name]}" if rung.name in links else ""
    label = rung.name if rung.dtype == model.problem.dtype.name else f"{rung.name} ({rung.dtype})"
    if speed is None:
        missing = "wrong results: no speed" if rung.trusted is False else "no figure at this size"
        return Bar(label, math.nan, missing, rung.number, href)
    words = f"{tflops(speed.tflops)}" + (f" · {percent(speed.of_baseline)}" if math.isfinite(speed.of_baseline) else "")
    guess = predicted(rung, model)
    comparable = (guess is not None and speed.origin != PREDICTED and same_gpu(speed.gpu, model.gpu)
                  and guess.problem.flops == speed.problem.flops)  # fmt: skip
    return Bar(label, speed.tflops, words, rung.number, href, speed.low, speed.high,
               guess.tflops if guess is not None and comparable else math.nan, speed.origin != origin)  # fmt: skip


def _choice_title(choices: Sequence[TunedChoice], best: Speed) -> str:
    """The choice for the input type of the best rung, after the title."""
    share = next((c.of_cublas for c in choices if c.problem.dtype == best.problem.dtype), math.nan)
    return f"; gemmsmith.matmul reaches {share_of_cublas(share)}" if math.isfinite(share) else ""


def _choice_bar(choice: TunedChoice, links: Mapping[str, str]) -> Bar:
    words = f"{tflops(choice.tflops)} · {share_of_cublas(choice.of_cublas)}"
    return Bar(choice.name, choice.tflops, words, href="#choice" if links else "", class_=_CHOICE.class_.split()[0],
               overlay=_CHOICE.overlay)  # fmt: skip


def _baselines(model: ReportModel, speeds: Speeds, panel: Panel) -> list[tuple[str, Speed]]:
    found = ((name, speeds.at(name, model.problem)) for name in speeds.baselines)
    return [(name, at) for name, at in found if at is not None and panel.has_baseline(at.precision)]


def _references(
    model: ReportModel, speeds: Speeds, panel: Panel, highest: float, gpu: str
) -> tuple[list[Reference], str]:  # fmt: skip
    """Lines for the baselines on the scale and for the data-sheet peak, and a note on baselines beyond the scale."""
    peaks = panel.peaks(model.gpu) if same_gpu(gpu, model.gpu) else ()
    near = max([highest, *(peak.tflops for peak in peaks)]) * _FAR
    lines, far = [], []
    for name, at in _baselines(model, speeds, panel):
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
    other = "" if any(same for _, same in far) else ", in another arithmetic"
    return lines, f"Off this scale{other}: {', '.join(words for words, _ in far)} TFLOPS."
