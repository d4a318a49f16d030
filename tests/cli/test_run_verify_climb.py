"""gemmsmith run, verify and climb on the simulator: JSON, exit codes, rungs that are not simulated."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from command_output import Say
from unsimulated import unsimulated

from gemmsmith.cli import ladder
from gemmsmith.cli.rung import collect_rung
from gemmsmith.ladder.registry import rungs, rungs_for
from gemmsmith.problem import BF16, FP16, Problem
from gemmsmith.run.cuda import gpu_available
from gemmsmith.verify.cases import Case

SMALL = ["--m", "17", "--n", "19", "--k", "9", "--device", "sim"]
NAMES = [spec.name for spec in rungs()]
WRONG_RESULT = """
__global__ void gemm(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 1; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = alpha * sum + (beta == 0 ? 0.0f : beta * C[row * N + col]);
}
"""


def test_run(say: Say) -> None:
    said = say("run", "naive", *SMALL)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("ok: naive 17x19x9 fp32")


@pytest.mark.parametrize("options", [
    "--mode exact", "--mode bits", "--mode mod32", "--mode projection", "--fill uniform", "--fill specials",
    "--alpha=-0.7 --beta 2", "--alpha inf", "--beta=nan", "--lda 12 --ldb 22 --ldc 30", "--trans-a", "--trans-b",
    "--offsets 1,2,3", "--config TILE=16", "-DTILE=8", "--preset 32x32", "--seed 7", "--schedule random",
])  # fmt: skip
def test_run_with_options(say: Say, options: str) -> None:
    said = say("run", "naive", *SMALL, *shlex.split(options), "--json")
    assert said.code == 0, said.out + said.err
    facts = said.json
    assert facts["ok"] is True
    keys = {"kernel", "config", "problem", "device", "mode", "fill", "seed", "rho", "gate", "repeat", "seconds"}
    assert keys <= facts.keys()


def test_run_in_another_type(say: Say) -> None:
    for arguments in ([], ["--dtype", "bf16"]):
        facts = say("run", "warp_tile_mixed", *SMALL, *arguments, "--json").json
        assert facts["ok"] is True
        assert facts["problem"]["dtype"] == (arguments[1] if arguments else "fp16")


def test_a_wrong_result_exits_1_and_says_how_to_repeat_it(say: Say, tmp_path: Path) -> None:
    path = tmp_path / "wrong.cu"
    path.write_text(WRONG_RESULT)
    said = say("run", str(path), *SMALL, "--beta", "1", "--json")
    assert said.code == 1
    assert said.json["ok"] is False
    assert said.json["wrong"] > 0
    words = shlex.split(said.json["repeat"])
    assert words[0] == "gemmsmith"
    again = say(*words[1:])
    assert again.code == 1
    assert "WRONG" in again.out
    assert again.err == ""


def test_verify(say: Say) -> None:
    said = say("verify", "naive", "shared_tile", "--device", "sim", "--json")
    assert said.code == 0, said.out
    facts = said.json
    assert facts["ok"] is True
    assert [kernel["name"] for kernel in facts["kernels"]] == ["naive", "shared_tile"]
    assert all(kernel["passed"] >= 40 and kernel["failed"] == 0 for kernel in facts["kernels"])
    assert facts["failures"] == []


def test_verify_names_what_is_wrong_and_what_was_skipped(say: Say, tmp_path: Path) -> None:
    path = tmp_path / "wrong.cu"
    path.write_text(WRONG_RESULT)
    said = say("verify", str(path), "--device", "sim")
    assert said.code == 1
    assert "WRONG" in said.out
    assert "skipped wrong.cu" in said.out
    assert "takes no lda" in said.out
    assert said.widest <= 100


def test_climb(say: Say, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Three rungs in processes of their own; CI climbs them all."""
    some = tuple(spec for spec in rungs() if spec.rung in (1, 3, 14))
    monkeypatch.setattr("gemmsmith.cli.ladder.rungs_for", lambda _: some)
    monkeypatch.setattr("gemmsmith.cli.ladder.rungs", lambda: some)
    names = [spec.name for spec in some]
    page = tmp_path / "climb.html"
    said = say("climb", "--size", "32", "--device", "sim", "--html", str(page))
    assert (said.code, said.err) == (0, ""), said.out
    assert said.widest <= 100
    assert re.findall(r"^ *\d+ (\w+)(?: \(\w+\))? +✓ ", said.out, re.M) == names
    assert "Counts: simulated at 32³" in said.out
    assert "Why each rung differs from the one before" in said.out
    assert re.findall(r'<article [^>]*id="?rung-(\w+)', page.read_text(encoding="utf-8")) == names


@pytest.fixture
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rungs are collected in this process: others take a second to start, and test_climb has them."""
    monkeypatch.setattr(ladder, "_in_parallel", lambda jobs: (collect_rung(*job) for job in jobs))


@pytest.mark.usefixtures("_in_this_process")
def test_climb_as_json(say: Say, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("gemmsmith.cli.ladder.rungs_for", lambda _: rungs()[:3])
    monkeypatch.chdir(tmp_path)
    facts = say("climb", "--size", "8", "--device", "sim", "--no-html", "--json").json
    assert {"command", "device", "gpu", "arch", "compiler", "size", "ok", "notes", "recorded"} <= facts.keys()
    assert (facts["size"], facts["ok"], facts["measured"]) == (8, True, [])
    assert [rung["name"] for rung in facts["rungs"]] == NAMES[:3]
    for rung in facts["rungs"]:
        assert rung["verified"] is True
        assert len(rung["verdicts"]) == 2
        assert (rung["counted"]["origin"], rung["occupancy"]["origin"]) == ("simulated", "predicted")
        assert rung["registers"] > 0
        assert bool(rung["why"]) == (rung["name"] != "naive")
    assert not list(tmp_path.iterdir()), "no page was asked for"


# --- rungs that are not simulated


@pytest.mark.skipif(gpu_available(), reason="this machine has a GPU, where some of these run")
@pytest.mark.parametrize(("command", "code"), [
    ("run wgmma_tma", 3), ("verify wgmma_cluster", 3), ("profile wgmma_persistent", 3), ("accuracy wgmma_tma", 3),
    ("sweep wgmma_tma --vary STAGES=2,3", 3), ("run wgmma_tma --device sim", 2), ("check wgmma_split_k", 2),
    ("explain wgmma_cluster", 2), ("compare mma_pipelined wgmma_tma", 2),
])  # fmt: skip
def test_a_rung_that_is_not_simulated_needs_a_gpu(say: Say, command: str, code: int) -> None:
    """Exit code 3 where a GPU would help; 2 where the simulator was asked for, or no GPU is used."""
    with unsimulated("wgmma_tma", "wgmma_cluster", "wgmma_persistent", "wgmma_split_k"):
        said = say(*command.split())
    assert said.code == code
    assert "is not simulated yet" in said.err
    assert ("and this machine has no GPU" in " ".join(said.err.split())) == (code == 3)
    assert "the simulator runs mma_pipelined" in " ".join(said.err.split())
    assert len(said.err.splitlines()) <= 4
    assert said.out == ""


def test_occupancy_of_a_hopper_rung(say: Say) -> None:
    facts = say("occupancy", "wgmma_cluster", "--gpu", "all", "--json").json
    assert [gpu["gpu"] for gpu in facts["gpus"]] == ["H100", "H20", "H200"]
    assert "B200: wgmma_cluster needs sm_90 and no other, and B200 is sm_100" in facts["skipped"]
    assert "132 blocks" in facts["kernel"], "a persistent kernel has as many as run at once"
    said = say("occupancy", "wgmma_cluster", "--gpu", "A100")
    assert (said.code, said.err) == (2, "error: wgmma_cluster needs sm_90 and no other, and A100 is sm_80\n")


@pytest.mark.usefixtures("_in_this_process")
def test_climb_for_another_gpu_leaves_hopper_out_and_says_so(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    few = [spec for spec in rungs() if spec.rung in (1, 16)]
    monkeypatch.setattr("gemmsmith.cli.ladder.rungs", lambda: few)
    monkeypatch.setattr("gemmsmith.cli.ladder.rungs_for", lambda arch: [s for s in rungs_for(arch) if s in few])
    for gpu, names in (("A100", ["naive"]), ("H200", ["naive", "wgmma_tma"])):
        facts = say("climb", "--gpu", gpu, "--size", "16", "--device", "sim", "--no-html", "--json").json
        assert [rung["name"] for rung in facts["rungs"]] == names
        assert facts["notes"] == (["not for sm_80: wgmma_tma"] if gpu == "A100" else [])
        assert {(rung["simulated"], rung["verified"]) for rung in facts["rungs"]} == {(True, True)}
        assert not [rung["name"] for rung in facts["rungs"] if rung["counted"] is None]


def test_verify_without_names_takes_what_the_simulator_knows(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    few = tuple(spec for spec in rungs() if spec.rung in (1, 16))
    monkeypatch.setattr("gemmsmith.cli.commands.verify.rungs", lambda: few)
    monkeypatch.setattr("gemmsmith.cli.verify_run.edge_cases", lambda *_: iter(()))
    facts = say("verify", "--device", "sim", "--json").json
    assert [kernel["name"] for kernel in facts["kernels"]] == ["naive", "wgmma_tma"]
    assert facts["skipped"] == []
    with unsimulated("wgmma_tma"):
        facts = say("verify", "--device", "sim", "--json").json
    assert [kernel["name"] for kernel in facts["kernels"]] == ["naive"]
    assert facts["skipped"] == ["wgmma_tma is not simulated yet"]


def test_verify_on_turing_lists_what_it_lacks(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turing has no cp.async, and no bf16 on tensor cores; the rest is verified."""
    few = tuple(spec for spec in rungs() if spec.name in ("wmma", "async_copy", "fp32_tensor_bf16x6"))
    monkeypatch.setattr("gemmsmith.cli.options.device.DEFAULT_ARCH", "sm_75")
    monkeypatch.setattr("gemmsmith.cli.commands.verify.rungs", lambda: few)
    of_each = {dtype: Case(dtype.name, Problem(17, 15, 33, dtype), "integers", "exact") for dtype in (FP16, BF16)}
    monkeypatch.setattr("gemmsmith.cli.verify_run.edge_cases", lambda *_: iter(of_each.values()))
    said = say("verify", "--device", "sim", "--json")
    assert said.code == 0, said.err
    assert said.json["device"] == "simulator (sm_75)"
    (wmma,) = said.json["kernels"]
    assert (wmma["passed"], wmma["failed"]) == (1, 0)
    assert wmma["skipped"] == ["bf16: wmma multiplies bf16 on tensor cores, and those of sm_75 do not"]
    assert said.json["skipped"] == [
        f"{name} needs sm_80 or newer, not sm_75" for name in ("async_copy", "fp32_tensor_bf16x6")
    ]
    said = say("verify", "--device", "sim")
    assert "skipped: async_copy needs sm_80 or newer, not sm_75" in said.out
    assert "skipped wmma: bf16: wmma multiplies bf16" in said.out
    said = say("verify", "async_copy", "--device", "sim")  # nothing could be verified: an error, not a success
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: async_copy needs sm_80 or newer, not sm_75\n")
