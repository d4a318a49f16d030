"""Timing except for the driver calls: what is timed, how, against which baselines, and what is rejected."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from fake_bench import FakeContender, FakeGpu, FakeMemory

from gemmsmith.bench.bench import bench, with_distinct_names
from gemmsmith.bench.clocks import Reading
from gemmsmith.bench.limits import Limits
from gemmsmith.bench.rig import TimingPolicy
from gemmsmith.errors import LaunchError, UsageError
from gemmsmith.gpus import gpu_named
from gemmsmith.problem import FP16, Problem
from gemmsmith.store.results import Measurement

PROBLEM = Problem(24, 20, 28)
QUICK = TimingPolicy(quick=True, budget=1.0)
Array = np.ndarray[Any, Any]


@pytest.fixture
def gpu() -> FakeGpu:
    return FakeGpu()


def run(gpu: FakeGpu, contenders: list[Any], baselines: list[Any], policy: TimingPolicy = QUICK,
        problem: Problem = PROBLEM, limits: Limits | None = None) -> dict[str, Measurement]:  # fmt: skip
    found = list(bench(contenders, baselines, [problem], gpu.rig(limits), policy))
    assert not gpu.memory.live, "operands are freed"
    assert gpu.watch.open_graphs == 0, "graphs are freed"
    assert not gpu.watch.is_active
    return {m.identity.name: m for m in found}


# --- contents of a measurement


def test_median_tflops_ratio_and_origin(gpu: FakeGpu) -> None:
    found = run(gpu, [gpu.contender("ours", 1e-3)], [gpu.contender("cublas", 2e-3, kind="baseline")])
    ours, theirs = found["ours"], found["cublas"]
    assert list(found) == ["cublas", "ours"], "baselines first"
    assert ours.seconds == pytest.approx(1e-3)
    assert ours.tflops == pytest.approx(2 * 24 * 20 * 28 / 1e-3 / 1e12)
    assert ours.ratio("cublas") == pytest.approx(2.0)
    assert math.isnan(theirs.ratio("cublas")), "nobody is compared with himself"
    assert (ours.origin, ours.verified, ours.rejected) == ("measured", True, "")
    assert ours.rho[0] <= 16
    assert ours.rho[1] <= 16
    assert ours.limit_tflops == pytest.approx(PROBLEM.flops / PROBLEM.compulsory_bytes * 4.8)


def test_a_baseline_against_itself_is_one(gpu: FakeGpu) -> None:
    wobble = np.random.default_rng(0).normal(1.0, 0.01, 100_000)
    first, second = (gpu.contender("cublas", 1e-3, kind="baseline", jitter=lambda n: wobble[n]) for _ in range(2))
    found = run(gpu, [second], [first])
    assert list(found) == ["cublas", "cublas (again)"]
    ratio = found["cublas (again)"].ratios[0]
    assert ratio.baseline == "cublas"
    assert ratio.low <= 1.0 <= ratio.high
    assert ratio.value == pytest.approx(1.0, abs=0.01)


def test_duplicate_names_are_distinguished(gpu: FakeGpu) -> None:
    names = [
        c.identity.name for c in with_distinct_names([gpu.contender("x") for _ in range(3)] + [gpu.contender("y")])
    ]
    assert names == ["x", "x (again)", "x (again and again)", "y"]


def test_every_mode_and_the_overhead(gpu: FakeGpu) -> None:
    found = run(gpu, [gpu.contender(seconds=8e-4)], [gpu.contender("cublas")], TimingPolicy(budget=1.0))["ours"]
    assert [(t.mode, t.cache) for t in found.timings] == [("graph", "cold"), ("stream", "cold"), ("graph", "hot")]
    assert found.overhead == pytest.approx(1e-5 / 12)  # twelve launches make a batch of 10 ms
    quick = run(gpu, [gpu.contender()], [], QUICK)["ours"]
    assert [(t.mode, t.cache) for t in quick.timings] == [("graph", "cold")]
    assert math.isnan(quick.overhead)


def test_measurements_are_yielded_per_shape_with_the_gpu_released(gpu: FakeGpu) -> None:
    stream = bench([gpu.contender()], [], [PROBLEM, Problem(8, 8, 8)], gpu.rig(), QUICK)
    assert next(stream).problem == PROBLEM
    assert not gpu.watch.is_active
    assert not any("8x8x8" in step for step in gpu.messages.steps), "the second shape has not begun"
    assert next(stream).problem.m == 8


def test_resources_and_conditions_are_kept(gpu: FakeGpu) -> None:
    class Probe:
        note = ""

        def read(self) -> Reading:
            return Reading(1755.0, 650.0, 61.0, 0x4)

        def close(self) -> None:
            pass

    gpu.probe = Probe()
    found = run(gpu, [gpu.contender(resources=(("registers", 128.0),))], [])["ours"]
    assert found.counter("registers") == 128
    assert (found.conditions.sm_mhz, found.conditions.throttled) == (1755.0, ("power cap",))


# --- rotation, order, budgets


def test_cold_launches_rotate_and_hot_ones_do_not(gpu: FakeGpu) -> None:
    contender = gpu.contender(seconds=1e-4)
    run(gpu, [contender], [], TimingPolicy(budget=0.5))
    sets = max(contender.sets_seen) + 1
    assert sets * PROBLEM.compulsory_bytes >= 2 * gpu.l2_bytes
    half = len(contender.sets_seen) // 4
    cold = contender.sets_seen[half : 2 * half]
    assert all(b == (a + 1) % sets for a, b in pairwise(cold))
    assert contender.sets_seen.count(0) > len(contender.sets_seen) / sets * 1.1, "hot launches use set 0 only"


@pytest.mark.parametrize("seconds", [0.012, 0.05])
def test_long_launches_rotate_one_by_one_across_contenders(gpu: FakeGpu, seconds: float) -> None:
    order: list[tuple[str, int]] = []

    class Logged(FakeContender):
        def _launch(self, problem: Problem, sets: Any, index: int) -> None:
            super()._launch(problem, sets, index)
            order.append((self.name, index))

    gpu.l2_bytes = 20_000  # six sets: a cycle of 72 ms or more
    slow = [Logged(gpu.watch, gpu.memory, name, seconds) for name in ("a", "b")]
    (found, _) = run(gpu, slow, [], TimingPolicy(quick=True, budget=2.0)).values()
    assert found.timings[0].launches == 1
    timed = order[6:-2]  # verified and calibrated before, verified after
    assert len({index for _, index in timed}) > 2
    assert all(x[1] != y[1] for x, y in pairwise(timed)), "never the set just used"


def test_samples_of_short_launches_are_whole_cycles(gpu: FakeGpu) -> None:
    """A single launch would be too short to time."""
    gpu.l2_bytes = 300_000
    contender = gpu.contender(seconds=3e-3)
    found = run(gpu, [contender], [], TimingPolicy(quick=True, budget=0.1))["ours"]
    sets = max(contender.sets_seen) + 1
    assert 3e-3 * sets > 0.05
    assert found.timings[0].launches == sets


def test_rounds_alternate_their_order(gpu: FakeGpu) -> None:
    order: list[str] = []
    mine = [gpu.contender(name, 0.06) for name in ("a", "b", "c")]
    for contender in mine:
        contender.jitter = lambda _n, name=contender.name: order.append(name) or 1.0  # type: ignore[func-returns-value]
    run(gpu, mine, [], TimingPolicy(quick=True, budget=5.0))
    assert "abccbaabccba" in "".join(order)


def test_timing_stops_when_the_median_is_known(gpu: FakeGpu) -> None:
    found = run(gpu, [gpu.contender()], [], TimingPolicy(quick=True, budget=1000.0))["ours"]
    assert found.timings[0].converged
    assert found.timings[0].samples == 10
    assert gpu.watch.clock < 2


def test_timing_stops_when_the_budget_ends(gpu: FakeGpu) -> None:
    noise = np.random.default_rng(1).uniform(0.2, 2.0, 10**6)
    plan = TimingPolicy(quick=True, budget=0.5, precision=1e-6)
    found = run(gpu, [gpu.contender(jitter=lambda n: noise[n])], [], plan)["ours"]
    assert not found.timings[0].converged
    assert found.timings[0].samples >= 10
    assert found.timings[0].low < found.timings[0].median < found.timings[0].high
    assert gpu.watch.clock < 1.5


@pytest.mark.parametrize(("seconds", "samples"), [(0.9, 3), (1.5, 1)])
def test_minimum_number_of_samples_for_slow_launches(gpu: FakeGpu, seconds: float, samples: int) -> None:
    found = run(gpu, [gpu.contender("slow", seconds), gpu.contender("quick", 1e-3)], [], TimingPolicy(budget=1.0))
    assert found["slow"].timings[0].samples == samples
    assert len(found["slow"].timings) == 1, "neither streams nor hot caches matter to such a launch"
    assert len(found["quick"].timings) == 3


def test_a_slow_contender_does_not_starve_the_others(gpu: FakeGpu) -> None:
    noise = np.random.default_rng(4).uniform(0.99, 1.01, 10**6)
    quick = gpu.contender("quick", 1e-3, jitter=lambda n: noise[n])
    found = run(gpu, [gpu.contender("slow", 0.9), quick], [], TimingPolicy(quick=True, budget=1.0))
    assert found["slow"].timings[0].samples == 3
    assert found["quick"].timings[0].converged


def test_a_baseline_runs_as_long_as_any_contender(gpu: FakeGpu) -> None:
    noise = np.random.default_rng(2).uniform(0.5, 1.5, 10**6)
    noisy = gpu.contender("noisy", jitter=lambda n: noise[n])
    found = run(
        gpu, [noisy, gpu.contender("calm")], [gpu.contender("cublas")], TimingPolicy(quick=True, precision=1e-4)
    )
    samples = {name: m.timings[0].samples for name, m in found.items()}
    assert samples["calm"] == 10
    assert samples["cublas"] == samples["noisy"] > 10


def test_ratios_come_from_common_rounds(gpu: FakeGpu) -> None:
    """The clock halves midway for all contenders: ratios of medians would be wrong, ratios per round are not."""

    def throttled(_n: int) -> float:
        return 1.0 if gpu.watch.clock < 1.3 else 2.0

    ours, theirs = (gpu.contender(n, s, jitter=throttled) for n, s in (("ours", 1e-3), ("cublas", 1.25e-3)))
    found = run(gpu, [ours], [theirs], TimingPolicy(quick=True, budget=2.0, precision=1e-9))
    assert found["ours"].ratios[0].value == pytest.approx(1.25, rel=1e-6)


def test_sets_smaller_than_twice_the_l2_are_noted(gpu: FakeGpu) -> None:
    gpu.l2_bytes = 100 << 20
    run(gpu, [gpu.contender(seconds=1e-4)], [])
    assert any("not" in note and "twice the L2" in note for note in gpu.messages.notes)


# --- verification


def wrong_from(launch: int) -> Any:
    def spoil(c: Array, number: int) -> None:
        if number >= launch:
            c[3, 4] += 0.01

    return spoil


def test_incorrect_contenders_are_not_timed(gpu: FakeGpu) -> None:
    wrong = gpu.contender("wrong", spoil=wrong_from(0))
    found = run(gpu, [wrong, gpu.contender()], [gpu.contender("cublas")])
    assert not found["wrong"].verified
    assert "1 of 480 outputs wrong" in found["wrong"].rejected
    assert found["wrong"].timings == ()
    assert found["wrong"].ratios == ()
    assert wrong.launches == 1
    assert found["ours"].verified
    assert found["ours"].timings


def test_contenders_that_become_incorrect_are_rejected(gpu: FakeGpu) -> None:
    found = run(gpu, [gpu.contender(spoil=wrong_from(5))], [])["ours"]
    assert not found.verified
    assert found.rejected.startswith("wrong after timing: 1 of 480")
    assert found.timings, "kept for the record"
    assert found.rho[1] > 16 > found.rho[0]


def test_unwritten_outputs_are_detected_before_and_after(gpu: FakeGpu) -> None:
    def hole(c: Array, _number: int) -> None:
        c[0, 0] = np.nan

    assert "nan" in run(gpu, [gpu.contender(spoil=hole)], [])["ours"].rejected


def test_a_baseline_must_be_correct_too(gpu: FakeGpu) -> None:
    found = run(gpu, [gpu.contender()], [gpu.contender("cublas", kind="baseline", spoil=wrong_from(0))])
    assert not found["cublas"].verified
    assert math.isnan(found["ours"].ratio("cublas"))


def test_a_changed_input_is_wrong_and_restored(gpu: FakeGpu) -> None:
    found = run(gpu, [gpu.contender("vandal", changes_input=True), gpu.contender()], [])
    assert found["vandal"].rejected == "it changed its input A"
    assert found["ours"].verified


def test_a_users_file_may_read_c_but_a_rung_may_not(gpu: FakeGpu) -> None:
    found = run(gpu, [gpu.contender("my.cu", kind="file", reads_c=True), gpu.contender("rung", reads_c=True)], [])
    assert found["my.cu"].verified
    assert any("my.cu reads C" in note for note in gpu.messages.notes)
    assert not found["rung"].verified


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_every_layout_is_verified_on_the_last_set(gpu: FakeGpu, layout: str) -> None:
    problem = PROBLEM.with_(trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    assert run(gpu, [gpu.contender()], [], problem=problem)["ours"].rejected == ""
    spoiled = run(gpu, [gpu.contender(spoil=wrong_from(4))], [], problem=problem)["ours"]
    assert "wrong after timing" in spoiled.rejected


def test_half_inputs(gpu: FakeGpu) -> None:
    assert run(gpu, [gpu.contender()], [], problem=PROBLEM.with_(dtype=FP16))["ours"].verified


def test_large_problems_use_projection(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemmsmith.verify.harness._AFFORDABLE", 1)
    assert run(gpu, [gpu.contender()], [])["ours"].rejected == ""
    assert "1 of 24 rows wrong" in run(gpu, [gpu.contender(spoil=wrong_from(0))], [])["ours"].rejected


# --- contenders that cannot take part


def test_a_refusal_is_noted_and_the_others_run(gpu: FakeGpu) -> None:
    found = run(gpu, [gpu.contender("odd", refuses="it takes NT only"), gpu.contender()], [])
    assert list(found) == ["ours"]
    assert gpu.messages.notes == ["24x20x28 fp32: odd skipped: it takes NT only (ask another)"]


def test_a_contender_that_cannot_be_captured_is_timed_on_a_stream(gpu: FakeGpu) -> None:
    found = run(gpu, [gpu.contender("stubborn", capturable=False)], [gpu.contender("cublas", 2e-3)])
    assert [(t.mode, t.cache) for t in found["stubborn"].timings] == [("stream", "cold")]
    assert found["stubborn"].ratio("cublas") == pytest.approx(2.0)
    assert any("without graphs: it allocates" in note for note in gpu.messages.notes)


def test_a_launch_that_fails_is_a_rejection(gpu: FakeGpu) -> None:
    found = run(gpu, [gpu.contender("broken", faults="too many resources"), gpu.contender()], [])
    assert found["broken"].rejected == "too many resources"
    assert found["ours"].verified


def test_after_a_lost_context_the_first_error_is_raised(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise LaunchError("illegal address")

    def free(*_: object) -> None:
        raise LaunchError("freeing failed")

    monkeypatch.setattr(gpu.watch, "synchronize", lost)
    monkeypatch.setattr(FakeMemory, "free", free)
    with pytest.raises(LaunchError, match="ours: illegal address\nthe GPU is unusable"):
        list(bench([gpu.contender()], [], [PROBLEM], gpu.rig(), QUICK))


def test_a_shape_too_large_for_the_memory_is_noted(gpu: FakeGpu) -> None:
    assert run(gpu, [gpu.contender()], [], problem=Problem(2000, 2000, 2000)) == {}
    assert "GiB of operands" in gpu.messages.notes[0]


def test_contenders_are_closed_once_per_shape(gpu: FakeGpu) -> None:
    contender = gpu.contender()
    run(gpu, [contender], [])
    assert contender.closed == 1


# --- limits


# A GPU so slow that fake launches of 0.1 ms, 0.27 GFLOPS, are near its limits.
SLOW = replace(gpu_named("H200"), fp32_tflops=1e-4, tf32_tflops=1e-3, dram_gbs=100.0, l2_bytes=1)


def test_faster_than_the_compute_limit_is_rejected(gpu: FakeGpu) -> None:
    found = run(gpu, [gpu.contender(seconds=1e-4)], [], limits=Limits(SLOW))["ours"]
    assert "fp32 limit of H200" in found.rejected
    assert found.verified, "right, and yet not to be believed"
    assert found.timings
    assert run(gpu, [gpu.contender(seconds=1e-4, precision="tf32")], [], limits=Limits(SLOW))["ours"].rejected == ""


def test_faster_than_the_memory_limit_is_rejected(gpu: FakeGpu) -> None:
    limits = Limits(replace(SLOW, fp32_tflops=60.0, dram_gbs=PROBLEM.compulsory_bytes / 1e-3 / 1e9))
    found = run(gpu, [gpu.contender(seconds=1e-4), gpu.contender("slower", 1.1e-3)], [], limits=limits)
    assert "GB/s of H200" in found["ours"].rejected
    assert found["slower"].rejected == ""


def test_an_unknown_gpu_rejects_nothing(gpu: FakeGpu) -> None:
    found = run(gpu, [gpu.contender(seconds=1e-4)], [], limits=Limits(None))["ours"]
    assert found.rejected == ""
    assert math.isnan(found.limit_tflops)


# --- wrong use


@pytest.mark.parametrize(
    "problem", [Problem(0, 4, 4), Problem(4, 4, 0), Problem(4, 4, 4, beta=1.0), Problem(4, 4, 4, lda=8)]
)
def test_unsuitable_problems_are_refused(gpu: FakeGpu, problem: Problem) -> None:
    with pytest.raises(UsageError):
        list(bench([gpu.contender()], [], [problem], gpu.rig()))


@pytest.mark.parametrize("facts", [{"precision": 0.0}, {"precision": 1.0}, {"budget": 0.0}, {"budget": math.inf}])
def test_invalid_policies_are_refused(facts: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        TimingPolicy(**facts)  # type: ignore[arg-type]
