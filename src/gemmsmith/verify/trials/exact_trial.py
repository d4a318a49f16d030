"""A trial in which one wrong term shows."""

from __future__ import annotations

from gemmsmith.errors import ProblemError
from gemmsmith.fills import integer_bound
from gemmsmith.problem import Problem
from gemmsmith.verify.oracles.arithmetic import exact_limit
from gemmsmith.verify.trials.trial import Trial
from gemmsmith.verify.trials.trial_subject import Subject


def exact_trial(subject: Subject, label: str, problem: Problem, why: str = "") -> Trial:
    """On integers, bit for bit, if the sums allow that: one wrong term shows."""
    spec = subject.spec
    try:
        integer_bound(problem, exact_limit(spec))
    except ProblemError:
        return Trial(label, problem, "float", "normal", "lockstep", subject.c, False, why=why)
    return Trial(label, problem, "exact", "integers", "lockstep", subject.c, False, why=why)
