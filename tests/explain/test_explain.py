"""The diagnosis of each rung: the right bound for the right reason, in the measured order of speed."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from explained import LADDER, diagnosed, profiled, sass

from gemmsmith.errors import UsageError
from gemmsmith.explain.bottleneck import DRAM, FMA, ISSUE, LATENCY, LSU, Work, estimate, units_of
from gemmsmith.explain.diagnosis import MODEL, diagnose, to_json
from gemmsmith.explain.profile import CONFLICTS, WAVEFRONTS, Profile
from gemmsmith.explain.roofline import roofline
from gemmsmith.gpus import architecture, gpu_named, gpus

FP32_LADDER = LADDER[:-1]


def kinds(name: str, gpu: str = "H200") -> list[str]:
    return [finding.kind for finding in diagnosed(name, gpu).findings]


def milliseconds(name: str, gpu: str = "H200") -> float:
    return diagnosed(name, gpu).case.estimate.seconds * 1e3


@pytest.mark.parametrize(
    ("name", "bound", "first"),
    [
        ("naive", LSU, "uncoalesced global loads"),
        ("coalesced", LSU, "no reuse"),
        ("shared_tile", LSU, "shared-memory traffic"),
        ("register_block", LSU, "shared-memory traffic"),
        ("block_tile_1d", LSU, "shared-memory traffic"),
        ("block_tile_2d", LSU, "bank conflicts"),
        ("warp_tile", ISSUE, "instruction overhead"),
    ],
)
def test_the_bound_and_the_first_fix(name: str, bound: str, first: str) -> None:
    found = diagnosed(name)
    assert found.bound == bound
    assert found.findings[0].kind == first
    assert found.findings[0].gain > 1.02


def test_naive_and_coalesced_are_bound_by_global_memory_and_shared_tile_by_shared() -> None:
    for name, word in (("naive", "global"), ("coalesced", "global"), ("shared_tile", "shared")):
        assert f"for {word} memory" in diagnosed(name).sentences[0]


def test_uncoalesced_access_is_found_only_where_it_occurs() -> None:
    missing = {name for name in FP32_LADDER if "uncoalesced global loads" in kinds(name)}
    assert missing == {"naive"}


def test_bank_conflicts_are_found_with_their_line() -> None:
    (finding,) = [f for f in diagnosed("block_tile_2d").findings if f.kind == "bank conflicts"]
    assert dict(finding.numbers)["share"] == pytest.approx(0.588, abs=0.01)
    assert "06_block_tile_2d.cu:" in finding.sentence
    assert {n for n in FP32_LADDER if "bank conflicts" in kinds(n)} >= {"block_tile_2d", "vectorized"}
    assert not {"naive", "shared_tile", "rectangular"} & {n for n in FP32_LADDER if "bank conflicts" in kinds(n)}


def test_predictions_follow_the_published_order() -> None:
    """The order of speed in the published worklogs; equal rungs may be in either order."""
    order = ["naive", "coalesced", "shared_tile", "register_block", "block_tile_1d", "block_tile_2d", "vectorized",
             "warp_tile"]  # fmt: skip
    times = [milliseconds(name) for name in order]
    assert times == sorted(times, reverse=True)
    assert times[0] > 10 * times[1]
    assert min(FP32_LADDER, key=milliseconds) == "warp_tile"


def test_the_best_rungs_are_nearest_to_the_fma_pipe() -> None:
    near = {name: diagnosed(name).case.estimate for name in FP32_LADDER}
    ranked = sorted(near, key=lambda name: near[name].longest / near[name].of(FMA))
    assert ranked[0] == "warp_tile"
    assert "vectorized" in ranked[:5]
    assert ranked[-1] == "naive"


# RTX 4090 worklog, 4096³, fp32: milliseconds measured there with the rungs' default configurations.
PUBLISHED_4090 = {"naive": 210.29, "coalesced": 26.95, "shared_tile": 22.4, "block_tile_2d": 4.45, "warp_tile": 3.0}


@pytest.mark.parametrize("name", PUBLISHED_4090)
def test_published_times_are_near_the_estimate(name: str) -> None:
    ratio = PUBLISHED_4090[name] / milliseconds(name, "RTX 4090")
    assert 0.95 < ratio < 1.7, f"measured {ratio:.2f} times the estimated time"


@pytest.mark.parametrize("name", FP32_LADDER)
def test_a_diagnosis_is_short_ordered_and_predicted(name: str) -> None:
    found = diagnosed(name)
    assert 3 <= len(found.sentences) <= 6
    assert found.sentences[0].startswith("Bound by")
    gains = [round(finding.gain, 2) for finding in found.findings]
    assert gains == sorted(gains, reverse=True)
    assert all(finding.gain >= 0.999 for finding in found.findings)
    assert all(finding.fix and finding.numbers and finding.origin == "predicted" for finding in found.findings)
    facts = json.loads(json.dumps(to_json(found), allow_nan=False))
    assert facts["origin"] == "predicted"
    assert facts["bound"] == max(facts["cycles_per_sm"], key=facts["cycles_per_sm"].get)


def test_no_prediction_beats_the_peak() -> None:
    for name in FP32_LADDER:
        found = diagnosed(name)
        assert found.case.estimate.tflops <= found.case.gpu.fp32_tflops
        assert found.case.estimate.tflops <= found.roof.attainable_tflops * 1.001


def test_every_gpu_has_a_time_model() -> None:
    for gpu in gpus():
        assert units_of(gpu).fma_lanes * 2 * gpu.sms * gpu.boost_mhz / 1e6 == pytest.approx(gpu.fp32_tflops, rel=0.02)


WORK = Work(fma=4e6, issued=4e6, shared_requests=0, wavefronts=0, global_requests=0, lines=0, l2_bytes=0, dram_bytes=0,
            waits=0, wait_cycles=270, together=True, blocks=132, resident=1, imbalance=1.0)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "bound", "cycles"),
    [
        ({}, FMA, 1e6 / 132),
        ({"issued": 12e6}, ISSUE, 3e6 / 132),
        ({"wavefronts": 5e6, "shared_requests": 2e6}, LSU, 5e6 / 132),
        ({"lines": 3e6, "global_requests": 1e6, "wavefronts": 2e6}, LSU, 5e6 / 132),
        ({"dram_bytes": 48e9}, DRAM, 0.01 * 1980e6),
        ({"waits": 1000}, LATENCY, 270_000 + 1e6 / 132),
        ({"waits": 1000, "together": False}, LATENCY, 270_000),
        ({"waits": 100, "wavefronts": 8e6}, LSU, 27_000 + 8e6 / 132),  # the pipe bounds, waiting comes on top
        ({"waits": 300, "wavefronts": 8e6}, LATENCY, 81_000 + 8e6 / 132),
        ({"waits": 100, "blocks": 264, "resident": 2}, LATENCY, 27_000 + 1e6 / 264),
        ({"imbalance": 2.0}, FMA, 2e6 / 132),
    ],
)
def test_the_time_model_on_synthetic_work(change: dict[str, float], bound: str, cycles: float) -> None:
    found = estimate(replace(WORK, **change), gpu_named("H200"), 10**9)  # type: ignore[arg-type]
    assert found.bound == bound
    assert found.longest == pytest.approx(cycles)
    assert found.seconds == pytest.approx(cycles / 1980e6)


def test_the_bound_agrees_with_the_first_fix_even_with_exposed_waits() -> None:
    """One block per SM, and every shared load conflicts, as with an unpadded transposed tile."""
    base = altered()
    more = {name: base.wavefronts("ld") * 5 for name in (CONFLICTS["ld"],)}
    more[WAVEFRONTS.format(op="ld")] = base.wavefronts("ld") * 6
    used = replace(base.resources, registers=64)  # 1024 threads: one block per SM
    found = diagnose(altered(metrics=tuple((dict(base.metrics) | more).items()), resources=used),
                     sass("shared_tile"), gpu_named("H200"))  # fmt: skip
    assert found.case.work.resident == 1
    assert found.case.estimate.longest > found.case.estimate.of(LSU)
    assert (found.bound, found.findings[0].kind) == (LSU, "bank conflicts")
    assert found.sentences[0].startswith("Bound by the load/store pipe")
    assert "waits and work do not overlap" in found.sentences[0]


def test_an_estimate_is_not_called_a_bound() -> None:
    found = diagnosed("shared_tile")
    assert "takes an estimated" in found.sentences[1]
    assert "an estimated" in found.sentences[1]
    assert "lower bound" not in MODEL
    assert "may be slower or faster" in MODEL


def test_sixteen_load_units_need_two_cycles_per_warp() -> None:
    work = replace(WORK, shared_requests=4e6, wavefronts=5e6)
    assert (architecture(89).units.lsu_lanes, architecture(90).units.lsu_lanes) == (16, 32)
    assert estimate(work, gpu_named("RTX 4090"), 1).of(LSU) == pytest.approx(8e6 / 128)
    assert estimate(work, gpu_named("H200"), 1).of(LSU) == pytest.approx(5e6 / 132)


def altered(**changes: object) -> Profile:
    return replace(profiled("shared_tile", 4096, 4096, 4096, 1, 64), **changes)  # type: ignore[arg-type]


def test_small_grids_spills_and_idle_lanes_are_found() -> None:
    h200 = gpu_named("H200")
    small = diagnose(profiled("vectorized", 256, 256, 256), sass("vectorized"), h200)
    (few,) = [f for f in small.findings if f.kind == "too few blocks"]
    assert "4 blocks for 132 SMs" in few.sentence
    profile = altered()
    spilling = altered(resources=replace(profile.resources, spill_stores=64, spill_loads=64))
    assert "register spills" in [f.kind for f in diagnose(spilling, sass("shared_tile"), h200).findings]
    idle = altered(active_lanes=20.0, branch_efficiency=70.0)
    assert "idle lanes" in [f.kind for f in diagnose(idle, sass("shared_tile"), h200).findings]


def test_what_cannot_be_explained_is_refused() -> None:
    profile = altered()
    huge = altered(resources=replace(profile.resources, registers=255))
    with pytest.raises(UsageError, match="cannot be launched"):
        diagnose(huge, sass("shared_tile"), gpu_named("H200"))
    with pytest.raises(UsageError, match="no arithmetic"):
        diagnose(profiled("coalesced", 64, 64, 0), sass("coalesced"), gpu_named("H200"))


@pytest.mark.parametrize("gpu", ["RTX 3050", "A100", "H200"])
def test_int8_is_explained_where_there_is_no_fp8_too(gpu: str) -> None:
    chosen, kernel = gpu_named(gpu), "mma_pipelined"
    arch = f"sm_{chosen.arch}"
    profile = profiled(kernel, 2048, 2048, 2048, 1, 128, arch, "int8")
    found = diagnose(profile, sass(kernel, arch, "int8"), chosen)
    assert f"of its int8 peak of {chosen.int8_tops:g}." in found.sentences[1]
    assert " TOPS," in found.sentences[1]
    assert 0 < found.case.estimate.tflops <= chosen.int8_tops
    assert found.roof.ridge == pytest.approx(1e3 * chosen.int8_tops / chosen.dram_gbs)
    assert found.roof.seconds == pytest.approx(profile.problem.flops / found.roof.attainable_tflops / 1e12)


def test_a_gpu_without_tensor_cores_for_a_type_is_refused() -> None:
    kernel, without = "mma_pipelined", replace(gpu_named("A100"), int8_tops=0.0)
    profile = profiled(kernel, 2048, 2048, 2048, 1, 128, "sm_80", "int8")
    for explain in (lambda: diagnose(profile, sass(kernel, "sm_80", "int8"), without),
                    lambda: roofline(profile, without)):  # fmt: skip
        with pytest.raises(UsageError, match="A100 has no tensor cores for int8"):
            explain()


@pytest.mark.parametrize(("gpu", "words"), [("H200", "wgmma"), ("A100", "narrower")])
def test_busy_tensor_cores_are_not_labelled_fp32(gpu: str, words: str) -> None:
    chosen, kernel = gpu_named(gpu), "mma_pipelined"
    arch = f"sm_{chosen.arch}"
    found = diagnose(profiled(kernel, 2048, 2048, 2048, 1, 128, arch, "int8"), sass(kernel, arch, "int8"),
                     replace(chosen, int8_tops=chosen.int8_tops / 4))  # slow enough to bound it  # fmt: skip
    kinds_found = {f.kind: f for f in found.findings}
    assert "near the fp32 peak" not in kinds_found
    assert "int8 peak" in kinds_found["busy tensor cores"].sentence
    assert words in kinds_found["busy tensor cores"].fix


def test_gains_are_finite() -> None:
    for name in FP32_LADDER:
        assert all(math.isfinite(finding.gain) for finding in diagnosed(name).findings)
