"""benchmarks/time_candidates.py: the fastest and the choice are timed again, and only the later samples count."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import time_candidates as timing


class LuckyRig:
    """Every contender takes its time; the first round of ``lucky`` is 5 % too fast."""

    def __init__(self, lucky: str) -> None:
        self.lucky, self.calls = lucky, 0

    def rounds(self, contenders: Sequence[Any], _mode: Any, count: int) -> None:
        self.calls += 1
        for each in contenders:
            luck = 0.95 if self.calls == 1 and each.name == self.lucky else 1.0
            each.samples += [each.seconds * luck] * count


def contenders(*us: float) -> list[Any]:
    return [timing.Timed(str(i), None, 1, each * 1e-6, lambda: None) for i, each in enumerate(us)]  # type: ignore[arg-type]


def test_finalists_are_library_choice_and_the_fastest() -> None:
    assert timing.finalists([9.0, 12.0, 10.0, 10.3, 10.5, 10.2], 1.04, 2) == [0, 1, 2, 5]
    assert timing.finalists([9.0], 1.04, 2) == [0]


@pytest.mark.parametrize("again", [0, 12])
def test_luck_of_the_first_samples_is_forgotten(again: int) -> None:
    rig: Any = LuckyRig("3")
    found = timing.mean_of_modes(rig, contenders(9.0, 10.0, 10.1, 10.2, 12.0), timing.QUICK,
                                 timing.Sampling(4, again), None)  # fmt: skip
    assert found["us"].index(min(found["us"][1:])) == (1 if again else 3)
    assert found["us"][4] == pytest.approx(12.0), "slower ones keep their first times"
    if again:
        assert found["first"][3] == pytest.approx(10.2 * 0.95)


def test_under_the_cap_others_are_scaled() -> None:
    rig: Any = LuckyRig("")
    found = timing.mean_of_modes(rig, contenders(9.0, 10.0, 10.1, 12.0), timing.QUICK, timing.Sampling(4, 3),
                                 timing.CAPPED)  # fmt: skip
    assert math.isnan(found["capped"][3])
    assert found["us"] == pytest.approx([9.0, 10.0, 10.1, 12.0])
