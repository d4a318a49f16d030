"""benchmarks/plan_by_disagreement.py: every member's favourites are timed, and a part of a plan has some of all."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import plan_by_disagreement as planning


def test_favourites_of_all_members_come_in_turns() -> None:
    mean = np.log([1.0, 1.02, 1.05, 1.1, 1.5])
    one, other = np.log([1.1, 1.0, 1.2, 1.3, 0.9]), np.log([1.0, 1.3, 1.2, 0.9, 1.1])
    assert planning.favourites(mean, [one, other]) == [0, 3, 1, 2], "the last is far from the mean's best"


def test_a_member_has_few_favourites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "FAVOURITES", 1)
    mean, member = np.log([1.0, 1.01, 1.02, 1.03]), np.log([4.0, 3.0, 2.0, 1.0])
    assert planning.favourites(mean, [member]) == [0, 3, 1, 2]


def test_the_beginning_has_as_large_a_part_of_each_group() -> None:
    found = list(planning.evenly([list("aaaaaa"), list("bb"), ["c"]]))
    assert sorted(found) == sorted("aaaaaabbc")
    assert found[:5].count("a") == 3
    assert found[:5].count("b") == 1


def test_testing_and_recorded_shapes_are_left_out() -> None:
    testing = planning.shape_sets.any_rows(1, planning.TESTING_SEEDS[0])
    new = planning.Shape(808, 1064, 1336, origin="random, seed 92")
    assert planning.fitting([*testing, new, new], 1e15) == [new]
    assert planning.fitting([new], 1e6) == []
