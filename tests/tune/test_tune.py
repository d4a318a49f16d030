"""Tuning on a fake GPU: what is timed, compiled, stored and reused in a run that nothing disturbs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from fake_bench import FakeContender
from fake_hopper import H200
from tuning_bench import OTHER, PROBLEM, Bench, killed, width, zero

from gemmsmith.choose.key import shape_key
from gemmsmith.tune.tuning import FINALISTS, GROUP, LONG_FINALISTS


def test_the_fastest_wins_and_is_stored(bench: Bench) -> None:
    bench.facts = {40: {"seconds": 5e-4}}
    (found,) = bench.run()
    assert (found.state, found.tried, found.unusable) == ("tuned", 10, ())
    assert width(found.best) == 40
    assert found.best is not None
    assert found.best.us == pytest.approx(500)
    assert found.best.cublas_us == pytest.approx(2000)
    history = bench.history
    assert width(history.best[shape_key(PROBLEM)]) == 40
    times = {dict(t.config)["BN"]: t.us for t in history.tried[shape_key(PROBLEM)].values()}
    assert times[8] == pytest.approx(1000)
    assert times[80] == pytest.approx(10000)
    assert not bench.gpu.memory.live, "operands are freed"
    assert {contender.closed for contender in bench.contenders} == {1}
    assert bench.gpu.watch.open_graphs == 0
    assert not bench.gpu.watch.is_active


@pytest.mark.parametrize(("settles", "finalists"), [(1.0, FINALISTS), (1e-4, LONG_FINALISTS)])
def test_all_get_short_samples_and_only_the_best_get_long_ones(
    bench: Bench, settles: float, finalists: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More finalists where kernels take long."""
    monkeypatch.setattr("gemmsmith.tune.tuning.SETTLES", settles)
    bench.run()
    assert bench.entered[:10] == [8 * i for i in range(1, 11)]
    assert bench.entered[10:] == [8 * i for i in range(1, finalists + 1)]
    assert FINALISTS < LONG_FINALISTS < 10
    assert GROUP < 10, "or there is one group only"


@pytest.mark.parametrize(("settles", "last"), [(1.0, [8, 16, 24, 32]), (1e-4, [8, 24, 40, 56, 72, 16, 32, 48])])
def test_long_kernels_of_all_tile_sizes_are_timed_again(
    bench: Bench, settles: float, last: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here two widths count as one size, and each size has one candidate before any has two."""
    monkeypatch.setattr("gemmsmith.tune.tuning.SETTLES", settles)
    monkeypatch.setattr("gemmsmith.choose.candidates._PER_SIZE", 1)
    monkeypatch.setattr("gemmsmith.choose.candidates.tile_size", lambda candidate: (candidate.config["BN"] + 8) // 16)
    bench.run()
    assert bench.entered[10:] == last


def test_the_next_shape_is_compiled_while_one_is_timed(bench: Bench) -> None:
    seen: list[list[tuple[int, int]]] = []
    bench.facts = {8: {"before": lambda: seen.append(list(bench.begun))}}
    bench.run(PROBLEM, OTHER)
    assert seen[0] == [(PROBLEM.m, 10), (OTHER.m, 10), (PROBLEM.m, 10)], "before the first candidate is timed"
    bench.begun.clear()
    bench.run(PROBLEM, OTHER)
    assert {count for _, count in bench.begun} == {0}, "nothing is left to compile"


def test_close_candidates_are_timed_again_before_the_finalists_are_chosen(bench: Bench) -> None:
    """In very short samples 24 looks best, and 48 is beyond the finalists."""
    calls = dict.fromkeys(range(8, 88, 8), 0)

    def seconds(width: int) -> Callable[[int], float]:
        def jitter(launch: int) -> float:
            return 1 + (0.002 * width / 8 if launch < 40 else 0.0) - (0.03 if width == 48 and launch >= 40 else 0.0)

        return jitter

    bench.facts = {width: {"seconds": 5e-5, "jitter": seconds(width)} for width in calls}
    (found,) = bench.run()
    assert width(found.best) == 48
    assert bench.entered.count(48) >= 2


def test_candidates_are_compiled_in_steps_and_those_that_are_ready_are_timed_first(bench: Bench) -> None:
    bench.count = 32
    bench.unready = {8, 16, 24}
    bench.run(per_shape=16)
    assert bench.begun[0] == (PROBLEM.m, 16), "not more than will be timed"
    assert bench.entered[:8] == [8 * i for i in range(4, 12)], "the GPU does not wait for the first three"
    assert set(bench.entered[:16]) == {8 * i for i in range(1, 17)}


def test_neighbours_of_the_best_are_timed_as_well(bench: Bench) -> None:
    bench.near = {8: [16, 96, 104], 16: [96, 112], 24: [120]}
    bench.facts = {104: {"seconds": 5e-4}, 112: {"spoil": zero, "seconds": 1e-4}}
    (found,) = bench.run()
    assert bench.compiled[10:] == [96, 104, 112], "what is new, of the best two"
    assert (width(found.best), found.tried) == (104, 13)
    assert [dict(t.config)["BN"] for t in found.unusable] == [112]
    assert bench.run()[0].state == "known"
    assert bench.entered == []


def test_a_kill_among_neighbours_loses_nothing(bench: Bench) -> None:
    bench.near = {8: [96, 104]}
    bench.facts = {104: {"before": killed}}
    with pytest.raises(SystemExit):
        bench.run()
    bench.facts = {104: {"seconds": 1e-4}}
    assert width(bench.run()[0].best) == 104
    assert bench.entered[:2] == [96, 104]


def test_known_results_are_not_timed_again(bench: Bench) -> None:
    (first,) = bench.run()
    (again,) = bench.run()
    assert again.state == "known"
    assert again.best is not None
    assert first.best is not None
    assert (again.best.kernel, again.best.config) == (first.best.kernel, first.best.config)
    assert (bench.entered, bench.compiled) == ([], [])


def test_additional_candidates_are_timed(bench: Bench) -> None:
    assert width(bench.run(per_shape=2)[0].best) == 8
    bench.facts = {24: {"seconds": 1e-4}}
    (more,) = bench.run(per_shape=3)
    assert bench.compiled == [24]
    assert (more.state, width(more.best)) == ("tuned", 24)


def test_changed_kernels_are_timed_again(bench: Bench) -> None:
    bench.run()
    bench.version = "2"
    bench.facts = {16: {"seconds": 1e-4}}
    assert width(bench.run()[0].best) == 16


def test_fresh_discards_candidates_and_keeps_the_old_best_until_there_is_a_new_one(bench: Bench) -> None:
    bench.run()
    bench.facts = {48: {"seconds": 1e-4}, 8: {"before": killed}}
    with pytest.raises(SystemExit):
        bench.run(fresh=True)
    assert width(bench.file.best(H200)[shape_key(PROBLEM)]) == 8
    bench.facts[8] = {}
    assert width(bench.run()[0].best) == 48


def test_without_cublas_absolute_times_decide(bench: Bench) -> None:
    bench.baseline = False
    bench.facts = {40: {"seconds": 5e-4}}
    (found,) = bench.run()
    assert width(found.best) == 40
    assert found.best is not None
    assert math.isnan(found.best.cublas_us)


def test_a_cublas_that_fails_is_noted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(self: Bench) -> FakeContender:
        return self.gpu.contender("cublas", kind="baseline", refuses="torch is not installed")

    monkeypatch.setattr(Bench, "_baseline", refusing)
    assert bench.run()[0].state == "tuned"
    assert any("cublas skipped: torch is not installed" in note for note in bench.gpu.messages.notes)


def test_groups_are_compared_relative_to_their_baseline(bench: Bench) -> None:
    """A clock that halves after the first group does not put the second group behind."""
    bench.count = 16
    slow = 1.0

    def jitter(_launch: int) -> float:
        return slow

    for bn in range(8, 136, 8):
        bench.facts[bn] = {"jitter": jitter, "seconds": 2e-3}
    bench.facts[72]["seconds"] = 1.5e-3  # the first of the second group

    def half() -> None:
        nonlocal slow
        slow = 2.0

    bench.facts[72]["before"] = half
    original: Callable[[Bench], FakeContender | None] = Bench._baseline

    def swinging(self: Bench) -> FakeContender | None:
        found = original(self)
        assert found is not None
        return replace(found, jitter=jitter)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bench, "_baseline", swinging)
        (found,) = bench.run()
    assert width(found.best) == 72
