"""Which sizes a kernel was meant for, as its trials tell: the least K of a pipeline, outputs stored four at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gemmsmith.problem import INT8, INT32, Problem
from gemmsmith.verify.code.edges import KernelEdges
from gemmsmith.verify.trials.axis_multiple import LaunchSteps
from gemmsmith.verify.trials.least_depth import with_least_depth
from gemmsmith.verify.trials.multiples import Multiples, WrongGuard
from gemmsmith.verify.trials.raggedness import find_raggedness
from gemmsmith.verify.trials.trial import RAGGED, Trial


def verdict(trusted: bool, **more: Any) -> Any:
    fields = {"faulted": False, "damage": (), "unwritten": 0, "wrong": 0, "total": 4096, "reasons": (), "faults": (),
              "got": None, "expected": None, "hazards": ()}  # fmt: skip
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


def _of_words(k: int, fill: str) -> Any:
    """A kernel that takes four terms at once, without what is left of K."""
    return RIGHT if k % 4 == 0 or fill == f"integers to {k // 4 * 4}" or k < 4 else WRONG


@pytest.mark.parametrize("rounds_up", [True, False])
def test_a_round_for_the_rest_of_k_that_loses_it_is_wrong(rounds_up: bool) -> None:
    """Packed words of int8, read byte by byte: no misaligned access explains that K must be a multiple of four."""
    base = Problem(64, 64, 96, INT8, out_dtype=INT32)
    trial = Trial(RAGGED, base.with_(m=65, n=63, k=67), "float", "normal", "lockstep")
    found = find_raggedness(lambda tried: _of_words(tried.problem.k, tried.fill), trial, WRONG, base,
                            (16, 16), KernelEdges((32,), rounds_up=rounds_up))  # fmt: skip
    assert found.wrong == ("K" if rounds_up else "")
    assert rounds_up or found.multiples == Multiples(1, 1, 4)


MISALIGNED = verdict(False, faulted=True, reasons=("misaligned",), faults=(SimpleNamespace(rule="misaligned"),))


@pytest.mark.parametrize(
    ("inside", "rounds_up", "wrong"),
    [
        (WRONG, True, "K"),
        (WRONG, False, ""),
        (verdict(False, wrong=4096, got=math.nan, expected=7.0), True, ""),
        (RIGHT, True, ""),
    ],
    ids=["loses terms", "has no round for them", "reads padding", "right"],
)
def test_rows_that_end_inside_a_vector_where_the_next_one_is_aligned(inside: Any, rounds_up: bool, wrong: str) -> None:
    def run(tried: Trial) -> Any:
        problem = tried.problem
        if problem.lda % 4 or problem.ldb % 4:
            return MISALIGNED
        return RIGHT if problem.k % 4 == 0 or tried.fill.startswith("integers") else inside

    trial = Trial(RAGGED, Problem(65, 63, 67), "float", "normal", "lockstep")
    found = find_raggedness(run, trial, MISALIGNED, BASE, (16, 16), KernelEdges((16,), rounds_up=rounds_up))
    assert found.wrong == wrong
    assert wrong or found.multiples == Multiples(1, 4, 4)
