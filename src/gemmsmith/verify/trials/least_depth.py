"""The least K of a kernel for whole k-tiles: a pipeline that loads several of them before its loop needs as many.

A smaller K is no shape that such a kernel was meant for, since it loads k-tiles that are not there, or one of them
several times if it stays inside its matrices. It is told to the user, and not tried. One that does neither and is wrong
all the same is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gemmsmith.problem import Problem
from gemmsmith.verify.trials.multiples import Multiples, WrongGuard
from gemmsmith.verify.trials.trial import Trial
from gemmsmith.verify.verdict import Verdict, is_hazard, refuses_extent

_MOST_STAGES = 8
_EXACT = 1e-3  # rounding of 16 bits


def with_least_depth(
    run: Callable[[Trial], Verdict | None], trial: Trial, base: Problem, multiples: Multiples, k_tile: int
) -> Multiples:
    """``multiples`` with ``from_k``, and with the k-tile where the base shape itself is the least K. ``base`` is right,
    and ``k_tile`` is what the code's loop advances by, if that is known. Raises WrongGuard."""

    def judged(k: int) -> Verdict | None:
        return run(replace(trial, problem=base.with_(k=k)))

    def passes(k: int) -> bool:
        verdict = judged(k)
        return verdict is not None and verdict.trusted

    step, least = multiples.k, 0
    if step == base.k and 1 < k_tile < step and step % k_tile == 0 and passes(step + k_tile):
        step, least = k_tile, base.k
    first = judged(step) if step < base.k else None
    if first is None or first.trusted or is_hazard(first):
        return replace(multiples, k=step, from_k=least)
    excused = first.faulted or first.damage or first.unwritten or refuses_extent(first) or _adds_again(first)
    if first.wrong and not excused:
        raise WrongGuard("K", replace(trial, problem=base.with_(k=step)), first)
    stages = range(2, min(_MOST_STAGES, base.k // step) + 1)
    return replace(multiples, k=step, from_k=next((n * step for n in stages if passes(n * step)), base.k))


def _adds_again(verdict: Verdict) -> bool:
    """Whether all terms of a result are there several times: its k-tile was loaded for each stage."""
    if verdict.got is None or not verdict.expected:
        return False
    times = verdict.got / verdict.expected
    return 2 <= round(times) <= _MOST_STAGES and abs(times - round(times)) < _EXACT
