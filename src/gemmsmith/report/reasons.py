"""Why a rung differs from the one before, in one sentence: the page and the terminal say the same."""

from __future__ import annotations

import math

from gemmsmith.report.charts.words import sentence
from gemmsmith.report.report_model import Rung, Story
from gemmsmith.report.speeds import Speed, Speeds

_SAME = 0.98  # a rung within two per cent of the one before is not called slower
_APART = 3 / 2  # model and timing that differ by more than a third of the larger: the model explains nothing


def reason(rung: Rung, story: Story, speeds: Speeds) -> str:
    """The largest reason, by timings where both rungs were timed, else by the model; '' where there is none.

    That a rung is no faster comes first, where it is not. Where the model contradicts the timings its reasons are not
    those of the step: the rung's own idea stands instead, as it does where there is no model of a rung.
    """
    before = next((r for r in story.rungs if r.name == rung.before), None)
    if not rung.why:
        pair = _timed(rung, before, story, speeds) if before is not None else None
        return f"{_step(*pair, before)}. {_idea(rung)}" if before is not None and pair is not None else ""
    largest = rung.why[1] if len(rung.why) > 1 else rung.why[0]
    if before is None:
        return largest
    pair = _timed(rung, before, story, speeds)
    guess = _guess(rung, before)
    if pair is None:
        if guess <= _SAME:
            return f"predicted to be slower than {before.name}, at {guess:.0%} of its speed. {largest}"
        return rung.why[0] if _way(guess) == 0 else largest
    step = _step(*pair, before)
    unexplained = contradiction(rung, story, speeds)
    if unexplained:
        return f"{step}. {unexplained} {_idea(rung)}"
    return largest if _way(pair[0].tflops / pair[1].tflops) > 0 else f"{step}. {largest}"


def contradiction(rung: Rung, story: Story, speeds: Speeds) -> str:
    """A sentence where model and timings point different ways or are more than a third apart; else ''."""
    before = next((r for r in story.rungs if r.name == rung.before), None)
    pair = _timed(rung, before, story, speeds) if before is not None else None
    if before is None or pair is None:
        return ""
    known, guess = pair[0].tflops / pair[1].tflops, _guess(rung, before)
    near = 1 / _APART <= known / guess <= _APART
    if math.isnan(guess) or (near and _way(known) in (0, _way(guess))):
        return ""
    return f"The model predicts {guess:.2f} times the speed of {before.name}, so it does not explain this step."


def _step(here: Speed, there: Speed, before: Rung) -> str:
    ratio = here.tflops / there.tflops
    figures = f"{here.tflops:.3g} against {there.tflops:.3g} TFLOPS"
    words = {-1: "slower than", 0: "as fast as"}.get(_way(ratio), f"{ratio:.2f} times as fast as")
    return f"{words} {before.name}, {figures}"


def _idea(rung: Rung) -> str:
    idea = rung.teaches or rung.summary
    return sentence(f"its idea: {idea}") if idea else ""


def _way(ratio: float) -> int:
    """-1: slower, 0: alike, 1: faster; an unknown ratio counts as faster, as rungs are meant to be."""
    return -1 if ratio <= _SAME else 0 if ratio < 1 / _SAME else 1


def _timed(rung: Rung, before: Rung, story: Story, speeds: Speeds) -> tuple[Speed, Speed] | None:
    """Both rungs' timings at the story's size, of one machine."""
    if rung.trusted is False or before.trusted is False:
        return None
    here, there = (speeds.at(r.name, story.problem) for r in (rung, before))
    if here is None or there is None or (here.origin, here.gpu) != (there.origin, there.gpu):
        return None
    return here, there


def _guess(rung: Rung, before: Rung) -> float:
    """The model's ratio; NaN, which compares with nothing, where one of them is not known."""
    one, other = (r.diagnosis.case.estimate.tflops if r.diagnosis is not None else math.nan for r in (rung, before))
    return one / other if one > 0 and other > 0 else math.nan
