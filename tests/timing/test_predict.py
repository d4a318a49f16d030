"""Predictions of whole kernels: against recorded times, with what-ifs, and where there is none."""

from __future__ import annotations

import gc
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
from gemmsmith.errors import UnsupportedError
from gemmsmith.explain.timing.clock import Activity, clock_mhz
from gemmsmith.explain.timing.collection import collection_paused
from gemmsmith.explain.timing.predict import Predictor, predict
from gemmsmith.explain.timing.prediction import Changes, RoundTime, longest_of
from gemmsmith.explain.timing.sampled import Sample
from gemmsmith.explain.timing.step import step_of
from gemmsmith.explain.timing.summary import summary_from_json, summary_of, summary_to_json
from gemmsmith.explain.timing.timed import timed, to_json
from gemmsmith.gpus import gpu_named
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.sim.timing.outcome import Outcome
from gemmsmith.sim.timing.parameters import errors_of, parameters_of, sources_of, timed_architectures

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
H200 = gpu_named("H200")


def _recorded(rung: str, size: int) -> float:
    (run,) = json.loads((RESULTS / "h200_ladder.json").read_text(encoding="utf-8"))["runs"]
    for m in run["measurements"]:
        if (m["identity"]["name"], m["problem"]["m"]) == (rung, size):
            return float(next(t["median"] for t in m["timings"] if (t["mode"], t["cache"]) == ("graph", "cold"))) * 1e6
    raise AssertionError(f"{rung} at {size} is not in the record")


@pytest.mark.parametrize("rung", ["shared_tile", "mma_swizzled"])
def test_a_prediction_is_near_the_record(rung: str) -> None:
    spec = rung_named(rung)
    found = predict(spec, spec.config(), spec.problem(512, 512, 512), H200)
    assert found.us == pytest.approx(_recorded(rung, 512), rel=0.2)
    assert found.low_us < found.us < found.high_us


def test_a_larger_k_takes_its_k_tiles_longer() -> None:
    spec = rung_named("shared_tile")
    one, two = (predict(spec, spec.config(), spec.problem(512, 512, k), H200) for k in (512, 1024))
    assert two.main.cycles / one.main.cycles == pytest.approx(2, rel=0.1)


def test_one_size_can_use_what_another_executed() -> None:
    spec = rung_named("shared_tile")
    first, second = (Predictor(spec, spec.config(), spec.problem(n, n, 1024), H200) for n in (512, 1024))
    assert second.adopt(first)
    assert second.samples is first.samples
    assert second.predict().us > first.predict().us


def test_stalls_are_accounted_for_the_longest_rounds_alone() -> None:
    spec = rung_named("shared_tile")
    one, other = (Predictor(spec, spec.config(), spec.problem(1024, 1024, 512), H200) for _ in range(2))
    some, whole = one._all_rounds(Changes()), other._all_rounds(Changes(), all_stalls=True)
    assert len(some) > 1
    assert not all(each.outcome.accounted for _, each in some)
    assert all(each.outcome.accounted for _, each in whole)
    assert [(times, each.cycles) for times, each in some] == [(times, each.cycles) for times, each in whole]
    assert longest_of(some).outcome == longest_of(whole).outcome


def test_stalls_are_accounted_again_if_other_rounds_take_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = rung_named("shared_tile")
    predictor, asked = Predictor(spec, spec.config(), spec.problem(256, 256, 128), H200), []
    rounds = Predictor._rounds

    def wrong_guess(self: Predictor, changes: Changes, all_stalls: bool = False) -> list[tuple[int, RoundTime]]:
        asked.append(all_stalls)
        found = rounds(self, changes, all_stalls)
        return [(n, replace(r, outcome=replace(r.outcome, accounted=all_stalls))) for n, r in found]

    monkeypatch.setattr(Predictor, "_rounds", wrong_guess)
    assert predictor.predict().outcome.accounted
    assert asked == [False, True]


def test_the_garbage_collector_rests_only_while_a_time_is_predicted() -> None:
    with collection_paused():
        assert not gc.isenabled()
        with collection_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_loop_over_a_stride_is_executed_for_every_size(tmp_path: Path) -> None:
    """K is shortened, the stride of A's rows is not: what K = 448 executed is half of what 896 takes."""
    file = tmp_path / "stride.cu"
    file.write_text("""
__global__ void product(const float* A, const float* B, float* C, int M, int N, int K, int lda, int ldb, int ldc) {
    float sum = 0.0f;
    for (int k = 0; k < lda; ++k) sum += A[threadIdx.y * lda + k] * B[k * ldb + threadIdx.x];
    C[threadIdx.y * ldc + threadIdx.x] = sum;
}
""")
    spec, config = find_kernel(str(file), KernelOptions(block="16,2", grid="1"))
    first, second = (Predictor(spec, config, spec.problem(2, 16, k), H200) for k in (448, 896))
    assert not second.adopt(first)
    assert second.predict().main.cycles / first.predict().main.cycles == pytest.approx(2, rel=0.1)


def test_what_ifs_and_reasons_of_a_step() -> None:
    naive, coalesced = (
        timed(rung_named(n), rung_named(n).config(), rung_named(n).problem(256, 256, 256), H200)
        for n in ("naive", "coalesced")
    )
    assert naive.what_ifs[0].cost == "uncoalesced global accesses"
    assert naive.what_ifs[0].gain > 2
    step = step_of(("naive", summary_of(naive)), ("coalesced", summary_of(coalesced)))
    assert step is not None
    assert (step.slow, step.fast) == ("naive", "coalesced")
    assert step.ratio > 2
    assert any("uncoalesced" in sentence for sentence in step.sentences)
    short = summary_of(naive)
    assert short is not None
    kept = summary_from_json(json.loads(json.dumps(summary_to_json(short))))
    again = step_of(("naive", kept), ("coalesced", summary_of(coalesced)))
    assert again is not None
    assert again.sentences[1:] == step.sentences[1:], "a record explains a step as the prediction does"
    made = json.loads(json.dumps(to_json(naive)))
    assert made["bound"] == "L1 tags"
    assert any(row["stalls"].get("lg_throttle") for row in made["lines"])


def test_architectures_without_a_time_say_so() -> None:
    spec = rung_named("naive")
    with pytest.raises(UnsupportedError, match="no time is predicted for sm_120"):
        parameters_of(gpu_named("RTX 5090"))
    found = timed(spec, spec.config(), spec.problem(64, 64, 64), gpu_named("RTX 5090"))
    assert found.predicted is None
    assert "sm_120" in found.sentences[0]
    assert timed_architectures() == (80, 86, 89, 90)


@pytest.mark.parametrize("name", ["H200", "RTX A6000", "RTX 3050", "RTX 4090", "A100"])
def test_every_parameter_has_a_source(name: str) -> None:
    assert all(sources_of(gpu_named(name)).values())
    assert parameters_of(gpu_named(name)).sm.lsu_lanes in (16, 32)


def test_the_clock_falls_where_work_takes_more_than_the_power_limit() -> None:
    model = parameters_of(H200)
    cycles = 1e6
    seconds = cycles / (H200.boost_mhz * 1e6)
    peak = Activity(gmma_flops=4096 * 132 * cycles, l2_bytes=48 * 132 * cycles)
    settled = clock_mhz(H200, model, peak, cycles)
    assert 1200 < settled < 1350, "wgmma rungs at 4096 in h200_cycles.json"
    f = settled / H200.boost_mhz
    drawn = model.base_watts * f + (peak.joules(model) * f**2 + peak.memory_joules(model)) / seconds * f
    assert drawn == pytest.approx(H200.tdp_watts, rel=0.01)
    slower = clock_mhz(H200, model, peak, cycles, least_us=1.2 * cycles / settled)
    assert slower > 1.02 * settled, "what L2 bounds leaves power for the clock"
    assert clock_mhz(H200, model, Activity(ffma_flops=256 * 132 * cycles), cycles) == H200.boost_mhz
    assert clock_mhz(H200, model, Activity(mma_flops=1.0), cycles) == model.tensor_mhz < H200.boost_mhz


def _looked_at() -> dict[tuple[str, str], str]:
    text = (RESULTS.parent / "time_model_fitted.txt").read_text(encoding="utf-8")
    return {(name, size): how for name, size, how in (x.split() for x in text.splitlines() if x and x[0] != "#")}


def test_at_most_a_quarter_of_rungs_and_sizes_is_fitted() -> None:
    ladder = [p for p in _record()["points"] if p["set"] == "ladder"]
    listed = _looked_at()
    assert set(listed.values()) == {"fitted", "seen"}
    assert sum(how == "fitted" for how in listed.values()) <= len(ladder) / 4
    for p in ladder:
        how = listed.get((p["kernel"], str(p["size"])), "")
        assert (p["fitted"], p["seen"]) == (how == "fitted", how == "seen")
    assert not any(p["fitted"] for p in _record()["points"] if p["set"] == "published")


def test_quoted_figures_are_of_points_that_steered_nothing() -> None:
    record, names = _record(), {"ladder": "rungs on the H200", "published": "published, other GPUs"}
    page = (RESULTS.parents[1] / "docs" / "time-model.md").read_text(encoding="utf-8")
    for name, found in record["summary"].items():
        mine = [p for p in record["points"] if p["set"] == name
                and not (p["fitted"] or p.get("seen") or p.get("stale"))]  # fmt: skip
        assert found["points"] == len(mine)
        for limit in (10, 15, 20):
            near = sum(abs(p["ratio"] - 1) <= limit / 100 for p in mine if "ratio" in p)
            assert found[f"within_{limit}"] == near
            if name in names:
                (row,) = (x for x in page.splitlines() if x.startswith(f"| {names[name]} |"))
                assert f"{near} of {len(mine)} (" in row


def test_error_ranges_are_those_of_the_record() -> None:
    """Kernels that are not ours; of wgmma and of other GPUs, the points that steered nothing."""
    kinds: dict[str, list[float]] = {}
    for p in _record()["points"]:
        kind = "others" if p["gpu"] != "H200" else p.get("kind")
        if kind in ("wgmma", "others") and "ratio" in p and not p["fitted"] and not p.get("seen"):
            kinds.setdefault(kind, []).append(p["measured_us"] / p["own_clock_us"])
    times = {(row["kernel"], row["k"]): row["us"] for name in ("h200_public.json", "h200_public_second.json")
             for row in json.loads((RESULTS / name).read_text(encoding="utf-8"))["rows"]}  # fmt: skip
    for row in json.loads((RESULTS / "public_today.json").read_text(encoding="utf-8"))["rows"]:
        if (row["kernel"], row["size"]) in times:  # the third set tests the ranges
            kinds.setdefault(row["kind"], []).append(times[row["kernel"], row["size"]] / row["us"])
    assert set(kinds) == {"simt", "mma", "wgmma", "others"}
    for kind, found in kinds.items():
        low, high = errors_of(kind, H200 if kind != "others" else gpu_named("RTX 4090"))
        left_out = max(1, (len(found) + 1) // 20) - 1  # on each side
        assert sum(each < low for each in found) <= left_out, f"{kind}: run python benchmarks/update_docs.py"
        assert sum(each > high for each in found) <= left_out
        assert min(found) - low < 0.02 or left_out, "no wider than it has to be"


def _record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / "time_model.json").read_text(encoding="utf-8"))
    return found


def test_a_deep_k_takes_at_least_what_its_busiest_unit_needs() -> None:
    """Two short K whose difference hides behind an epilogue: the line through both would be too flat."""
    predictor = object.__new__(Predictor)
    predictor.longer = 1.0
    predictor.problem = Problem(128, 128, 1024)
    predictor._samples = [Sample(None, (), {}, {}, k) for k in (256, 512)]  # type: ignore[arg-type]

    def deep(steep: float, work: float) -> float:
        found = {
            256: Outcome(cycles=1000, busy={"tensor cores": 0.1, "issue": 0.2}),
            512: Outcome(cycles=1000 + steep, busy={"tensor cores": (100 + work) / (1000 + steep), "issue": 0.1}),
        }
        predictor._run_samples = lambda *_: list(found.values())  # type: ignore[method-assign]
        return predictor._timed(1, False, Changes()).cycles

    assert deep(steep=100, work=300) == pytest.approx(1100 + 2 * 300)
    assert deep(steep=400, work=300) == pytest.approx(1400 + 2 * 400)
