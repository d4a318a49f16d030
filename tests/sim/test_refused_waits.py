"""Waits at mbarriers that were refused are not worked out again before a phase has ended, and never wrongly refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gemmsmith.sim.instructions.mbarrier import PhaseWait
from gemmsmith.sim.waits.mbarriers import MBarriers

LANES, OTHERS = np.arange(32), np.arange(32, 64)
STEP: Any = SimpleNamespace(first=SimpleNamespace(position=3))
OTHER_STEP: Any = SimpleNamespace(first=SimpleNamespace(position=4))
NONE = np.zeros(32, bool)


def barriers(watched: bool = False) -> MBarriers:
    memory = SimpleNamespace(scatter=lambda *_: None)
    machine: Any = SimpleNamespace(wave=SimpleNamespace(lanes=64), log=object() if watched else None, shared=memory,
                                   recorder=None)  # fmt: skip
    made = MBarriers(machine)
    made.refuse(STEP, LANES, NONE)
    return made


def test_the_same_question_has_the_same_answer() -> None:
    assert barriers().refused_before(STEP, LANES) is NONE


def test_others_are_not_refused_with_them() -> None:
    found = barriers()
    assert found.refused_before(OTHER_STEP, LANES) is None
    assert found.refused_before(STEP, OTHERS) is None
    found._refused[id(OTHERS)] = found._refused[id(LANES)]  # the identity of lanes that are gone
    assert found.refused_before(STEP, OTHERS) is None


def test_an_object_that_is_set_may_let_them_go_on() -> None:
    found = barriers()
    found.initialise(np.array([8]), np.array([1]))
    assert found.refused_before(STEP, LANES) is None


def test_lanes_that_execute_their_wait_may_ask_for_another_object() -> None:
    found = barriers()
    found.asked_again(LANES)
    assert found.refused_before(STEP, LANES) is None


def test_nothing_is_kept_where_races_are_looked_for() -> None:
    assert barriers(watched=True).refused_before(STEP, LANES) is None


def test_a_phase_that_ends_lets_them_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    found, stored = barriers(), []
    monkeypatch.setattr(found, "_parts", lambda _: (0, 1, 0))  # nobody is missing
    monkeypatch.setattr(found, "_store", lambda *given: stored.append(given))
    found._complete(8)
    assert stored == [(8, 1, 1, 1)]
    assert found.refused_before(STEP, LANES) is None


def test_the_instruction_asks_for_the_answer_that_is_kept() -> None:
    machine: Any = SimpleNamespace(unit=lambda _: kept)
    kept = barriers()
    wait = PhaseWait(generic=False, parity=True)
    assert wait.ready(machine, STEP, LANES) is NONE
    kept.asked_again(LANES)
    assert wait.ready(machine, STEP, LANES).all()  # lanes that ask for the first time find out by executing it
