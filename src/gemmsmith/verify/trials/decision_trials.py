"""Trials at sizes and scalars with which a kernel decides as in no other trial."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gemmsmith.problem import Problem
from gemmsmith.verify.trials.exact_trial import exact_trial
from gemmsmith.verify.trials.trial import Size, Trial
from gemmsmith.verify.trials.trial_subject import Subject

_IN_SECONDS = 48  # trials of a check, as far as its seconds go


def decision_trials(subject: Subject, usual: Iterable[Trial], full: bool) -> Iterator[Trial]:
    """Outcomes of decisions, and pairs of them, that the plain trials do not have: of ``usual`` trials those that add
    most for their cost, and others where none of these has an outcome; ``full``: all that were found."""
    own = {trial.problem: trial for trial in usual if trial.size is Size.WHOLE}
    for each in subject.coverage.products if full else subject.coverage.products[:_IN_SECONDS]:
        problem = each.problem
        if problem in own:
            yield own[problem]
            continue
        label = f"{_shape(problem)}, where {each.where} decides otherwise"
        yield replace(exact_trial(subject, label, problem, each.text), hazards=True)


def plain_problems(subject: Subject) -> list[Problem]:
    """What other trials have for certain."""
    base, depth = subject.base, subject.depth
    ragged = subject.problem(base.m + 1, base.n - 1 or 1, base.k + 3)
    return [base, subject.one_tile(2 * depth + 3), subject.one_tile(depth + 1), ragged]


def _shape(problem: Problem) -> str:
    scalars = f", alpha {problem.alpha:g}, beta {problem.beta:g}" if (problem.alpha, problem.beta) != (1, 0) else ""
    return f"{problem.m}x{problem.n}x{problem.k}{scalars}"
