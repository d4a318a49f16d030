"""Tuning on a fake GPU: candidates that are wrong, impossible or do not run never win."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fake_bench import FakeContender
from fake_hopper import H200
from tuning_bench import PROBLEM, Bench, width, zero

from gemmsmith.bench.limits import Limits
from gemmsmith.gpus import gpu_named
from gemmsmith.problem import BF16, Problem


def test_an_incorrect_candidate_is_replaced_by_the_next(bench: Bench) -> None:
    bench.facts = {40: {"seconds": 1e-4, "spoil": zero}, 48: {"seconds": 2e-4}}
    (found,) = bench.run()
    assert width(found.best) == 48
    (wrong,) = found.unusable
    assert (dict(wrong.config)["BN"], wrong.state) == (40, "wrong")
    assert "of 3072 outputs wrong" in wrong.why
    bench.run()
    assert bench.entered == [], "not tried again"


def test_a_candidate_that_becomes_incorrect_while_timed_is_rejected(bench: Bench) -> None:
    later = {"seconds": 1e-4, "spoil": lambda c, launch: zero(c, launch) if launch > 50 else None}
    bench.facts = {40: later}
    bench.count = 5
    (found,) = bench.run()
    assert [dict(t.config)["BN"] for t in found.unusable] == [40]
    assert width(found.best) == 8


def test_a_candidate_that_changes_its_input_is_rejected(bench: Bench) -> None:
    bench.facts = {40: {"seconds": 1e-4, "changes_input": True}}
    (found,) = bench.run()
    assert width(found.best) == 8
    assert found.unusable[0].why == "it changed its input A"


def test_a_candidate_that_changes_inputs_does_not_affect_others(bench: Bench) -> None:
    bench.facts = {8: {"changes_input": True, "seconds": 20e-3}}
    (found,) = bench.run()
    assert (width(found.best), found.unusable) == (16, ())
    assert any("a candidate changed its input A" in note for note in bench.gpu.messages.notes)


def test_a_candidate_that_writes_nothing_is_not_helped_by_others_outputs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lazy(self: FakeContender, *rest: Any) -> None:
        if self.name == "BN=40":
            self.watch.clock += self.seconds
        else:
            original(self, *rest)

    original = FakeContender._launch
    monkeypatch.setattr(FakeContender, "_launch", lazy)
    bench.facts = {40: {"seconds": 1e-4}}
    (found,) = bench.run()
    assert (width(found.best), found.unusable[0].state) == (8, "wrong")


def test_an_impossible_time_is_rejected(bench: Bench) -> None:
    slow = replace(gpu_named("H200"), bf16_tflops=PROBLEM.flops / 1.5e-3 / 1e12)
    (found,) = bench.run(limits=Limits(slow))
    assert width(found.best) == 16
    assert (found.unusable[0].state, "is above the" in found.unusable[0].why) == ("wrong", True)


def test_candidates_that_do_not_compile_or_launch_are_stored_with_the_reason(bench: Bench) -> None:
    bench.uncompilable = {8: "ptxas: too many registers"}
    bench.facts = {16: {"faults": "invalid cluster"}, 24: {"refuses": "it takes NT only"}}
    (found,) = bench.run()
    assert width(found.best) == 32
    assert {dict(t.config)["BN"]: (t.state, t.why) for t in found.unusable} == {
        8: ("failed", "ptxas: too many registers"),
        16: ("failed", "invalid cluster"),
        24: ("failed", "it takes NT only"),
    }
    bench.run()
    assert (bench.compiled, bench.entered) == ([], [])


def test_without_a_correct_candidate_there_is_no_best(bench: Bench) -> None:
    bench.facts = {8 * i: {"spoil": zero} for i in range(1, 11)}
    (found,) = bench.run()
    assert (found.state, found.best, len(found.unusable)) == ("nothing", None, 10)
    assert bench.file.best(H200) == {}


def test_a_shape_too_large_for_memory_is_noted_and_the_next_is_tuned(bench: Bench) -> None:
    large, found = bench.run(Problem(4000, 4000, 8, BF16), PROBLEM)
    assert (large.state, found.state) == ("nothing", "tuned")
    assert any("GiB of operands" in note for note in bench.gpu.messages.notes)
