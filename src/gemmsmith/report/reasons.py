"""One sentence on why a rung differs from the one before; the page and the terminal share it."""

from __future__ import annotations

import math

from gemmsmith.report.charts.words import sentence, short, size_of
from gemmsmith.report.report_model import ReportModel, Rung
from gemmsmith.report.speeds import Speed, Speeds

_SAME = 0.98  # within 2 % two rungs count as equally fast
_APART = 3 / 2  # beyond this factor between model and timing, the model does not explain the step


def reason(rung: Rung, model: ReportModel, speeds: Speeds) -> str:
    """The largest reason for the step, from timings if both rungs were timed, else from the model; '' if unknown.

    A rung that is not faster says so first. If the model contradicts the timings, or there is no model of the rung,
    the rung's own idea replaces the model's reason. A rung that is not made for cubes is compared at its own shapes.
    """
    before = next((r for r in model.rungs if r.name == rung.before), None)
    if own := at_own_shapes(rung):
        pair = _timed(rung, before, model, speeds) if before is not None else None
        here = f" At {_size(model)} it is {_step(*pair, before)}." if before is not None and pair is not None else ""
        return f"{own}{here} {_idea(rung)}"
    if not rung.why:
        pair = _timed(rung, before, model, speeds) if before is not None else None
        return f"{_step(*pair, before)}. {_idea(rung)}" if before is not None and pair is not None else ""
    largest = rung.why[1] if len(rung.why) > 1 else rung.why[0]
    if before is None:
        return largest
    pair = _timed(rung, before, model, speeds)
    predicted = _predicted_ratio(rung, before)
    if pair is None:
        if predicted <= _SAME:
            return f"predicted to run at {predicted:.0%} of the speed of {before.name}. {largest}"
        return rung.why[0] if _direction(predicted) == 0 else largest
    step = _step(*pair, before)
    unexplained = contradiction(rung, model, speeds)
    if unexplained:
        return f"{step}. {unexplained} {_idea(rung)}"
    return largest if _direction(pair[0].tflops / pair[1].tflops) > 0 else f"{step}. {largest}"


def at_own_shapes(rung: Rung) -> str:
    """How fast a rung is beside the one before it at shapes that it is made for, as recorded; '' for most rungs."""
    mine = [each for each in rung.made_for if each.before == rung.before]
    if not mine:
        return ""
    first, *more = (f"{each.ratio:.2f} {{}}at {size_of(each.m, each.n, each.k)} ({short(each.us)} vs "
                    f"{short(each.before_us)} µs)" for each in mine)  # fmt: skip
    told = ", ".join((first.format(f"times as fast as {rung.before} "), *(each.format("") for each in more)))
    return f"{told}; recorded on {mine[0].gpu}, at shapes that it is made for."


def contradiction(rung: Rung, model: ReportModel, speeds: Speeds) -> str:
    """A sentence if model and timings disagree in direction, or by more than a factor of 1.5; else ''."""
    before = next((r for r in model.rungs if r.name == rung.before), None)
    pair = _timed(rung, before, model, speeds) if before is not None else None
    if before is None or pair is None:
        return ""
    known, predicted = pair[0].tflops / pair[1].tflops, _predicted_ratio(rung, before)
    near = 1 / _APART <= known / predicted <= _APART
    if math.isnan(predicted) or (near and _direction(known) in (0, _direction(predicted))):
        return ""
    return f"The model predicts {predicted:.2f} times the speed of {before.name}, so it does not explain this step."


def _step(here: Speed, there: Speed, before: Rung) -> str:
    ratio = here.tflops / there.tflops
    figures = f"{here.tflops:.3g} vs {there.tflops:.3g} TFLOPS"
    words = {-1: "slower than", 0: "as fast as"}.get(_direction(ratio), f"{ratio:.2f} times as fast as")
    return f"{words} {before.name}, {figures}"


def _idea(rung: Rung) -> str:
    idea = rung.teaches or rung.summary
    return sentence(f"the idea: {idea}") if idea else ""


def _size(model: ReportModel) -> str:
    return size_of(model.problem.m, model.problem.n, model.problem.k)


def _direction(ratio: float) -> int:
    """-1: slower, 0: equal, 1: faster. An unknown ratio (NaN) counts as faster."""
    return -1 if ratio <= _SAME else 0 if ratio < 1 / _SAME else 1


def _timed(rung: Rung, before: Rung, model: ReportModel, speeds: Speeds) -> tuple[Speed, Speed] | None:
    """Both rungs' timings at the report's size, if they come from one machine."""
    if rung.trusted is False or before.trusted is False:
        return None
    here, there = (speeds.at(r.name, model.problem) for r in (rung, before))
    if here is None or there is None or (here.origin, here.gpu) != (there.origin, there.gpu):
        return None
    return here, there


def _predicted_ratio(rung: Rung, before: Rung) -> float:
    """The predicted speed ratio; NaN if either prediction is missing."""
    if rung.time is not None and before.time is not None:
        return before.time.us / rung.time.us
    one, other = (r.diagnosis.case.estimate.tflops if r.diagnosis is not None else math.nan for r in (rung, before))
    return one / other if one > 0 and other > 0 else math.nan
