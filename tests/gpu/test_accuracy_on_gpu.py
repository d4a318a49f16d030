"""On a GPU: errors of kernels beside cuBLAS in fp32 and TF32. Run with ``pytest -m gpu tests/gpu``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.main import run_command
from gemmsmith.run.cuda import cuda_device, gpu_available
from gemmsmith.verify.oracles.accuracy_study import DISTRIBUTIONS

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs an NVIDIA GPU")]


def facts_of(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    got = run_command(["accuracy", *arguments, "--device", "gpu", "--json"])
    seen = capsys.readouterr()
    assert got == code, seen
    facts: dict[str, Any] = json.loads(seen.out)
    return facts


def by_kernel(facts: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {k["name"]: [p for p in facts["points"] if p["kernel"] == k["name"]] for k in facts["kernels"]}


def test_fp32_beside_cublas_in_fp32_and_in_tf32(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    facts = facts_of(capsys, "warp_tile", "--k", "16,256,4096", "--plot", str(tmp_path / "errors.svg"))
    assert facts["origin"] == "measured"
    assert facts["device"] == cuda_device().name
    assert [(k["name"], k["arithmetic"]) for k in facts["kernels"]] == [
        ("warp_tile", "fp32"), ("cublas", "fp32"), ("cublas-tf32", "tf32"),
    ]  # fmt: skip
    points = by_kernel(facts)
    assert {p["distribution"] for p in points["warp_tile"]} == set(DISTRIBUTIONS)
    for ours, library, tf32 in zip(*points.values(), strict=True):
        assert not ours["beyond_gate"], ours
        assert not library["beyond_gate"], library
        # TF32 keeps 10 bits of each factor, fp32 23: thousands of times the error on normal data at every K. Where
        # fp32's own errors grow like √K and TF32's average out, as on positive data at K = 4096, seven times are left.
        assert tf32["largest"] * tf32["unit"] > 4 * library["largest"] * library["unit"]
        assert tf32["frobenius"] > 4 * library["frobenius"]
    assert (tmp_path / "errors.svg").read_text(encoding="utf-8").startswith("<svg ")


def test_the_simulator_and_the_gpu_find_the_same_errors(capsys: pytest.CaptureFixture[str]) -> None:
    """Rungs on CUDA cores give the same bits on both, and so do TF32 products of mma.sync."""
    pytest.importorskip("torch")
    for words in (["warp_tile"], ["mma_pipelined", "--dtype", "tf32"]):
        words += ["--against", "none", "--k", "8,64", "--m", "64"]
        on_gpu = facts_of(capsys, *words)
        assert run_command(["accuracy", *words, "--device", "sim", "--json"]) == 0
        simulated = json.loads(capsys.readouterr().out)
        assert simulated["origin"] == "simulated"
        assert on_gpu["points"] == simulated["points"]


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_16_bit_inputs_beside_cublas(capsys: pytest.CaptureFixture[str], dtype: str) -> None:
    pytest.importorskip("torch")
    facts = facts_of(capsys, "mma_pipelined", "--dtype", dtype, "--k", "64,1024", "--seeds", "2")
    assert [(k["name"], k["arithmetic"]) for k in facts["kernels"]] == [("mma_pipelined", dtype), ("cublas", dtype)]
    for point in facts["points"]:
        assert not point["beyond_gate"], point


def test_integers_have_no_error_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    facts = facts_of(capsys, "async_copy", "naive", "--distributions", "integers", "--k", "64,1000",
                     "--against", "cublas,cublaslt,warp_tile")  # fmt: skip
    assert len(facts["points"]) == 10
    assert {p["largest"] for p in facts["points"]} == {0}


def test_int8_is_exact(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    facts = facts_of(capsys, "mma_pipelined", "--dtype", "int8", "--k", "64,256")
    ours = by_kernel(facts)["mma_pipelined"]
    assert {p["distribution"] for p in ours} == {"normal", "uniform", "cancelling"}
    assert {p["largest"] for p in ours} == {0}


def test_what_a_library_does_not_take_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    got = run_command(["accuracy", "mma_pipelined", "--dtype", "fp16", "--against", "cublas-tf32", "--device", "gpu"])
    assert got == 2
    assert "rounds fp32 inputs to TF32" in capsys.readouterr().err
