"""The page's headline and top figures. CUDA-core and tensor-core speeds are never divided by each other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gemmsmith.report.arithmetic import Panel, panels_of
from gemmsmith.report.charts.words import percent, tflops, times
from gemmsmith.report.choices import choices_of, share_of_cublas
from gemmsmith.report.figures.names import contender
from gemmsmith.report.report_model import MEASURED, PREDICTED, RECORDED, SIMULATED, ReportModel, Rung
from gemmsmith.report.rung_view import Fact
from gemmsmith.report.speeds import Speed, Speeds, headline

_NUMBERS = (
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip


def headline_words(model: ReportModel, speeds: Speeds) -> str:
    """'Twelve rungs, from 0.50 to 45.8 TFLOPS', or the best of each execution unit."""
    count = len(model.rungs)
    many = _NUMBERS[count] if count < len(_NUMBERS) else str(count)
    rungs = f"{many.capitalize()} rung{'' if count == 1 else 's'}"
    panels = [(panel, [s for _, s in _known(panel, model, speeds)]) for panel in panels_of(model)]
    every = [s for _, known in panels for s in known]
    first = panels[0][1] if panels else []
    if len({(s.origin, s.gpu) for s in every}) != 1 or not first or max(s.tflops for s in first) == first[0].tflops:
        return f"{rungs} of matrix multiplication"
    guess = every[0].origin == PREDICTED
    low, high = first[0].tflops, max(s.tflops for s in first)
    others = [(panel, max(s.tflops for s in known)) for panel, known in panels[1:] if known]
    if not others:
        return f"{rungs}, {'predicted to go ' * guess}from {tflops(low)} to {tflops(high)} TFLOPS"
    more = "".join(f", {_round(best)} on {panel.units}" for panel, best in others)
    return f"{rungs}{', predicted' * guess}: {tflops(low)} to {_round(high)} TFLOPS on {panels[0][0].units}{more}"


def top_facts(model: ReportModel, speeds: Speeds) -> tuple[Fact, ...]:
    """The figures at the top: the fastest rung of each execution unit, the tuned choice, and how many rungs passed."""
    made = [fact for at, panel in enumerate(panels_of(model)) for fact in _fastest(model, speeds, panel, at == 0)]
    made += [Fact(f"{choice.name}, of {contender(model.baseline)}", share_of_cublas(choice.of_cublas), RECORDED)
             for choice in choices_of(model, speeds) if choice.precision != "fp32-fast"]  # fmt: skip
    checked = [r for r in model.rungs if r.trusted is not None]
    if checked:
        good = sum(bool(r.trusted) for r in checked)
        origin = MEASURED if model.measured else SIMULATED
        made.append(Fact("verified against float64", f"{good} of {len(checked)}", origin))
    return tuple(made)


def _fastest(model: ReportModel, speeds: Speeds, panel: Panel, over: bool) -> Sequence[Fact]:
    known = _known(panel, model, speeds)
    if not known:
        return ()
    rung, best = max(known, key=lambda item: item[1].tflops)
    made = [Fact(f"fastest{panel.on_units}: {rung.name}", f"{tflops(best.tflops)} TFLOPS", best.origin)]
    if math.isfinite(best.of_baseline):
        inputs = "" if panel.alone else f", {rung.dtype} inputs"
        made.append(Fact(f"of {contender(model.baseline)}{inputs}", percent(best.of_baseline), best.origin))
    slowest, first = known[0]
    if over and first is not best and (first.origin, first.gpu) == (best.origin, best.gpu):
        made.append(Fact(f"{'' if panel.alone else f'{rung.name} '}vs {slowest.name}",
                         times(best.tflops / first.tflops), best.origin))  # fmt: skip
    return made


def _known(panel: Panel, model: ReportModel, speeds: Speeds) -> list[tuple[Rung, Speed]]:
    """Comparable speeds: if any rung was timed, predictions are left out."""
    found = [(rung, s) for rung in panel.rungs if (s := headline(rung, model, speeds)) is not None]
    return [(rung, s) for rung, s in found if s.origin != PREDICTED] or found


def _round(value: float) -> str:
    """Whole TFLOPS from 100 on."""
    return f"{value:,.0f}" if value >= 100 else tflops(value)
