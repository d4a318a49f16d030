"""Which sizes a kernel was meant for, as its trials tell: the least K of a pipeline, outputs stored four at once."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gemmsmith.problem import Problem
from gemmsmith.verify.code.edges import KernelEdges
from gemmsmith.verify.trials.axis_multiple import LaunchSteps
from gemmsmith.verify.trials.least_depth import with_least_depth
from gemmsmith.verify.trials.multiples import Multiples, WrongGuard
from gemmsmith.verify.trials.raggedness import find_raggedness
from gemmsmith.verify.trials.trial import RAGGED, Trial


def verdict(trusted: bool, **more: Any) -> Any:
    fields = {"faulted": False, "damage": (), "unwritten": 0, "wrong": 0, "reasons": (), "faults": (), "got": None,
              "expected": None, "hazards": ()}  # fmt: skip
    return SimpleNamespace(trusted=trusted, **{**fields, **more})


RIGHT, FAULTED = verdict(True), verdict(False, faulted=True)
WRONG = verdict(False, wrong=4096, got=1.0, expected=7.0)
TWICE = verdict(False, wrong=4096, got=14.0, expected=7.0)
STUCK = verdict(False, faulted=True, faults=(SimpleNamespace(rule="divergent-barrier"),))
BASE = Problem(64, 64, 96)


def least(of: Callable[[int], Any], step: int = 32, k_tile: int = 32) -> tuple[int, int]:
    trial = Trial(RAGGED, Problem(65, 63, 67), "float", "normal", "lockstep")
    found = with_least_depth(lambda tried: of(tried.problem.k), trial, BASE, Multiples(1, 1, step), k_tile)
    return found.k, found.from_k


@pytest.mark.parametrize("failing", [FAULTED, TWICE], ids=["faults", "adds a k-tile twice"])
def test_the_first_number_of_k_tiles_that_passes(failing: Any) -> None:
    assert least(lambda k: RIGHT if k >= 64 else failing) == (32, 64)


def test_one_k_tile_that_is_right_needs_no_more() -> None:
    assert least(lambda _: RIGHT) == (32, 0)


def test_a_wrong_result_of_one_k_tile_is_wrong() -> None:
    with pytest.raises(WrongGuard):
        least(lambda k: RIGHT if k >= 64 else WRONG)


def test_a_barrier_that_not_all_reach_is_no_matter_of_depth() -> None:
    assert least(lambda k: RIGHT if k >= 64 else STUCK) == (32, 0)


def test_the_base_shape_may_have_the_least_k() -> None:
    """Its K is the multiple that was found, since nothing shorter passes; a k-tile more does."""
    assert least(lambda k: RIGHT if k >= 96 else FAULTED, step=96) == (32, 96)
    assert least(lambda k: RIGHT if k % 96 == 0 else FAULTED, step=96) == (96, 0)


@pytest.mark.parametrize(
    ("flat", "right", "multiples"),
    [
        (4, lambda p: p.m * p.n % 4 == 0, Multiples(1, 4, 1)),
        (1, lambda p: p.m * p.n % 4 == 0, None),
        (4, lambda p: p.n % 4 == 0 or (p.m, p.n) != (65, 63), None),
        (4, lambda p: p.m * p.n % 4 == 0 and (p.m, p.n) != (65, 64), None),
    ],
    ids=["four at once", "one at once", "right elsewhere", "wrong at multiples"],
)
def test_outputs_that_are_stored_several_at_once(
    flat: int, right: Callable[[Problem], bool], multiples: Multiples | None
) -> None:
    """A second kernel walks C as one long row; who has code for other numbers of outputs means to take them."""
    trial = Trial(RAGGED, Problem(65, 63, 67), "float", "normal", "lockstep")
    found = find_raggedness(lambda tried: RIGHT if right(tried.problem) or tried.problem == BASE else WRONG, trial,
                            WRONG, BASE, (16, 16), KernelEdges(), launch=LaunchSteps(flat=flat))  # fmt: skip
    if multiples is None:
        assert found.trial is not None
    else:
        assert (found.trial, found.multiples) == (None, multiples)
