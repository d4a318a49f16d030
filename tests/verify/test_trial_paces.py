"""A budget of seconds is kept by what trials took before."""

from __future__ import annotations

import pytest

from gemmsmith.problem import Problem
from gemmsmith.verify.trials.trial import Size, Trial
from gemmsmith.verify.trials.trial_paces import Paces


def _trial(m: int, n: int, k: int, size: Size = Size.WHOLE, blocks: tuple[int, ...] = ()) -> Trial:
    return Trial(f"{m}x{n}x{k}", Problem(m, n, k), "exact", "integers", "lockstep", size=size, blocks=blocks)


def test_nothing_is_known_at_first() -> None:
    assert Paces().at_least(_trial(64, 64, 64)) == 0.0


def test_whole_launches_gain_from_their_size() -> None:
    paces = Paces()
    paces.ran(_trial(64, 64, 64), 1.0)
    paces.ran(_trial(64, 64, 128), 1.0)  # the faster one counts
    assert paces.at_least(_trial(128, 128, 128)) == pytest.approx(4 / 5)


def test_some_blocks_take_as_many_steps_along_k_as_all() -> None:
    paces = Paces()
    paces.stepped(_trial(64, 64, 64), 1.0)
    paces.stepped(_trial(64, 64, 128), 1.0)
    assert paces.at_least(_trial(64, 64, 64)) == 0.0  # of multiply-adds nothing is known
    assert paces.at_least(_trial(1000, 1000, 1280, Size.SPARSE, (0,))) == 0.0
    assert paces.at_least(_trial(12_800, 12_800, 12_800, Size.SPARSE, (0,))) == pytest.approx(100.0)
    paces.ran(_trial(1000, 1000, 1000, Size.SPARSE, (0,)), 0.5)
    assert paces.at_least(_trial(1000, 1000, 1280, Size.SPARSE, (0,))) == pytest.approx(0.64)


def test_some_blocks_take_as_long_as_their_k() -> None:
    paces = Paces()
    paces.ran(_trial(1024, 1024, 1000, Size.SPARSE, (0, 1)), 0.5)
    assert paces.at_least(_trial(35_008, 35_008, 35_000, Size.SPARSE, (0, 7))) == pytest.approx(17.5)
