"""The tuned choice on the page: a row of its own beside the rungs' defaults, on the GPU it was recorded on."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from report_reading import Node, read
from report_sample import BOTH, MACHINE, run, sample

from gemmsmith.problem import Problem
from gemmsmith.report import page
from gemmsmith.report.choices import choice_rows, choices_of
from gemmsmith.report.report_model import ReportModel
from gemmsmith.report.speeds import speeds_of
from gemmsmith.store.tuned_choice import recorded_choice


def model() -> ReportModel:
    return replace(sample(BOTH), choice=recorded_choice())


@cache
def tree() -> Node:
    return read(page(model()))


def figure(key: str) -> Node:
    return next(f for f in tree().all("figure") if f.attributes.get("id") == f"chart-{key}")


def recorded(precision: str) -> dict[str, Any]:
    """What was recorded of the sample's size, as the file has it."""
    file = files("gemmsmith.store").joinpath("data/h200_choice.json")
    choices = json.loads(file.read_text(encoding="utf-8"))["choices"]
    dtype = "fp32" if precision else "fp16"
    return next(c for c in choices if (c["size"], c["dtype"], c["precision"]) == (4096, dtype, precision))


def share(precision: str, space: str = "\u00a0") -> str:
    return f"{recorded(precision)['of_cublas'] * 100:.1f}{space}%"


def rows(key: str) -> dict[str, list[str]]:
    found = [[c.text for c in row.all("td")] for row in figure(key).one("tbody").all("tr")]
    return {row[1]: row for row in found}


def test_each_chart_has_the_choices_on_its_execution_unit() -> None:
    cuda, tensor = rows("ladder"), rows("ladder-tensor")
    assert [name for name in cuda if "matmul" in name] == [
        f"gemmsmith.matmul (ieee): simt_best {recorded('ieee')['tile']}"
    ]
    names = [
        f"fp16): wgmma_cluster {recorded('')['tile']}",
        f"fp32): fp32_wgmma_bf16x6 {recorded('fp32')['tile']}",
        f"fp32-fast): fp32_wgmma_fp16x3 {recorded('fp32-fast')['tile']}",
    ]
    assert [name for name in tensor if "matmul" in name] == [f"gemmsmith.matmul ({name}" for name in names]
    fp16 = tensor[f"gemmsmith.matmul ({names[0]}"]
    assert (fp16[2], fp16[3], fp16[6], fp16[-1]) == ("fp16", f"{recorded('')['tflops']:.1f}", share(""), "recorded")
    bars = [t.text for t in figure("ladder-tensor").all("svg", "wide")[0].all("text", "name")]
    assert bars[-3:] == ["gemmsmith.matmul (fp16)", "gemmsmith.matmul (fp32)", "gemmsmith.matmul (fp32-fast)"]


def test_the_note_says_why_bars_are_not_comparable() -> None:
    note = figure("ladder-tensor").one("p", "note").text
    assert "compare its share of cuBLAS, not its bar" in note
    assert "637 TFLOPS with fp16" in note
    assert f"gemmsmith.matmul reaches {share('')}" in figure("ladder-tensor").one("h3").text
    assert f"gemmsmith.matmul reaches {share('ieee')}" in figure("ladder").one("h3").text


def test_the_top_figures_have_the_choice() -> None:
    top = {d.one("dt").text: d.one("span", "big").text
           for d in tree().all("dl", "figures")[0].children if isinstance(d, Node)}  # fmt: skip
    assert {name: value for name, value in top.items() if "matmul" in name} == {
        "gemmsmith.matmul (fp16), of cuBLAS": share(""), "gemmsmith.matmul (fp32), of cuBLAS": share("fp32"),
        "gemmsmith.matmul (ieee), of cuBLAS": share("ieee"),
    }  # fmt: skip


def test_the_groups_are_a_section_of_their_own() -> None:
    section = next(n for n in tree().all("section") if n.attributes.get("id") == "choice")
    table = [[c.text for c in row.all("td")] for row in section.one("tbody").all("tr")]
    assert table[0] == ["bf16 and fp16, large", "12", "1.02", "0.99", "1.06"]
    assert "record_hopper.py" in section.text


def test_climb_lists_the_choices() -> None:
    named = {"ieee": "ieee", "fp16": "", "fp32": "fp32", "fp32-fast": "fp32-fast"}
    assert choice_rows(model(), speeds_of(model())) == tuple(
        (f"matmul ({name})", f"{recorded(its)['tflops']:.3g}", share(its, "")) for name, its in named.items()
    )


def test_no_choice_beside_another_gpu_another_size_or_predictions() -> None:
    other = replace(run(BOTH), machine=replace(MACHINE, gpu="NVIDIA GeForce RTX 3050"))
    cases = (replace(model(), recorded=(other,)), replace(model(), problem=Problem(512, 512, 512)),
             replace(model(), recorded=()))  # fmt: skip
    for case in cases:
        assert choices_of(case, speeds_of(case)) == ()
    html = page(cases[0])
    assert "gemmsmith.matmul" not in html
    assert 'id="choice"' not in html
