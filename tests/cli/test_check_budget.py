"""Where seconds are short, check looks for races once in launches that differ in data or padding alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from checking import ONE_OUTPUT_A_THREAD

from gemmsmith.cli import check_clock, check_prepare
from gemmsmith.cli.affordable_trials import PlainPace, affordable, watched_any, watched_before
from gemmsmith.cli.check_clock import CheckClock
from gemmsmith.cli.check_cures import _seconds
from gemmsmith.cli.check_fitted import FittedTrials
from gemmsmith.cli.check_prepare import _larger
from gemmsmith.cli.commands import check
from gemmsmith.cli.main import run_command
from gemmsmith.compile.cpu_seconds import seconds_used
from gemmsmith.problem import Problem
from gemmsmith.verify.trials.check_shapes import CheckShapes
from gemmsmith.verify.trials.multiples import Multiples
from gemmsmith.verify.trials.trial import DISTINCT, ODD, PADDED, RAGGED, SCALED, TILES, Trial
from gemmsmith.verify.trials.trial_runner import TrialRunner

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
    assert watched_before(again, seen()) is watched
    assert not watched_before(again, seen(hazards=False))


def test_trials_that_fit_are_not_planned_where_no_time_is_left() -> None:
    """To plan them takes seconds too."""
    passed = (trial(RAGGED, BASE), SimpleNamespace(trusted=True))
    report: Any = SimpleNamespace(verdicts=[passed], ragged=None, skipped=[], budget=0.0)
    asked: Any = SimpleNamespace(free=True, budget=15.0)
    fitted = FittedTrials(None, report, asked, CheckClock(-1e6), lambda: None)  # type: ignore[arg-type]
    assert fitted.plan()
    assert not fitted.queue
    assert report.skipped == [("trials chosen for this kernel", "no time in 15 s; gemmsmith verify --full runs them")]
    assert report.budget == 15.0


def test_a_budget_counts_what_is_done_and_not_how_busy_the_machine_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same trials where each CPU second is worth less, and fewer where it is worth next to nothing."""
    path = tmp_path / "mine.cu"
    path.write_text(ONE_OUTPUT_A_THREAD, encoding="utf-8")
    words = ["check", str(path), "--block", "16,16", "--grid", "ceil(N/16),ceil(M/16)", "--json"]

    def labels(slower: float) -> list[str]:
        begin = seconds_used()
        monkeypatch.setattr(check_clock, "seconds_used", lambda: begin + slower * (seconds_used() - begin))
        assert run_command(words) == 0
        return [trial["label"] for trial in json.loads(capsys.readouterr().out)["trials"]]

    usual = labels(1.0)
    assert len(usual) > 30
    assert labels(1.2) == usual
    assert len(labels(1000.0)) < len(usual)


def test_cpu_seconds_end_a_check_where_they_are_more_than_what_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(check_clock, "seconds_used", lambda: now[0])
    clock = CheckClock(100.0)
    before = clock.used()
    now[0] += before
    assert clock.used() == before
    now[0] += 20.0
    assert clock.used() == pytest.approx(before + 20.0)


def test_races_are_looked_for_once_whatever_it_costs() -> None:
    assert not watched_any(trial("random data", BASE), seen(hazards=False))
    assert watched_any(trial(DISTINCT, Problem(64, 128, 192)), seen())


def test_seconds_count_from_the_start_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that has used up its seconds before the first trial runs those that every kernel gets, and says what it
    left out."""
    path = tmp_path / "mine.cu"
    path.write_text(ONE_OUTPUT_A_THREAD, encoding="utf-8")
    monkeypatch.setattr(check, "seconds_used", lambda: seconds_used() - 100)
    assert run_command(["check", str(path), "--block", "16,16", "--grid", "ceil(N/16),ceil(M/16)", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    skipped = str(found["skipped"])
    assert "warps reversed" in skipped
    assert f"races in '{DISTINCT}'" in skipped
    assert found["trials"][0]["label"] == "integers, bit for bit"
    assert len(found["trials"]) < 8
    assert found["seconds"] > 100
    assert "no time in 15 s" in found["certificate"]["reason"]


@pytest.mark.parametrize(("used", "given", "seconds"), [(2.0, False, 10.0), (7.0, False, 6.0), (14.5, False, 4.0),
                                                        (14.5, True, 10.0)])  # fmt: skip
def test_causes_get_what_a_check_left(used: float, given: bool, seconds: float) -> None:
    asked: Any = SimpleNamespace(cures=10.0, cures_given=given, budget=15.0)
    report: Any = SimpleNamespace(seconds=used)
    assert _seconds(report, asked) == seconds


_OUTSIDE = "out-of-bounds global read"


@pytest.mark.parametrize(("pace", "reasons", "tried"), [
    (0.0, {}, ["64x64x64", "128x128x64"]),
    (0.0, {128: ("wrong",)}, ["64x64x64", "128x128x64"]),
    (1e-4, {}, ["64x64x64"]),
    (1e-4, {128: ("wrong",)}, ["64x64x64", "128x128x64"]),
], ids=["quick, never large enough", "quick", "slow, never large enough", "slow"])  # fmt: skip
def test_meanings_are_tried_again_where_it_is_worth_the_seconds(
    pace: float, reasons: dict[int, tuple[str, ...]], tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow kernel that accesses memory outside its matrices at every shape is read once; one that does so at small
    shapes alone is read again at the first that is large enough."""
    clock, seen = [0.0], ["64x64x64"]
    spec: Any = SimpleNamespace(is_rung=True, signature=SimpleNamespace(square=False), problem=Problem)
    settled: Any = SimpleNamespace(spec=spec, reading=None)

    def launched(_: Any, __: Any, ___: Any, problem: Problem, **____: Any) -> Any:
        clock[0] += pace * problem.m * problem.n * problem.k
        return SimpleNamespace(reasons=reasons.get(problem.m, (_OUTSIDE,)), trusted=False)

    def read_again(_: Any, __: Any, ___: Any, shapes: CheckShapes, *____: Any) -> Any:
        seen.append("x".join(map(str, shapes.base)))
        return settled

    monkeypatch.setattr(check_prepare, "seconds_used", lambda: clock[0])
    monkeypatch.setattr(check_prepare, "verify_launch", launched)
    monkeypatch.setattr(check_prepare, "_settled", read_again)
    monkeypatch.setattr(check_prepare, "no_launch", lambda *_: "")
    bench: Any = SimpleNamespace(open=lambda: None)
    none: Any = None
    _, shapes = _larger(bench, settled, none, CheckShapes((64, 64, 64), (64, 128, 192)), none, none)
    assert seen[:2] == tried
    assert shapes.base[0] == (128 if reasons else 64)


@pytest.mark.parametrize(("left", "runs"), [(16.0, False), (18.0, True)])
def test_an_order_of_warps_costs_more_than_lockstep(left: float, runs: bool) -> None:
    """Each warp runs by itself, four times as slow as lockstep; no order is begun unless all four are affordable."""
    pace, report = PlainPace(), SimpleNamespace(verdicts=[], skipped=[])
    pace.ran(FIRST, 1.0)
    asked: Any = SimpleNamespace(free=True, budget=15.0)
    waiting = [trial("warps reversed", BASE, "reversed"), trial("random data", BASE)]
    assert (affordable(waiting, pace, left, report, asked) is not None) is runs  # type: ignore[arg-type]
    assert report.skipped == ([] if runs else [("warps reversed", "no time in 15 s")])


def test_seconds_of_orders_do_not_count_for_lockstep() -> None:
    pace = PlainPace()
    pace.ran(FIRST, 1.0)
    pace.ran(trial("warps reversed", BASE, "reversed"), 6.0)
    assert pace.seconds(trial("random data", BASE)) == pytest.approx(1.0)
    assert pace.seconds(trial("warps random", BASE, "random")) == pytest.approx(6.0)
    assert pace.slowest == pace.order


def test_many_rows_are_judged_by_rows_however_fast_columns_are() -> None:
    """A kernel whose blocks walk over all rows: 70,000 of them took more than a minute, since columns are fast."""
    fitted = FittedTrials(None, SimpleNamespace(), SimpleNamespace(), CheckClock(), lambda: None)  # type: ignore[arg-type]
    fitted.took(replace(trial("rows", Problem(2072, 32, 1)), group=TILES), 0.30)
    fitted.took(replace(trial("columns", Problem(8, 8288, 1)), group=TILES), 0.14)
    assert fitted._about(trial("70,000 rows", Problem(70_000, 1, 1))) > 10
    assert fitted._about(trial("70,000 columns", Problem(1, 70_000, 1))) < 2


@pytest.mark.parametrize(("seconds", "deepest", "expected"), [(0.4, 139, 1027), (3.0, 139, 190), (9.0, 139, 0)])
def test_many_k_tiles_take_few_seconds(seconds: float, deepest: int, expected: int) -> None:
    """The trial of many k-tiles is run though no seconds are left: with fewer where a kernel that waits for mbarriers
    took half a minute, and not where that is none more than were run."""
    fitted: Any = FittedTrials(None, SimpleNamespace(), SimpleNamespace(), CheckClock(), lambda: None)  # type: ignore[arg-type]
    before = trial(f"K = {deepest}", Problem(31, 31, deepest))
    fitted.took(before, seconds)
    fitted.report = SimpleNamespace(multiples=Multiples(1, 1, 2), verdicts=[(before, None)])
    found = fitted._in_few_seconds(trial("K = 1027", Problem(31, 31, 1027)))
    assert (found.problem.k if found else 0) == pytest.approx(expected, abs=8)
    assert not found or found.label == f"K = {found.problem.k}"


@pytest.mark.parametrize(("late", "trusted", "watched"), [
    (False, True, [True]), (True, True, [False]), (True, False, [False, True]),
])  # fmt: skip
def test_without_seconds_races_are_looked_for_where_a_result_is_wrong(
    late: bool, trusted: bool, watched: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search for multiples tries twenty shapes: looking for races in each took longer than all else."""
    looked: list[bool] = []

    def launched(_: TrialRunner, __: Trial, hazards: bool) -> Any:
        looked.append(hazards)
        return SimpleNamespace(trusted=trusted, faults=())

    monkeypatch.setattr(TrialRunner, "_launched", launched)
    none: Any = None
    TrialRunner(none, none, none, none, none, hurries=lambda: late).run(trial("63 rows", BASE))
    assert looked == watched


def test_a_hurried_search_is_told() -> None:
    asked: Any = SimpleNamespace(free=True, budget=15.0)
    for started, late in ((seconds_used(), False), (-1e6, True)):
        fitted = FittedTrials(None, SimpleNamespace(), asked, CheckClock(started), lambda: None)  # type: ignore[arg-type]
        assert fitted._hurries() is late
        assert fitted.hurried is late
