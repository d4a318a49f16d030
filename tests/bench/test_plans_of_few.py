"""What is timed for few rows, and which shapes are tuned again."""

from __future__ import annotations

import random
from typing import Any

import pytest
from plan_few import candidates, shapes
from tuned_against_cublas import losing

from gemmsmith.choose.columns import FEW, shape_of
from gemmsmith.choose.key import unaligned


def test_shapes_for_few_rows_are_few_and_aligned() -> None:
    found = list(shapes(30, seed=1))
    assert len(set(found)) == 30
    assert all(min(each.m, each.n) <= FEW and shape_of(each.problem).are_few for each in found)
    assert not any(unaligned(each.problem) for each in found)
    assert {each.m < each.n for each in found} == {True, False}, "few rows, and few columns"


def test_what_is_chosen_is_timed_first_and_nothing_twice() -> None:
    shape = next(shapes(1, seed=1))
    found = candidates(shape, 12, random.Random(0))
    assert len({each.name for each in found}) == len(found) == 12
    assert not any(each.spec.illegal(each.config) for each in found)


def case(m: int, burst: float, sustained: float) -> dict[str, Any]:
    shape = {"m": m, "n": 64, "k": 64, "layout": "NT", "dtype": "bf16", "out": "bf16", "batch": 1, "origin": "",
             "precision": "", "shared_b": False}  # fmt: skip
    return shape | {"burst": {"ratio": burst}, "sustained": {"ratio": sustained}}


@pytest.mark.parametrize(("below", "rows"), [(0.95, [3]), (0.98, [3, 2]), (0.5, [])])
def test_shapes_that_lose_in_one_mode_are_tuned_the_worst_first(below: float, rows: list[int]) -> None:
    cases = [case(1, 1.0, 1.1), case(2, 1.2, 0.97), case(3, 0.9, 1.0), {"m": 4, "error": "no memory"}]
    assert [each.m for each in losing(cases, below)] == rows
