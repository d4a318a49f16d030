"""The shipped record of gemmsmith.matmul's choice: a reduction of the two records in benchmarks/results."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.problem import FP16, Problem
from gemmsmith.store.tuned_choice import FILE, GROUPS, as_text, parsed, recorded_choice, reduced

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def records() -> list[dict[str, Any]]:
    return [json.loads((RESULTS / name).read_text(encoding="utf-8")) for name in ("h200_hopper.json", "h200_fp32.json")]


def test_the_shipped_file_is_the_reduced_record() -> None:
    shipped = files("gemmsmith").joinpath("store", "data", FILE).read_text(encoding="utf-8")
    assert shipped == as_text(reduced(*records()))
    assert parsed(json.loads(shipped)) == recorded_choice()


def test_a_choice_carries_its_problem_its_figures_and_its_run() -> None:
    (choice,) = (c for c in recorded_choice().choices if c.problem == Problem(4096, 4096, 4096, FP16, FP16))
    (case,) = (c for c in records()[0]["cases"]
               if (c["dtype"], c["layout"], c["m"], c["n"], c["k"]) == ("fp16", "NN", 4096, 4096, 4096))  # fmt: skip
    assert (choice.name, choice.kernel, choice.tensor_cores) == ("gemmsmith.matmul (fp16)", case["kernel"], True)
    assert (choice.tflops, choice.cublas_tflops) == (case["ours"]["tflops"], case["cublas"]["tflops"])
    assert (choice.of_cublas, choice.low) == (case["ratio"]["median"], case["ratio"]["low"])
    assert choice.seconds == pytest.approx(case["ours"]["us"] / 1e6, rel=1e-3)
    assert "driver 580.159.04" in recorded_choice().source


def test_only_the_ieee_choice_is_on_cuda_cores() -> None:
    assert {c.name for c in recorded_choice().choices if not c.tensor_cores} == {"gemmsmith.matmul (ieee)"}


def test_groups_are_the_means_of_their_cases() -> None:
    groups = {group.shapes: group for group in recorded_choice().groups}
    assert list(groups) == list(GROUPS.values())
    hopper = records()[0]
    large = groups[GROUPS["large"]]
    assert (large.cases, large.mean) == (12, hopper["means"]["large"]["geometric_mean"])
    assert large.lowest == hopper["means"]["large"]["lowest"]
    assert groups[GROUPS["others"]].cases == 21, "the unaligned shape has an aligned neighbour and is left out"
    assert groups[GROUPS["fp32"]].cases == 2


def test_an_incorrect_case_is_left_out() -> None:
    hopper, fp32 = records()
    for case in fp32["cases"]:
        if case["precision"] == "ieee" and case["m"] == case["n"] == 4096:
            case["right"] = False
    data = reduced(hopper, fp32)
    assert not [row for row in data["choices"] if (row["precision"], row["size"]) == ("ieee", 4096)]
    assert next(row["cases"] for row in data["groups"] if row["shapes"] == GROUPS["ieee"]) == 1
