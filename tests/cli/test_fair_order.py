"""Where seconds are short, every group of trials gets its turn, and plain trials use fewer tiles."""

from __future__ import annotations

from typing import Any

import pytest

from gemmsmith.cli import lighter_trials as module
from gemmsmith.cli.lighter_trials import LighterTrials
from gemmsmith.problem import Problem
from gemmsmith.verify.trials.fair_order import fair_order, too_slow
from gemmsmith.verify.trials.trial import DECISIONS, DISTINCT, EDGES, SCALED, TILES, Trial
from gemmsmith.verify.trials.trial_paces import Paces


def trial(label: str, group: str = "", problem: Problem | None = None) -> Trial:
    return Trial(label, problem or Problem(64, 64, 64), "exact", "integers", "lockstep", group=group)


def test_each_group_in_turn_with_the_edges_of_the_code_first() -> None:
    data = [trial("NaN", "data"), trial("zeros", "data"), trial("subnormals", "data")]
    tiles = [trial("many rows", TILES)]
    edges = [trial("M = 16, where a changes", EDGES), trial("M = 17, where a changes", EDGES),
             trial("K = 513, where b changes", EDGES)]  # fmt: skip
    depths = [trial("K = 1", "K")]
    found = [each.label.partition(",")[0] for each in fair_order([*data, *tiles, *edges, *depths])]
    assert found == ["K = 513", "M = 16", "NaN", "K = 1", "many rows", "M = 17", "zeros", "subnormals"]


def test_decisions_come_first_and_leave_the_others_their_turns() -> None:
    decisions = [trial(str(number), DECISIONS) for number in range(8)]
    found = [each.label for each in fair_order([trial("NaN", "data"), trial("zeros", "data"), *decisions])]
    assert found == ["0", "1", "2", "3", "4", "5", "NaN", "6", "7", "zeros"]


def test_fair_only_where_the_rest_does_not_fit() -> None:
    assert too_slow(ran=2, seconds=1.0, waiting=10, left=4.9)
    assert not too_slow(ran=2, seconds=1.0, waiting=10, left=5.0)
    assert not too_slow(ran=0, seconds=0.0, waiting=10, left=0.0)


def test_plain_trials_of_a_slow_kernel_use_fewer_tiles() -> None:
    first, scaled, only = trial("random data"), trial(SCALED), trial("C is not read when beta = 0")
    light = trial(SCALED, problem=Problem(32, 16, 64))
    lighter = LighterTrials({SCALED: light, only.label: trial(only.label, problem=Problem(64, 48, 64))})
    waiting = [first, scaled, only]
    assert lighter.lighten(waiting, pace=1e-9, left=10.0) == waiting
    assert lighter.larger(scaled) is None
    # Three quarters of the work save little.
    assert lighter.lighten(waiting, pace=1e-5, left=10.0) == [first, light, only]
    assert lighter.larger(light) is scaled
    assert lighter.larger(light) is None
    assert lighter.lighten(waiting, pace=1e-5, left=10.0) == [first, light, only]
    assert lighter.restored([light, only]) == [scaled, only]
    assert lighter.lighten(waiting, pace=1e-5, left=10.0) == waiting  # none is replaced after that


def test_one_shape_of_few_tiles_may_be_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial of M, N and K all different is lighter, too, where the base shape of few tiles has that."""
    monkeypatch.setattr(module, "few_tiles", lambda *_: Problem(32, 64, 192))
    monkeypatch.setattr(module, "no_launch", lambda *_: "")

    def planned(base: Problem, distinct: Problem) -> list[Trial]:
        found = [trial("random data", problem=base), trial(DISTINCT, problem=distinct)]
        return found if distinct != base else found[:1]

    none: Any = None
    found = module.lighter_trials(none, none, Problem(64, 64, 192), Problem(64, 128, 192), planned)
    assert found.light[DISTINCT].problem == Problem(32, 64, 192)


def test_a_kernel_for_one_size_has_no_fewer_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a trial was run all the same, and the kernel refused for it."""
    monkeypatch.setattr(module, "few_tiles", lambda *_: Problem(32, 64, 192))
    monkeypatch.setattr(
        module, "no_launch", lambda _, __, problem: "" if problem.m == 64 else "compiled for M=64 alone"
    )
    none: Any = None
    own = Problem(64, 128, 192)
    found = module.lighter_trials(none, none, own, own, lambda base, _: [trial("random data", problem=base)])
    assert not found.light


def test_a_small_k_does_not_make_many_outputs_cheap() -> None:
    paces = Paces()
    many = trial("many rows", TILES, Problem(223, 23, 1))
    assert paces.for_outputs(many) == 0
    paces.ran(trial("K = 1", "K", Problem(31, 7, 1)), 0.1)
    assert 2.3 < paces.for_outputs(many) < 2.4
    paces.ran(trial("K = 300", "K", Problem(31, 14, 300)), 0.1)
    assert 1.1 < paces.for_outputs(many) < 1.2
