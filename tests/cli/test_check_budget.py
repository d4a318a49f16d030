"""Where seconds are short, check looks for races once in launches that differ in data or padding alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gemmsmith.cli.check_run import _fitted_trials, _watched_before
from gemmsmith.problem import Problem
from gemmsmith.verify.trial import DISTINCT, ODD, PADDED, RAGGED, SCALED, Trial

BASE = Problem(64, 64, 64)
FIRST = Trial("integers, bit for bit", BASE, "exact", "integers", "lockstep")


def trial(label: str, problem: Problem, schedule: str = "lockstep") -> Trial:
    return Trial(label, problem, "float", "normal", schedule)


def seen(hazards: bool = True) -> Any:
    ran = Trial(FIRST.label, BASE, FIRST.mode, FIRST.fill, "lockstep", hazards=hazards)
    return SimpleNamespace(verdicts=[(ran, None)])


@pytest.mark.parametrize(("again", "watched"), [
    (trial("random data", BASE), True),
    (trial(PADDED, BASE.with_(lda=72, ldb=80, ldc=76)), True),
    (trial(ODD, BASE.with_(lda=67, ldb=69, ldc=71)), False),
    (trial(SCALED, BASE.with_(alpha=0.7, beta=-1.5)), False),
    (trial(DISTINCT, Problem(64, 128, 192)), False),
    (trial("warps reversed", BASE, "reversed"), False),
], ids=lambda value: str(getattr(value, "label", value)))  # fmt: skip
def test_what_counts_as_the_same_launch(again: Trial, watched: bool) -> None:
    assert _watched_before(again, seen()) is watched
    assert not _watched_before(again, seen(hazards=False))


def test_trials_that_fit_are_not_planned_where_no_time_is_left() -> None:
    """To plan them takes seconds too."""
    passed = (trial(RAGGED, BASE), SimpleNamespace(trusted=True))
    report: Any = SimpleNamespace(verdicts=[passed], ragged=None, skipped=[], budget=0.0)
    asked: Any = SimpleNamespace(free=True, budget=15.0)
    assert _fitted_trials(None, report, asked, -1e6, lambda: None)  # type: ignore[arg-type]
    assert report.skipped == [("trials that fit it", "no time in 15 s; gemmsmith verify --full runs them")]
    assert report.budget == 15.0
