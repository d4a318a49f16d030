"""What check prints about a fault: the excerpt, the notes, the command that repeats the trial alone, other formats."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command

RACING = """__global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float As[16][16], Bs[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0.0f;
\tfor (int k0 = 0; k0 < K; k0 += 16) {
\t\tAs[ty][tx] = A[row * K + k0 + tx];
\t\tBs[ty][tx] = B[(k0 + ty) * N + col];
\t\t__syncthreads();
\t\tfor (int k = 0; k < 16; ++k)
\t\t\tsum += As[ty][k] * Bs[k][tx];
\t}
    C[row * N + col] = sum;
}
void run(const float *A, const float *B, float *C, int M, int N, int K) {
    gemm<<<dim3(N / 16, M / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""
EXCERPT = """\
  race: thread (0,2) reads Bs[0][0], and thread (0,0) overwrites it without waiting for that
    --> mine.cu:11
     |
   6 |     for (int k0 = 0; k0 < K; k0 += 16) {
   7 |         As[ty][tx] = A[row * K + k0 + tx];
   8 |         Bs[ty][tx] = B[(k0 + ty) * N + col];
     |         ^^^^^^^^^^ 2. thread (0,0) writes Bs[0][0] here without waiting, in iteration k0 = 16
   9 |         __syncthreads();
  10 |         for (int k = 0; k < 16; ++k)
  11 |             sum += As[ty][k] * Bs[k][tx];
     |                                ^^^^^^^^^
     |                                1. thread (0,2) reads Bs[0][0] here, in iteration k0 = 0
     |
     = k0 = 0 is the 1st iteration of the loop at line 6, k0 = 16 the 2nd
"""
EARLY_EXIT = RACING.replace("    float sum", "    if (row >= M) return;\n    float sum").replace(
    "\t}\n", "\t\t__syncthreads();\n\t}\n").replace("M / 16)", "M / 16 + 1)")  # fmt: skip


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.cu"
    path.write_text(RACING, encoding="utf-8")
    return path


def test_the_excerpt(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["check", mine.name]) == 1
    said = capsys.readouterr().out
    assert EXCERPT in said
    assert "PTX" not in said
    assert "ld.shared" not in said


def test_the_verdict_and_its_cause_come_before_the_evidence(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["check", mine.name, "--cures", "30"]) == 1
    said = capsys.readouterr().out
    texts = ("\ngemm races: ", "\nCause: ", "\n+++ mine.cu", "\nRACE: mine.cu")
    places = [said.index(text) for text in texts]
    assert places == sorted(places)
    assert said.count("gemm races") == 1


def test_one_word_for_a_trial(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A shape that only restricts the kernel is a limit in the list and above its source lines."""
    text = RACING.replace("\t}\n", "\t\t__syncthreads();\n\t}\n").replace("= sum;", "= K > 700 ? -sum : sum;")
    mine.write_text(text, encoding="utf-8")
    assert run_command(["check", mine.name, "--cures", "0"]) == 1
    said = capsys.readouterr().out
    assert "  limit a shape that is no multiple of the tile" in said
    assert "\nlimit: mine.cu 65x63x67" in said
    assert "WRONG: mine.cu 65x63x67" not in said
    assert said.index("\nWRONG: mine.cu") < said.index("\nlimit: mine.cu")


def test_repeat_runs_the_failing_trial_alone(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["check", mine.name]) == 1
    said = capsys.readouterr().out
    command = next(line.strip().removeprefix("repeat: ") for line in said.splitlines() if "repeat: " in line)
    words = shlex.split(command)
    assert words[:3] == ["gemmsmith", "check", "mine.cu"]
    assert run_command([*words[1:], "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [trial["label"] for trial in report["trials"]] == ["random data"]
    assert report["not_run"] == []
    assert report["trials"][0]["faults"][0]["rule"] == "race"


def test_a_trial_that_passes_alone_is_no_verdict_on_the_kernel(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["check", mine.name, "--trial", "integers, bit for bit"]) == 0
    assert "gemm passed the trial 'integers, bit for bit'; no other was run" in capsys.readouterr().out


def test_an_unknown_trial_lists_the_known_ones(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["check", mine.name, "--trial", "warps upside down"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "check has no trial 'warps upside down' for this kernel" in said
    assert "its trials: integers, bit for bit; random data; warps in order;" in said


def test_verbose_shows_the_instructions(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["check", mine.name, "--verbose"]) == 1
    said = capsys.readouterr().out
    assert "= PTX: ld.shared.f32" in said
    assert "= PTX: st.shared.f32" in said


def test_sarif_has_both_lines_with_columns(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["check", mine.name, "--format", "sarif"]) == 1
    (result,) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    first, second = result["locations"][0], result["relatedLocations"][0]
    assert first["physicalLocation"]["artifactLocation"]["uri"] == "mine.cu"
    assert first["physicalLocation"]["region"] == {"startLine": 11, "startColumn": 23, "endColumn": 32}
    assert second["physicalLocation"]["region"] == {"startLine": 8, "startColumn": 3, "endColumn": 13}
    assert second["message"]["text"].startswith("2. thread (0,0) writes Bs[0][0] here without waiting")
    assert result["message"]["text"].startswith("gemm: thread (0,2) reads Bs[0][0], and thread (0,0) overwrites it")


def test_github_and_junit_tell_the_same(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["check", mine.name, "--format", "github"]) == 1
    line = capsys.readouterr().out
    assert line.startswith("::error file=mine.cu,line=11,title=gemm%3A race::thread (0,2) reads Bs[0][0], and")
    assert "2. thread (0,0) writes Bs[0][0] here without waiting, in iteration k0 = 16 (mine.cu:8)" in line
    assert run_command(["check", mine.name, "--format", "junit"]) == 1
    assert "between line 11 and line 8 of the next iteration there must be a __syncthreads()" in capsys.readouterr().out


def test_a_barrier_after_threads_have_returned_is_a_note(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine.write_text(EARLY_EXIT, encoding="utf-8")
    options = ["check", mine.name, "--m", "72", "--n", "64", "--k", "32"]
    run_command([*options, "--json", "--trial", "random data"])
    report = json.loads(capsys.readouterr().out)
    assert any("128 of 256 threads of the block had returned before it" in note for note in report["notes"])
    run_command([*options, "--format", "sarif", "--trial", "random data"])
    results = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    noted = [result for result in results if result["ruleId"] == "note"]
    assert noted
    assert noted[0]["level"] == "note"
    assert noted[0]["locations"][0]["physicalLocation"]["region"]["startLine"] == 10
