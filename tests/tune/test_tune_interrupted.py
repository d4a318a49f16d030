"""Tuning on a fake GPU: what a stop, a kill, a fault and the budget leave, and how the next run goes on."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from fake_bench import FakeGpu
from fake_hopper import H200
from tuning_bench import OTHER, PROBLEM, Bench, killed, width, zero

from gemmsmith.errors import LaunchError, UsageError
from gemmsmith.problem import Problem
from gemmsmith.tune.arena import LostContextError
from gemmsmith.tune.plan import TuningPlan
from gemmsmith.tune.tuning import GROUP, LONG_FINALISTS


def test_a_kill_loses_nothing_that_was_finished(bench: Bench) -> None:
    bench.facts = {72: {"before": killed}}  # the second group
    with pytest.raises(SystemExit):
        bench.run()
    assert bench.history.best == {}
    bench.facts = {}
    (found,) = bench.run()
    assert bench.entered[:-LONG_FINALISTS] == [80, 72], "who was there comes last"
    assert (found.state, width(found.best), found.tried) == ("tuned", 8, 10)


def test_a_candidate_that_kills_the_process_twice_is_excluded(bench: Bench) -> None:
    for _ in range(2):
        bench.facts = {16: {"before": killed}}
        with pytest.raises(SystemExit):
            bench.run()
    assert bench.entered[-1] == 16
    (found,) = bench.run()
    assert 16 not in bench.entered
    assert [(dict(t.config)["BN"], t.why) for t in found.unusable] == [
        (16, "the process died 2 times while it was running")
    ]
    assert width(found.best) == 8, "its neighbours in the group are not blamed"


def test_stopping_by_hand_excludes_no_candidate(bench: Bench) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    for _ in range(3):
        bench.facts = {16: {"before": stop}}
        with pytest.raises(KeyboardInterrupt):
            bench.run()
    bench.facts = {}
    assert bench.run()[0].unusable == ()


def test_a_lost_context_ends_the_run_and_the_next_run_skips_the_candidate(bench: Bench) -> None:
    def lost() -> None:
        raise LaunchError("illegal address")

    def losing() -> None:
        bench.gpu.watch.synchronize = lost  # type: ignore[method-assign]

    bench.facts = {16: {"faults": "illegal address", "before": losing}}
    with pytest.raises(LostContextError, match=r"BN=16.*illegal address\nthis process cannot use the GPU any more"):
        bench.run()
    bench.gpu = FakeGpu()
    (found,) = bench.run()
    assert 16 not in bench.entered
    assert (width(found.best), found.unusable[0].why) == (8, "illegal address")


def test_a_torn_line_is_removed_and_the_run_continues(bench: Bench) -> None:
    bench.run()
    lines = bench.path.read_bytes().splitlines(keepends=True)
    bench.path.write_bytes(b"".join(lines[:-1]) + lines[-1][:25])
    (found,) = bench.run()
    assert found.state == "tuned"
    assert bench.entered == [8 * i for i in range(1, LONG_FINALISTS + 1)], "the last step only"
    for line in bench.path.read_text().splitlines():
        json.loads(line)


# --- the budget


def test_the_budget_ends_a_run_and_the_next_continues(bench: Bench) -> None:
    first, second, _ = bench.run(PROBLEM, OTHER, OTHER.with_(m=24), budget=0.5)
    assert {m for m, _ in bench.begun} == {PROBLEM.m, OTHER.m}, "what will not be timed is not compiled"
    assert (first.state, width(first.best), first.tried) == ("unfinished", 8, GROUP)
    assert (second.state, second.best, second.tried) == ("unfinished", None, 0)
    first, second = bench.run(PROBLEM, OTHER)
    assert (first.state, second.state) == ("tuned", "tuned")
    assert bench.entered[:2] == [72, 80]
    assert [found.state for found in bench.run(PROBLEM, OTHER, budget=1e-9)] == ["known", "known"]


def stored(bench: Bench) -> list[int]:
    """Tile widths that calls use."""
    return [width(entry) for entry in bench.file.best(H200).values()]


def test_out_of_time_the_best_so_far_is_stored_where_it_is_faster(bench: Bench) -> None:
    bench.used = 32
    (found,) = bench.run(budget=0.5)
    assert (found.state, width(found.best), stored(bench)) == ("unfinished", 8, [8])
    assert bench.history.so_far, "later runs go on"
    (found,) = bench.run()
    assert (found.state, found.tried, bench.history.so_far) == ("tuned", bench.count, set())


@pytest.mark.parametrize(("gain", "expected"), [(0.005, []), (0.02, [16])])
def test_out_of_time_nothing_is_stored_for_less_than_one_per_cent(
    bench: Bench, gain: float, expected: list[int]
) -> None:
    bench.used, bench.facts = 8, {16: {"seconds": 1e-3 * (1 - gain)}}
    (found,) = bench.run(budget=0.5)
    assert (found.state, stored(bench)) == ("unfinished", expected)


def test_out_of_time_what_is_incorrect_is_not_stored(bench: Bench) -> None:
    bench.used, bench.facts = 64, {8: {"spoil": zero}, 16: {"spoil": zero}}
    (found,) = bench.run(budget=0.5)
    assert (found.state, stored(bench)) == ("unfinished", [24])


def test_what_calls_use_now_is_timed_first_also_where_it_is_no_candidate(bench: Bench) -> None:
    bench.used, bench.facts = 88, {88: {"seconds": 5e-4}}
    (found,) = bench.run()
    assert (bench.entered[0], width(found.best)) == (88, 88)


@pytest.mark.parametrize("plan", [{"budget": 0.0}, {"budget": -1.0}, {"per_shape": 0}, {"budget": math.nan}])
def test_impossible_plans(plan: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        TuningPlan(**plan)


@pytest.mark.parametrize("problem", [PROBLEM.with_(beta=1.0), PROBLEM.with_(k=0), PROBLEM.with_(batch=2)])
def test_what_cannot_be_tuned(bench: Bench, problem: Problem) -> None:
    with pytest.raises(UsageError, match="cannot be tuned"):
        bench.run(problem)
    assert not bench.path.exists()
