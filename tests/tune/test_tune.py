"""Tuning on a fake GPU: what is timed, verified, stored and reused, also after a stop, a kill or a fault."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from fake_bench import FakeContender, FakeGpu, FakeStopwatch
from fake_hopper import CLUSTER, H200

from gemmsmith.bench.limits import Limits
from gemmsmith.bench.rounds import Course, Cursor
from gemmsmith.choose.candidates import Candidate
from gemmsmith.choose.export import table_of
from gemmsmith.choose.key import shape_key
from gemmsmith.choose.table import Entry, table_from_text, table_text
from gemmsmith.choose.tuning_file import History, TuningFile
from gemmsmith.errors import LaunchError, UsageError
from gemmsmith.gpus import gpu_named
from gemmsmith.problem import BF16, FP32, Problem
from gemmsmith.run.contender import Contender
from gemmsmith.tune.arena import LostContextError
from gemmsmith.tune.tuning import FINALISTS, GROUP, LONG_FINALISTS, Tuned, TuningPlan, Workshop, tune

PROBLEM = Problem(64, 48, 32, BF16)
OTHER = PROBLEM.with_(m=40)


def _candidate(width: int) -> Candidate:
    return Candidate(CLUSTER, CLUSTER.config({"BM": 64, "CONSUMERS": 1, "BN": width}), 1e-3 * width)


def _candidates(count: int) -> list[Candidate]:
    return [_candidate(8 * i) for i in range(1, count + 1)]


@dataclass
class Bench:
    """A fake GPU with candidates by tile width: BN=8·i takes i ms unless ``facts`` says otherwise."""

    path: Path
    gpu: FakeGpu = field(default_factory=FakeGpu)
    count: int = 10
    near: dict[int, list[int]] = field(default_factory=dict)
    facts: dict[int, dict[str, Any]] = field(default_factory=dict)
    uncompilable: dict[int, str] = field(default_factory=dict)
    unready: set[int] = field(default_factory=set)
    baseline: bool = True
    version: str = "1"
    entered: list[int] = field(default_factory=list)
    compiled: list[int] = field(default_factory=list)
    begun: list[tuple[int, int]] = field(default_factory=list)
    contenders: list[FakeContender] = field(default_factory=list)

    @property
    def file(self) -> TuningFile:
        return TuningFile(self.path)

    @property
    def history(self) -> History:
        return self.file.history(H200)

    def run(self, *problems: Problem, limits: Limits | None = None, **plan: Any) -> list[Tuned]:
        self.entered, self.compiled = [], []
        shop = Workshop(H200, self.gpu.rig(limits), self._ranked, self._near, self._digest, self._begin,
                        self._compile, self._contender, self._baseline,
                        lambda _, candidate: candidate.config["BN"] not in self.unready)  # fmt: skip
        return list(tune(problems or (PROBLEM,), shop, self.file, TuningPlan(**plan)))

    def _ranked(self, _problem: Problem) -> Sequence[Candidate]:
        return _candidates(self.count)

    def _near(self, _problem: Problem, best: Candidate) -> Sequence[Candidate]:
        return [_candidate(width) for width in self.near.get(best.config["BN"], [])]

    def _digest(self, candidate: Candidate, problem: Problem) -> str:
        return f"{candidate.config} {problem.dtype} {self.version}"

    def _begin(self, problem: Problem, candidates: Sequence[Candidate]) -> None:
        self.begun.append((problem.m, len(candidates)))

    def _compile(self, _problem: Problem, candidates: Sequence[Candidate]) -> Mapping[tuple[str, str], str]:
        self.compiled += [c.config["BN"] for c in candidates]
        return {c.name: self.uncompilable[c.config["BN"]] for c in candidates if c.config["BN"] in self.uncompilable}

    def _contender(self, candidate: Candidate) -> Contender:
        width = candidate.config["BN"]
        self.entered.append(width)
        facts = {"seconds": width / 8 * 1e-3, "precision": "bf16", **self.facts.get(width, {})}
        if before := facts.pop("before", None):
            before()
        self.contenders.append(self.gpu.contender(f"BN={width}", **facts))
        return self.contenders[-1]

    def _baseline(self) -> FakeContender | None:
        return self.gpu.contender("cublas", 2e-3, kind="baseline", precision="bf16") if self.baseline else None


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "deep" / "tuning.jsonl")


def width(entry: Entry | None) -> int:
    assert entry is not None
    return dict(entry.config)["BN"]


def zero(c: Any, _launch: int) -> None:
    c[...] = 0


def killed() -> None:
    raise SystemExit  # ends the process without a chance to store anything, as far as the file can tell


# --- an undisturbed run


def test_the_fastest_wins_and_is_stored(bench: Bench) -> None:
    bench.facts = {40: {"seconds": 5e-4}}
    (found,) = bench.run()
    assert (found.state, found.tried, found.unusable) == ("tuned", 10, ())
    assert width(found.best) == 40
    assert found.best is not None
    assert found.best.us == pytest.approx(500)
    assert found.best.cublas_us == pytest.approx(2000)
    history = bench.history
    assert width(history.best[shape_key(PROBLEM)]) == 40
    times = {dict(t.config)["BN"]: t.us for t in history.tried[shape_key(PROBLEM)].values()}
    assert times[8] == pytest.approx(1000)
    assert times[80] == pytest.approx(10000)
    assert not bench.gpu.memory.live, "operands are freed"
    assert {contender.closed for contender in bench.contenders} == {1}
    assert bench.gpu.watch.open_graphs == 0
    assert not bench.gpu.watch.is_active


@pytest.mark.parametrize(("settles", "finalists"), [(1.0, FINALISTS), (1e-4, LONG_FINALISTS)])
def test_all_get_short_samples_and_only_the_best_get_long_ones(
    bench: Bench, settles: float, finalists: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More finalists where kernels take long."""
    monkeypatch.setattr("gemmsmith.tune.tuning.SETTLES", settles)
    bench.run()
    assert bench.entered[:10] == [8 * i for i in range(1, 11)]
    assert bench.entered[10:] == [8 * i for i in range(1, finalists + 1)]
    assert FINALISTS < LONG_FINALISTS < 10
    assert GROUP < 10, "or there is one group only"


@pytest.mark.parametrize(("settles", "last"), [(1.0, [8, 16, 24, 32]), (1e-4, [8, 24, 40, 56, 72, 16, 32, 48])])
def test_long_kernels_of_all_tile_sizes_are_timed_again(
    bench: Bench, settles: float, last: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here two widths count as one size, and each size has one candidate before any has two."""
    monkeypatch.setattr("gemmsmith.tune.tuning.SETTLES", settles)
    monkeypatch.setattr("gemmsmith.choose.candidates._PER_SIZE", 1)
    monkeypatch.setattr("gemmsmith.choose.candidates.tile_size", lambda candidate: (candidate.config["BN"] + 8) // 16)
    bench.run()
    assert bench.entered[10:] == last


def test_the_next_shape_is_compiled_while_one_is_timed(bench: Bench) -> None:
    seen: list[list[tuple[int, int]]] = []
    bench.facts = {8: {"before": lambda: seen.append(list(bench.begun))}}
    bench.run(PROBLEM, OTHER)
    assert seen[0] == [(PROBLEM.m, 10), (OTHER.m, 10), (PROBLEM.m, 10)], "before the first candidate is timed"
    bench.begun.clear()
    bench.run(PROBLEM, OTHER)
    assert {count for _, count in bench.begun} == {0}, "nothing is left to compile"


def test_close_candidates_are_timed_again_before_the_finalists_are_chosen(bench: Bench) -> None:
    """In very short samples 24 looks best, and 48 is beyond the finalists."""
    calls = dict.fromkeys(range(8, 88, 8), 0)

    def seconds(width: int) -> Callable[[int], float]:
        def jitter(launch: int) -> float:
            return 1 + (0.002 * width / 8 if launch < 40 else 0.0) - (0.03 if width == 48 and launch >= 40 else 0.0)

        return jitter

    bench.facts = {width: {"seconds": 5e-5, "jitter": seconds(width)} for width in calls}
    (found,) = bench.run()
    assert width(found.best) == 48
    assert bench.entered.count(48) >= 2


def test_candidates_are_compiled_in_steps_and_those_that_are_ready_are_timed_first(bench: Bench) -> None:
    bench.count = 32
    bench.unready = {8, 16, 24}
    bench.run(per_shape=16)
    assert bench.begun[0] == (PROBLEM.m, 16), "not more than will be timed"
    assert bench.entered[:8] == [8 * i for i in range(4, 12)], "the GPU does not wait for the first three"
    assert set(bench.entered[:16]) == {8 * i for i in range(1, 17)}


def test_neighbours_of_the_best_are_timed_as_well(bench: Bench) -> None:
    bench.near = {8: [16, 96, 104], 16: [96, 112], 24: [120]}
    bench.facts = {104: {"seconds": 5e-4}, 112: {"spoil": zero, "seconds": 1e-4}}
    (found,) = bench.run()
    assert bench.compiled[10:] == [96, 104, 112], "what is new, of the best two"
    assert (width(found.best), found.tried) == (104, 13)
    assert [dict(t.config)["BN"] for t in found.unusable] == [112]
    assert bench.run()[0].state == "known"
    assert bench.entered == []


def test_a_kill_among_neighbours_loses_nothing(bench: Bench) -> None:
    bench.near = {8: [96, 104]}
    bench.facts = {104: {"before": killed}}
    with pytest.raises(SystemExit):
        bench.run()
    bench.facts = {104: {"seconds": 1e-4}}
    assert width(bench.run()[0].best) == 104
    assert bench.entered[:2] == [96, 104]


def test_known_results_are_not_timed_again(bench: Bench) -> None:
    (first,) = bench.run()
    (again,) = bench.run()
    assert again.state == "known"
    assert again.best is not None
    assert first.best is not None
    assert (again.best.kernel, again.best.config) == (first.best.kernel, first.best.config)
    assert (bench.entered, bench.compiled) == ([], [])


def test_additional_candidates_are_timed(bench: Bench) -> None:
    assert width(bench.run(per_shape=2)[0].best) == 8
    bench.facts = {24: {"seconds": 1e-4}}
    (more,) = bench.run(per_shape=3)
    assert bench.compiled == [24]
    assert (more.state, width(more.best)) == ("tuned", 24)


def test_changed_kernels_are_timed_again(bench: Bench) -> None:
    bench.run()
    bench.version = "2"
    bench.facts = {16: {"seconds": 1e-4}}
    assert width(bench.run()[0].best) == 16


def test_fresh_discards_candidates_and_keeps_the_old_best_until_there_is_a_new_one(bench: Bench) -> None:
    bench.run()
    bench.facts = {48: {"seconds": 1e-4}, 8: {"before": killed}}
    with pytest.raises(SystemExit):
        bench.run(fresh=True)
    assert width(bench.file.best(H200)[shape_key(PROBLEM)]) == 8
    bench.facts[8] = {}
    assert width(bench.run()[0].best) == 48


def test_without_cublas_absolute_times_decide(bench: Bench) -> None:
    bench.baseline = False
    bench.facts = {40: {"seconds": 5e-4}}
    (found,) = bench.run()
    assert width(found.best) == 40
    assert found.best is not None
    assert math.isnan(found.best.cublas_us)


def test_a_cublas_that_fails_is_noted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(self: Bench) -> FakeContender:
        return self.gpu.contender("cublas", kind="baseline", refuses="torch is not installed")

    monkeypatch.setattr(Bench, "_baseline", refusing)
    assert bench.run()[0].state == "tuned"
    assert any("cublas skipped: torch is not installed" in note for note in bench.gpu.messages.notes)


def test_groups_are_compared_relative_to_their_baseline(bench: Bench) -> None:
    """A clock that halves after the first group does not put the second group behind."""
    bench.count = 16
    slow = 1.0

    def jitter(_launch: int) -> float:
        return slow

    for bn in range(8, 136, 8):
        bench.facts[bn] = {"jitter": jitter, "seconds": 2e-3}
    bench.facts[72]["seconds"] = 1.5e-3  # the first of the second group

    def half() -> None:
        nonlocal slow
        slow = 2.0

    bench.facts[72]["before"] = half
    original: Callable[[Bench], FakeContender | None] = Bench._baseline

    def swinging(self: Bench) -> FakeContender | None:
        found = original(self)
        assert found is not None
        return replace(found, jitter=jitter)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bench, "_baseline", swinging)
        (found,) = bench.run()
    assert width(found.best) == 72


# --- candidates that must not win


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


# --- stops, kills and faults


def test_a_kill_loses_nothing_that_was_finished(bench: Bench) -> None:
    bench.facts = {72: {"before": killed}}  # the second group
    with pytest.raises(SystemExit):
        bench.run()
    assert bench.history.best == {}
    bench.facts = {}
    (found,) = bench.run()
    assert bench.entered[:-LONG_FINALISTS] == [80, 72], "who was there comes last"
    assert (found.state, width(found.best), found.tried) == ("tuned", 8, 10)


def test_a_candidate_that_kills_the_process_twice_is_excluded(bench: Bench) -> None:
    for _ in range(2):
        bench.facts = {16: {"before": killed}}
        with pytest.raises(SystemExit):
            bench.run()
    assert bench.entered[-1] == 16
    (found,) = bench.run()
    assert 16 not in bench.entered
    assert [(dict(t.config)["BN"], t.why) for t in found.unusable] == [
        (16, "the process died 2 times while it was running")
    ]
    assert width(found.best) == 8, "its neighbours in the group are not blamed"


def test_stopping_by_hand_excludes_no_candidate(bench: Bench) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    for _ in range(3):
        bench.facts = {16: {"before": stop}}
        with pytest.raises(KeyboardInterrupt):
            bench.run()
    bench.facts = {}
    assert bench.run()[0].unusable == ()


def test_a_lost_context_ends_the_run_and_the_next_run_skips_the_candidate(bench: Bench) -> None:
    def lost() -> None:
        raise LaunchError("illegal address")

    def losing() -> None:
        bench.gpu.watch.synchronize = lost  # type: ignore[method-assign]

    bench.facts = {16: {"faults": "illegal address", "before": losing}}
    with pytest.raises(LostContextError, match=r"BN=16.*illegal address\nthis process cannot use the GPU any more"):
        bench.run()
    bench.gpu = FakeGpu()
    (found,) = bench.run()
    assert 16 not in bench.entered
    assert (width(found.best), found.unusable[0].why) == (8, "illegal address")


def test_a_torn_line_is_removed_and_the_run_continues(bench: Bench) -> None:
    bench.run()
    lines = bench.path.read_bytes().splitlines(keepends=True)
    bench.path.write_bytes(b"".join(lines[:-1]) + lines[-1][:25])
    (found,) = bench.run()
    assert found.state == "tuned"
    assert bench.entered == [8 * i for i in range(1, LONG_FINALISTS + 1)], "the last step only"
    for line in bench.path.read_text().splitlines():
        json.loads(line)


# --- the budget


def test_the_budget_ends_a_run_and_the_next_continues(bench: Bench) -> None:
    first, second, _ = bench.run(PROBLEM, OTHER, OTHER.with_(m=24), budget=0.5)
    assert {m for m, _ in bench.begun} == {PROBLEM.m, OTHER.m}, "what will not be timed is not compiled"
    assert (first.state, first.best, first.tried) == ("unfinished", None, GROUP)
    assert (second.state, second.tried) == ("unfinished", 0)
    assert bench.file.best(H200) == {}, "half a shape is no choice"
    first, second = bench.run(PROBLEM, OTHER)
    assert (first.state, second.state) == ("tuned", "tuned")
    assert bench.entered[:2] == [72, 80]
    assert [found.state for found in bench.run(PROBLEM, OTHER, budget=1e-9)] == ["known", "known"]


@pytest.mark.parametrize("plan", [{"budget": 0.0}, {"budget": -1.0}, {"per_shape": 0}, {"budget": math.nan}])
def test_impossible_plans(plan: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        TuningPlan(**plan)


@pytest.mark.parametrize("problem", [PROBLEM.with_(beta=1.0), PROBLEM.with_(k=0), PROBLEM.with_(batch=2)])
def test_what_cannot_be_tuned(bench: Bench, problem: Problem) -> None:
    with pytest.raises(UsageError, match="cannot be tuned"):
        bench.run(problem)
    assert not bench.path.exists()


# --- the export


def test_the_export_is_a_table_with_a_model_fitted_to_all_times(bench: Bench) -> None:
    bench.count, bench.uncompilable, bench.facts = 13, {80: "no"}, {8: {"spoil": zero}}
    bench.run(PROBLEM, OTHER)
    bench.file.add_run(H200, "gemmsmith tune --shapes x", "2026-01-02", {"torch": "2"})
    made = table_of(bench.file)
    assert (made.gpu, made.date, made.command, made.versions) == (H200, "2026-01-02", "gemmsmith tune --shapes x",
                                                                  {"torch": "2"})  # fmt: skip
    assert sorted(made.entries) == sorted([shape_key(PROBLEM), shape_key(OTHER)])
    assert made.model.samples == 22
    assert 0 < made.model.error < 1
    assert table_from_text(table_text(made)).entries.keys() == made.entries.keys()


def test_an_export_needs_finished_shapes_of_one_gpu(bench: Bench) -> None:
    with pytest.raises(UsageError, match="nothing that was tuned"):
        table_of(bench.file)
    bench.run()
    with pytest.raises(UsageError, match="no finished shape of NVIDIA H100"):
        table_of(bench.file, "NVIDIA H100")
    bench.file.add_best("NVIDIA H100 80GB HBM3", shape_key(PROBLEM), Entry("wgmma_cluster", (), 1.0))
    with pytest.raises(UsageError, match="2 GPUs: NVIDIA H200, NVIDIA H100 80GB HBM3"):
        table_of(bench.file)
    assert len(table_of(bench.file, "NVIDIA H100 80GB HBM3").entries) == 1


def test_fp32_outputs_have_separate_entries() -> None:
    assert shape_key(PROBLEM.with_(out_dtype=BF16)) != shape_key(PROBLEM.with_(out_dtype=FP32))


@pytest.mark.parametrize(("settles", "alone"), [(1e-4, True), (1.0, False)])
def test_samples_of_long_kernels_follow_untimed_launches(bench: Bench, settles: float, alone: bool,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """Candidates take milliseconds; the untimed launches let the clock settle."""
    made: list[bool] = []

    def noted(*facts: Any, **named: Any) -> Course:
        made.append(named["alone"])
        return Course(*facts, **named)

    monkeypatch.setattr("gemmsmith.tune.arena.Course", noted)
    monkeypatch.setattr("gemmsmith.tune.arena.SETTLES", settles)
    bench.run()
    assert set(made) == {alone}


@pytest.mark.parametrize(("alone", "seconds", "times"), [(False, 0.1, 1), (True, 0.1, 2), (False, 0.01, 2)])
def test_a_course_that_runs_alone_launches_its_sample_twice(alone: bool, seconds: float, times: int) -> None:
    launched: list[int] = []
    course = Course(FakeStopwatch(), launched.append, "stream", "cold", 2, 1e-3, Cursor(), seconds, alone=alone)
    course.sample()
    assert len(launched) == times * course.launches == times * round(seconds / 1e-3)
    assert course.seconds == pytest.approx(times * seconds)
