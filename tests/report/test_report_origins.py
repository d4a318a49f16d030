"""Origins on the page: measured, recorded and predicted figures are told apart and never mixed."""

from __future__ import annotations

import math
from dataclasses import replace
from html import unescape
from typing import Any

import pytest
from report_pages import section, tree
from report_reading import read
from report_sample import BOTH, MACHINE, measurement, run, sample

from gemmsmith.problem import BF16, FP16, TF32, Problem
from gemmsmith.report import page
from gemmsmith.report.charts.words import sentence
from gemmsmith.report.figures.names import contender
from gemmsmith.report.reasons import reason
from gemmsmith.report.speeds import speeds_of


def test_a_recorded_figure_names_its_gpu_and_a_predicted_one_says_so() -> None:
    def hero(kind: str) -> str:
        return tree(kind).all("dl", "figures")[0].text

    assert "recorded on H200" in hero("sample")
    assert "predicted" not in hero("sample")
    assert "predicted" in hero("bare")
    assert "predicted to go from" in tree("bare").all("h1")[0].text


def test_measured_runs_take_precedence_and_curves_do_not_mix_machines() -> None:
    mine = replace(run(("naive",), (512,)), machine=replace(MACHINE, gpu="NVIDIA GeForce RTX 3050"))
    speeds = speeds_of(replace(sample(), measured=(mine,)))
    assert [(s.origin, s.gpu, s.problem.m) for s in speeds.of("naive")] == [("measured", "RTX 3050", 512)]
    assert {(s.origin, s.gpu) for s in speeds.of("warp_tile")} == {("recorded", "H200")}


def test_rejected_and_unverified_timings_are_listed_and_not_drawn() -> None:
    timed = run()
    bad = tuple(
        replace(m, rejected="above the roofline") if m.identity.name == "naive"
        else replace(m, verified=False) if m.identity.name == "coalesced" else m
        for m in timed.measurements
    )  # fmt: skip
    model = replace(sample(), recorded=(replace(timed, measurements=bad),))
    speeds = speeds_of(model)
    assert speeds.of("naive") == speeds.of("coalesced") == ()
    words = section(read(page(model)), "method").text
    assert "above the roofline" in words
    assert "not verified" in words


def test_each_input_type_has_its_own_baseline() -> None:
    half = measurement("cublas", "baseline", "fp16", 4096, 700.0)
    half = replace(half, problem=replace(half.problem, dtype=FP16), ratios=())
    timed = replace(run(), measurements=(*run().measurements, half))
    speeds = speeds_of(replace(sample(), recorded=(timed,)))
    full = speeds.at("cublas", Problem(4096, 4096, 4096))
    assert full is not None
    assert full.tflops == pytest.approx(51.3)
    assert [s.tflops for s in speeds.of("cublas:fp16")] == pytest.approx([700.0])
    assert contender("cublas:fp16", "fp16") == "cuBLAS fp16"


@pytest.mark.parametrize("change", [
    {"dtype": TF32}, {"dtype": BF16}, {"trans_b": True}, {"out_dtype": FP16}, {"beta": 1.0}, {"config": "BM=256"},
])  # fmt: skip
def test_only_timings_of_the_ladders_type_layout_and_configuration_count(change: dict[str, Any]) -> None:
    model = sample(BOTH)
    one = measurement("mma_swizzled", "rung", "fp16", 4096, 999.0, FP16)
    problem = one.problem.with_(**{k: v for k, v in change.items() if k != "config"})
    own = replace(one.identity, config=change.get("config", one.identity.config))
    odd = replace(one, problem=problem, identity=own)
    faster = replace(model.recorded[0], measurements=(odd, *model.recorded[0].measurements))
    speeds = speeds_of(replace(model, recorded=(faster,)))
    at = speeds.at("mma_swizzled", model.problem)
    assert at is not None
    assert at.tflops == pytest.approx(398.0)
    assert [name for name, _ in speeds.others] == [f"mma_swizzled at {problem}"]
    assert "999.0 TFLOPS, recorded on H200" in speeds.others[0][1]
    alone = speeds_of(replace(model, recorded=(replace(faster, measurements=(odd,)),)))
    assert alone.known == ()


def test_page_and_terminal_give_the_same_reason() -> None:
    model = sample(BOTH)
    timed = tuple(replace(m, timings=tuple(replace(t, median=t.median * 5) for t in m.timings))
                  if m.identity.name == "warp_tile" else m for m in model.recorded[0].measurements)  # fmt: skip
    slower = replace(model, recorded=(replace(model.recorded[0], measurements=timed),))
    rung = next(r for r in slower.rungs if r.name == "warp_tile")
    text_of_step = reason(rung, slower, speeds_of(slower))
    assert "so it does not explain this step. The idea: a level between block and thread" in text_of_step
    text = unescape(page(slower))
    assert f'<p class="why">{sentence(text_of_step)}</p>' in text
    assert f'<p class="why">{rung.why[1]}</p>' not in text


def test_a_share_of_the_baseline_is_never_taken_across_machines() -> None:
    timed = run(("warp_tile",))
    alone = tuple(replace(m, ratios=()) for m in timed.measurements)
    rung = replace(timed, measurements=tuple(m for m in alone if m.identity.kind == "rung"))
    base = replace(timed, measurements=tuple(m for m in alone if m.identity.kind == "baseline"))
    there = speeds_of(replace(sample(), recorded=(rung, base)))
    assert there.of("warp_tile")[-1].of_baseline == pytest.approx(44.6 / 51.3)
    apart = speeds_of(replace(sample(), recorded=(rung,), measured=(base,)))
    assert math.isnan(apart.of("warp_tile")[-1].of_baseline)


def test_tf32_is_never_labelled_fp32() -> None:
    assert contender("cublas-tf32", "tf32") == "cuBLAS TF32"
    assert contender("cublas", "tf32") == "cuBLAS tf32"
    assert "cuBLAS TF32 fp32" not in tree().text
