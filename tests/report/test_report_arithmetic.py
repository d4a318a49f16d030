"""CUDA-core and tensor-core rungs share a page, but never a linear scale, a peak or a ratio."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from report_reading import Node, read
from report_sample import BOTH, FEW, bare, run, rungs, sample

from gemmsmith.report import page
from gemmsmith.report.figures.ladder import ladder_parts
from gemmsmith.report.figures.speed import over_sizes
from gemmsmith.report.ladder_picture import write_ladder_picture
from gemmsmith.report.speeds import speeds_of
from gemmsmith.report.summary import headline_words, top_facts


@cache
def tree(kind: str) -> Node:
    return read(page(sample(BOTH) if kind == "both" else sample()))


def figure(kind: str, key: str) -> Node:
    return next(f for f in tree(kind).all("figure") if f.attributes.get("id") == f"chart-{key}")


def shown(chart: Node) -> list[str]:
    return [row.all("td")[1].text for row in chart.one("tbody").all("tr")]


def test_tensor_core_rungs_have_their_own_chart_and_peak() -> None:
    cuda, tensor = figure("both", "ladder"), figure("both", "ladder-tensor")
    assert shown(cuda) == [*FEW, "warp_tile_mixed", "cuBLAS fp32", "cuBLASLt fp32"]
    assert shown(tensor) == ["wmma", "mma_swizzled", "cuBLAS TF32", "cuBLAS fp16", "cuBLASLt fp16"]
    lines = [t.text for t in tensor.all("svg", "wide")[0].all("text", "reference")]
    assert lines == ["cuBLAS TF32 350.0 (fp32 inputs)", "cuBLAS fp16 702.0", "cuBLASLt fp16 724.0", "fp16 peak 989"]
    assert "fp32 peak 66.9" in cuda.text
    assert "fp32 peak" not in tensor.text
    assert "CUDA cores: warp_tile reaches 86 times the speed of naive and 87\u00a0% of cuBLAS" in cuda.one("h3").text
    assert (
        "Tensor cores: mma_swizzled reaches 1.88 times the speed of wmma and 57\u00a0% of cuBLAS"
        in tensor.one("h3").text
    )
    assert "over naive" not in tensor.text
    bars = [b.number("width") for b in tensor.all("svg", "wide")[0].all("rect", "mark")]
    assert bars[0] / bars[1] == pytest.approx(212 / 398, abs=0.003)


def test_a_baseline_off_the_scale_is_named_with_its_arithmetic() -> None:
    note = figure("sample", "ladder").one("p", "note").text
    assert note == "Off this scale, in another arithmetic: cuBLAS TF32 350.0 TFLOPS."
    timed = run()
    fast = tuple(replace(m, timings=tuple(replace(t, median=t.median / 9) for t in m.timings))
                 if m.identity.name == "cublaslt" else m for m in timed.measurements)  # fmt: skip
    (made,) = ladder_parts(replace(sample(), recorded=(replace(timed, measurements=fast),)), speeds_of(replace(
        sample(), recorded=(replace(timed, measurements=fast),))), {})  # fmt: skip
    assert made.note == "Off this scale: cuBLASLt fp32 473.4, cuBLAS TF32 350.0 TFLOPS."


def test_a_prediction_is_never_the_fastest_if_others_were_timed() -> None:
    timed = run()
    without = tuple(m for m in timed.measurements if m.identity.name != "warp_tile")
    model = replace(sample(), recorded=(replace(timed, measurements=without),))
    words = [fact.name for fact in top_facts(model, speeds_of(model))]
    assert any(word.startswith("fastest") for word in words)
    assert not any("warp_tile" in word for word in words)


def test_the_headline_and_the_figures_at_the_top_never_mix_arithmetics() -> None:
    assert tree("both").all("h1")[0].text == "Six rungs: 0.52 to 44.6 TFLOPS on CUDA cores, 398 on tensor cores"
    top = {d.one("dt").text: d.one("span", "big").text
           for d in tree("both").all("dl", "figures")[0].children if isinstance(d, Node)}  # fmt: skip
    assert top == {
        "fastest on CUDA cores: warp_tile": "44.6 TFLOPS", "of cuBLAS, fp32 inputs": "87\u00a0%",
        "warp_tile vs naive": "×86", "fastest on tensor cores: mma_swizzled": "398.0 TFLOPS",
        "of cuBLAS, fp16 inputs": "57\u00a0%", "verified against float64": "6 of 6",
    }  # fmt: skip


def test_a_predicted_headline_says_so_and_counts_in_words() -> None:
    many = tuple(replace(r, number=i + 1, name=f"{r.name}{i}") for i, r in enumerate((*rungs(BOTH), *rungs(BOTH) * 2)))
    for count, word in ((6, "Six"), (15, "Fifteen"), (18, "Eighteen")):
        model = replace(bare(BOTH), rungs=many[:count])
        assert re.match(rf"{word} rungs, predicted: 0\.\d\d to \d\d\.\d TFLOPS on CUDA cores, \d+ on tensor cores$",
                        headline_words(model, speeds_of(model)))  # fmt: skip


def test_speedups_compare_rungs_on_the_same_execution_unit() -> None:
    def names(rung: str) -> list[str]:
        view = next(n for n in tree("both").all("article", "rung") if n.attributes["id"] == f"rung-{rung}")
        return [n.text for n in view.all("dl", "figures")[0].all("dt")]

    assert names("mma_swizzled") == ["TFLOPS", "of cuBLAS", "vs wmma"]
    assert names("wmma") == ["TFLOPS", "of cuBLAS", "vs warp_tile_mixed, on CUDA cores"]
    assert names("warp_tile") == ["TFLOPS", "of cuBLAS", "vs coalesced", "vs naive"]


def test_speed_over_size_has_one_chart_per_execution_unit() -> None:
    cuda, tensor = over_sizes(sample(BOTH), speeds_of(sample(BOTH)))
    assert {row[0] for row in cuda.table.rows} == {*FEW, "warp_tile_mixed", "cuBLAS fp32", "cuBLASLt fp32"}
    assert {row[0] for row in tensor.table.rows} == {"wmma", "mma_swizzled", "cuBLAS TF32", "cuBLAS fp16",
                                                     "cuBLASLt fp16"}  # fmt: skip
    timings = len(sample(BOTH).recorded[0].measurements)
    assert sum(len(read(c.wide).all(class_="mark")) for c in (cuda, tensor)) == timings, "nothing is left out"


def test_the_roofline_has_both_peaks_and_shares_of_each_rungs_own_peak() -> None:
    chart = figure("both", "roofline")
    shares = {row.all("td")[1].text: row.all("td")[5].text for row in chart.one("tbody").all("tr")}
    assert shares["warp_tile"] == "67\u00a0% (fp32)"
    assert shares["warp_tile_mixed"] == "65\u00a0% (fp32)", "its inputs are fp16, its arithmetic is not"
    assert shares["mma_swizzled"] == "40\u00a0% (fp16)"
    assert {"fp32 peak 66.9", "fp16 peak 989"} <= {t.text for t in chart.all("text", "reference")}


def test_tensor_core_rungs_have_their_own_bank_conflict_chart_with_ldmatrix() -> None:
    rows = {row.all("td")[0].text: [c.text for c in row.all("td")]
            for row in figure("both", "conflicts-tensor").one("tbody").all("tr")}  # fmt: skip
    assert list(rows) == ["wmma", "mma_swizzled"]
    assert int(rows["mma_swizzled"][4].replace(",", "")) > 0
    assert figure("both", "conflicts").one("tbody").all("tr")
    assert "tensor-core multiply-add" in figure("both", "mix").text
    assert "tensor-core multiply-add" not in figure("sample", "mix").text


def test_titles_compare_only_comparable_rungs() -> None:
    assert "warp_tile moves" in figure("both", "traffic").one("h3").text, "fp16 inputs take half the bytes"
    assert "warp_tile is fastest on CUDA cores" in figure("both", "occupancy").one("h3").text
    assert "of the instructions on CUDA cores" in figure("both", "mix").one("h3").text


def test_the_picture_has_one_panel_per_execution_unit(tmp_path: Path) -> None:
    root = ET.parse(write_ladder_picture(tmp_path / "ladder.svg", sample(BOTH))).getroot()
    texts = [(n.get("class", ""), n.text or "") for n in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [words for class_, words in texts if class_ == "panel"] == ["CUDA cores", "Tensor cores"]
    assert ("headline", "Six rungs: 0.52 to 44.6 TFLOPS on CUDA cores, 398 on tensor cores") in texts
    assert ("where", "TFLOPS at 4096³, recorded on H200") in texts
    widths = [float(n.get("width", "0")) for n in root.iter() if "mark" in n.get("class", "").split()]
    assert len(widths) == len(BOTH)
    assert widths[2] > 400, "fp32 rungs are no slivers"
    assert float(root.get("height", "0")) < 1000
