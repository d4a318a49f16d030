"""--precision, --fastest and auto on the command line, on the simulator."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

import gemmsmith
from gemmsmith.choose.choice import choose
from gemmsmith.choose.precision import promises
from gemmsmith.cli import verify_run
from gemmsmith.cli.main import run_command
from gemmsmith.cli.precision_options import input_type
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import FP16, FP32, TF32, Problem
from gemmsmith.verify.cases import Case, edge_cases
from gemmsmith.verify.oracles import accuracy_subjects

SMALL = ("--m", "20", "--n", "12", "--k", "16", "--device", "sim")


def say(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run_command(list(arguments))
    text = capsys.readouterr()
    return code, text.out, " ".join(text.err.split())


def facts_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    code, out, err = say(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize("precision", ["", "ieee", "fp32-fast", "tf32"])
def test_run_auto(capsys: pytest.CaptureFixture[str], precision: str) -> None:
    words = ["run", "auto", *SMALL, *(["--precision", precision] if precision else [])]
    facts = facts_of(capsys, *words)
    problem = Problem(20, 12, 16, TF32 if precision == "tf32" else FP32)
    assert facts["kernel"] == choose(problem, precision=precision or "fp32").spec.name
    assert (precision or "fp32") in promises(rung_named(facts["kernel"]), problem.dtype)
    assert facts["ok"]


def test_a_named_rung_must_keep_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert facts_of(capsys, "run", "vectorized", *SMALL, "--precision", "ieee")["kernel"] == "vectorized"
    assert facts_of(capsys, "run", "mma_swizzled", *SMALL, "--precision", "tf32")["kernel"] == "mma_swizzled"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["run", "fp32_tensor_bf16x6", "--precision", "ieee"], "fp32_tensor_bf16x6 does not keep precision='ieee'"),
        (["run", "mma_pipelined", "--precision", "fp32-fast"], "is for fp32 operands, and these are fp16"),
        (["run", "auto", "--precision", "exact"], "unknown precision 'exact'"),
        (["run", "auto", "--precision", "ieee", "--dtype", "tf32"], "contradict each other"),
        (["run", "auto", "--config", "BM=64"], "auto chooses the kernel"),
        (["run", "auto", "-DBM=64"], "auto chooses the kernel"),
        (["run", "auto", "--precision", "ieee", "--dtype", "int8"], "with precision='ieee'"),
        (["verify", "wmma", "--precision", "tf32"], "wmma does not keep precision='tf32'"),
        (["verify", "--precision", "exact"], "unknown precision"),
        (["accuracy", "warp_tile", "--precision", "tf32"], "warp_tile does not keep"),
        (["accuracy", "auto", "--preset", "128"], "auto chooses the kernel"),
        (["accuracy", "auto", "--precision", "fp32-fast", "--dtype", "bf16"], "is for fp32 operands"),
        (["climb", "--precision", "0.01"], "--precision"),
    ],
)
def test_wrong_use(capsys: pytest.CaptureFixture[str], words: list[str], text: str) -> None:
    device = [] if words[0] == "climb" else ["--device", "sim"]
    code, out, err = say(capsys, *words, *device)
    assert (code, out) == (2, "")
    assert text in err


def test_verify_with_a_precision_takes_kernels_that_keep_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of mma_swizzled's four types is TF32; without names, all kernels that keep the precision are taken."""
    seen: list[tuple[str, str]] = []

    def one_of_each_type(spec: KernelSpec, *rest: Any) -> list[Case]:
        return list({case.problem.dtype: case for case in edge_cases(spec, *rest) if not case.skip}.values())

    def judge(_where: Any, spec: KernelSpec, _values: Any, problem: Problem, **_: Any) -> Any:
        seen.append((spec.name, problem.dtype.name))
        return SimpleNamespace(trusted=True, rho=0.0, problem=problem)

    monkeypatch.setattr(verify_run, "edge_cases", one_of_each_type)
    monkeypatch.setattr(verify_run, "verify_launch", judge)
    assert say(capsys, "verify", "mma_swizzled", "--precision", "tf32", "--device", "sim")[0] == 0
    assert seen == [("mma_swizzled", "tf32")]
    seen.clear()
    assert say(capsys, "verify", "--precision", "ieee", "--device", "sim")[0] == 0
    names = {name for name, _ in seen}
    assert {"naive", "warp_tile", "warp_tile_mixed"} <= names
    assert not {"wmma", "mma_pipelined", "fp32_tensor_bf16x6"} & names


def test_accuracy_of_auto(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def plan(*operands: Any, **arguments: Any) -> Any:
        asked.append(arguments)
        return gemmsmith.plan(*operands, **arguments)

    monkeypatch.setattr(accuracy_subjects, "plan", plan)
    words = ["--k", "16,32", "--m", "16", "--distributions", "normal,uniform", "--device", "sim", "--against", "none"]
    facts = facts_of(capsys, "accuracy", "auto", "naive", *words, "--precision", "ieee", "--fastest")
    assert [(k["name"], k["arithmetic"]) for k in facts["kernels"]] == [("auto", "fp32"), ("naive", "fp32")]
    points = {name: [{**p, "kernel": ""} for p in facts["points"] if p["kernel"] == name] for name in ("auto", "naive")}
    assert points["auto"] == points["naive"], "on CUDA cores all give the same bits"
    assert {"dtype": "fp32", "precision": "ieee", "deterministic": False} in asked
    assert facts["notes"] == ["auto is warp_tile for 16x16x32 fp32"]
    assert "--precision ieee" in facts["command"]
    assert "--fastest" in facts["command"]
    (tf32,) = facts_of(capsys, "accuracy", "auto", *words, "--precision", "tf32")["kernels"]
    assert (tf32["name"], tf32["arithmetic"]) == ("auto", "tf32")


def test_input_type() -> None:
    assert input_type("", "", FP16) == FP16
    assert input_type("", "tf32", FP16) == TF32
    assert input_type("tf32", "", FP32) == TF32
    assert input_type("fp16", "ieee", FP32) == FP16
