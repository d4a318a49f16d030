"""Worklogs as data: arithmetic, links, origins that are never mixed, and predictions that are today's."""

from __future__ import annotations

import ast
import math
import re

import pytest
from pages import ROOT

from gemmsmith.cli.render.worklog_text import worklogs_json
from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.gpus import gpu_named
from gemmsmith.ladder.registry import rung_named
from gemmsmith.learn.worklogs.claim import KERNELS, Command, Sum, claim_named, claims
from gemmsmith.learn.worklogs.ladders import predictions, wanted_predictions, worklogs
from gemmsmith.store.published import published

SUMS = [(claim.name, each) for claim in claims() for each in claim.sums]


@pytest.mark.parametrize(("name", "each"), SUMS, ids=[f"{name}-{each.text}" for name, each in SUMS])
def test_the_arithmetic_holds(name: str, each: Sum) -> None:
    del name
    assert each.holds, f"{each.sentence}, not {each.about}"


def test_wrong_arithmetic_does_not_hold() -> None:
    assert not Sum("2 * 2048**3 / 3.39e-3 / 1e9", "", 5834).holds
    assert Sum("2 * 3 - 4 / 2", "", 4).value == 4
    with pytest.raises(ValueError, match="open"):
        _ = Sum("open('x')", "", 1).value


def test_every_claim_of_the_brief_is_there() -> None:
    assert {claim.name for claim in claims()} == {
        "constants", "refill", "gflops", "tf32", "never-stored", "guard-in-k", "beta-zero", "occupancy", "registers",
        "opt-in", "peak", "conflicts", "replay", "padding", "not-selected",
    }  # fmt: skip
    for claim in claims():
        assert claim.commands or claim.sums, claim.name
        assert claim.theirs
        assert all(KERNELS.joinpath(name).is_file() for name in claim.files)
        named = {word for command in claim.commands for word in command.words if word.endswith(".cu")}
        assert named <= set(claim.files)


def test_every_kernel_belongs_to_a_claim() -> None:
    used = {name for claim in claims() for name in claim.files}
    assert {each.name for each in KERNELS.iterdir() if each.name.endswith((".cu", ".py"))} == used


def test_a_command_that_shows_something_else_is_noticed() -> None:
    command = Command("gemmsmith list", "", 1, ("a race at line \\d+",), ("all is well",))
    assert command.missing(0, "a race at line 3") == "exit code 0, not 1"
    assert command.missing(1, "no fault") == "no 'a race at line \\\\d+'"
    assert command.missing(1, "a race\n  at line 3") == ""
    assert "should not" in command.missing(1, "a race at line 3, all is well")
    assert command.lines("x a race\n at line 34 y") == ["a race at line 34"]


def test_each_ladder_is_there_with_its_author_and_link() -> None:
    found = {worklog.name: worklog for worklog in worklogs()}
    assert list(found) == ["RTX 3050 worklog", "A6000 SGEMM document", "RTX 4090 worklog", "A6000 profiling worklog"]
    assert found["RTX 4090 worklog"].titles[0][1] == "https://github.com/gpusgobrr/explore-gemm"
    assert found["A6000 SGEMM document"].source.author == ""
    assert len(found["RTX 3050 worklog"].titles) == 2
    assert sum(len(each.steps) + each.sweeps for each in found.values()) == len(published())
    page = (ROOT / "docs" / "worklogs.md").read_text(encoding="utf-8")
    for worklog in found.values():
        for title, link in worklog.titles:
            assert title in page
            assert link in page


def test_origins_are_never_mixed() -> None:
    for worklog in worklogs_json(worklogs()):
        for step in worklog["steps"]:
            assert step["published"]["origin"] == "published"
            assert step["published"]["gpu"] == worklog["gpu"]
            assert (step["predicted"] is None) == (step["kernel"] == "baseline")
            if step["predicted"]:
                assert step["predicted"]["origin"] == "predicted"
                assert step["predicted"]["gpu"] == worklog["gpu"]
            if step["measured"]:
                assert step["measured"]["origin"] == "recorded"
                assert step["measured"]["gpu"] == "NVIDIA H200"


def test_predictions_are_of_the_published_configurations() -> None:
    assert set(wanted_predictions()) == set(predictions())
    for worklog in worklogs():
        for step in worklog.steps:
            if step.predicted:
                peak = gpu_named(step.published.gpu).required_peak("fp32")
                assert 0 < step.predicted.tflops < peak
                wanted = re.findall(r"\d+", step.published.config)
                if "," in step.published.config and step.published.config[0].isdigit() and step.preset[0].isdigit():
                    assert set(re.findall(r"\d+", step.preset)) <= {*wanted, *re.findall(r"\d+", step.own_config)}


def test_padded_is_found_with_both_k_tiles() -> None:
    (document,) = (each for each in worklogs() if each.name == "A6000 SGEMM document")
    presets = [step.preset for step in document.steps if step.published.kernel == "padded"]
    assert presets == ["128x128x8-8x8", "128x128x16-8x8"]


def test_a_prediction_is_todays() -> None:
    """One of them, made again by the time model; the others by python benchmarks/time_model.py."""
    recorded = predictions()["RTX 3050", "register_block", "32-2x2", 2048]
    spec = rung_named("register_block")
    config, problem = spec.config(preset="32-2x2"), spec.problem(2048, 2048, 2048)
    us = Predictor(spec, config, problem, gpu_named("RTX 3050")).predict().us
    assert math.isclose(2 * 2048**3 / us / 1e6, recorded.tflops, rel_tol=0.05)


def test_formulas_are_arithmetic_only() -> None:
    for _, each in SUMS:
        kinds = {type(node) for node in ast.walk(ast.parse(each.filled, mode="eval"))}
        assert kinds <= {ast.Expression, ast.BinOp, ast.Constant, ast.Mult, ast.Div, ast.Pow, ast.Add, ast.Sub}


def test_the_claims_say_what_the_tables_say() -> None:
    """Figures in words that come from the table of published figures."""
    peak = gpu_named("RTX 4090").required_peak("fp32")
    baseline = next(p for p in published() if p.source == "RTX 4090 worklog" and p.kernel == "baseline")
    assert baseline.tflops > peak
    assert "84.19" in claim_named("tf32").says
    assert f"{baseline.tflops:.2f}" == "84.19"
