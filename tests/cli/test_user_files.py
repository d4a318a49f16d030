"""A user's own file under check, run and verify: launch, contents of C, trials, and lines that repeat a failure."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, Protocol

import pytest

from gemmsmith.cli.main import run_command

SIZE = ["--m", "32", "--n", "32", "--k", "32", "--device", "sim"]
PLACE = "int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;"
GUARD = "if (row >= M || col >= N) return;"
SUM = "float sum = 0.0f; for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];"
PLAIN = f"""
__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {{
    {PLACE}
    {GUARD}
    {SUM}
    C[row * N + col] = sum;
}}
"""
ONLY_N = PLAIN.replace("int M, int N, int K", "int N").replace(GUARD, "int M = N, K = N; " + GUARD)
READS_C = PLAIN.replace("int K)", "int K, float alpha, float beta)").replace(
    "= sum;", "= alpha * sum + beta * C[row * N + col];"
)
SPLIT = PLAIN.replace("for (int k = 0; k < K; ++k)", "for (int k = blockIdx.z; k < K; k += 2)").replace(
    "C[row * N + col] = sum;", "atomicAdd(&C[row * N + col], sum);"
)
BLOCKS = "--block 16,16 --grid ceil(N/16),ceil(M/16)"


class Tell(Protocol):
    def __call__(self, command: str, source: str, options: str = "") -> tuple[int, Any]: ...


@pytest.fixture
def tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Tell:
    """Runs a command on a file with this source; returns exit code and JSON."""

    def run(command: str, source: str, options: str = "") -> tuple[int, Any]:
        path = tmp_path / "mine.cu"
        path.write_text(source, encoding="utf-8")
        size = SIZE[-2:] if command == "verify" else SIZE
        code = run_command([command, str(path), *size, *shlex.split(options), "--json"])
        said = capsys.readouterr()
        assert all("its launch was found by trying" in line for line in said.err.splitlines())
        return code, json.loads(said.out)

    return run


@pytest.mark.parametrize(("right", "wrong"), [("row * K + k", "row * N + k"), ("k < K", "k < N")])
def test_a_kernel_for_squares_fails_where_the_extents_differ(tell: Tell, right: str, wrong: str) -> None:
    code, facts = tell("check", PLAIN.replace(right, wrong))
    assert code == 1
    assert facts["trials"][-1]["label"] == "M, N and K all different"
    assert "All 6 trials of 32x32x32 fp32 passed, but not 32x64x96" in facts["note"]
    assert "multiples of the tile are right" not in facts["note"]


def test_extents_that_differ_already_are_not_tried_twice(tell: Tell) -> None:
    code, facts = tell("check", PLAIN.replace(GUARD, ""), "--m 64 --k 96 --strict")
    assert code == 1
    assert "M, N and K all different" not in [trial["label"] for trial in facts["trials"]]
    assert "64x32x96 fp32 passed: multiples of the tile are right" in facts["note"]


def test_a_kernel_of_one_extent_gets_a_ragged_cube_and_a_list_of_what_was_skipped(tell: Tell) -> None:
    code, facts = tell("check", ONLY_N)
    assert code == 0
    assert facts["trials"][-1]["problem"]["k"] == 33
    reasons = {skip["label"]: skip["reason"] for skip in facts["skipped"]}
    assert reasons["M, N and K all different"] == "mine takes only N, so M, N and K must be equal"
    assert "takes no lda" in reasons["padded rows"]
    code, facts = tell("check", ONLY_N.replace(GUARD, ""))
    assert (code, facts["status"]) == (0, "whole_tiles")
    assert "square multiples of the tile are right" in facts["note"]
    assert tell("verify", ONLY_N)[1]["kernels"][0]["passed"] >= 6


@pytest.mark.parametrize("command", ["check", "run"])
def test_the_launch_is_shown(tell: Tell, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, facts = tell(command, PLAIN, f"{BLOCKS} --smem 64")
    assert code == 0
    launch = facts["launch"]
    assert (launch["grid"], launch["block"], launch["smem"]) == ([2, 2, 1], [16, 16, 1], 64)
    assert "guess" not in launch["source"]
    assert run_command([command, str(tmp_path / "mine.cu"), *SIZE]) == 0
    assert "launch: grid 1×1×1, block 32×32×1, 0 B dynamic shared memory (" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_guessed_launch_is_the_first_suspect(
    tell: Tell, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gemmsmith.cli.launch_report.launch_source", lambda *_: "guessed")
    wrong = PLAIN.replace("k < K", "k < K - 1")
    code, facts = tell(command, wrong)
    assert code == 1
    assert facts["hints"][0].startswith("The launch was guessed")
    assert tell(command, PLAIN)[1]["hints"] == []
    (tmp_path / "mine.cu").write_text(wrong, encoding="utf-8")
    run_command([command, str(tmp_path / "mine.cu"), *SIZE])
    said = capsys.readouterr().out
    assert said.index("The launch was guessed") < said.index("WRONG: mine.cu")
    assert "(guessed; set it with --grid, --block)" in said


def test_a_grid_that_is_the_same_for_every_shape_is_named(tell: Tell) -> None:
    code, facts = tell("check", PLAIN, "--grid 1,1 --block 32,32")
    assert code == 1
    assert facts["hints"] == ["--grid 1,1 is the same for every shape: write it with M and N, as ceil(N/32)."]


@pytest.mark.parametrize("command", ["check", "verify"])
def test_a_shape_without_a_grid_is_skipped(tell: Tell, command: str) -> None:
    code, facts = tell(command, PLAIN, "--grid N/32,M/32 --block 32,32")
    assert code == 0, facts
    skipped = facts["skipped"] if command == "check" else facts["kernels"][0]["skipped"]
    assert any("not an integer" in str(reason) for reason in skipped)


@pytest.mark.parametrize("command", ["check", "run", "verify"])
def test_kernels_that_add_to_c(tell: Tell, command: str) -> None:
    launch = "--block 16,16 --grid ceil(N/16),ceil(M/16),2"
    code, facts = tell(command, SPLIT, launch)
    if command == "check":
        assert (code, facts["found"]) == (0, ["it adds to C: C += A·B, so beta is 1"])
    elif command == "verify":
        assert code == 0
    else:
        assert code == 1
        assert any("--c zero" in hint for hint in facts["hints"])
    assert tell(command, SPLIT, f"{launch} --c zero")[0] == 0
    assert tell(command, SPLIT, f"{launch} --c set")[0] == 1


def test_an_unknown_c(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.cu").write_text(PLAIN, encoding="utf-8")
    for command in ("check", "run", "verify"):
        assert run_command([command, str(tmp_path / "mine.cu"), "--c", "one"]) == 2
        assert "use nan, set or zero" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "run", "verify"])
def test_the_three_agree_on_kernels_that_read_c(tell: Tell, command: str) -> None:
    code, facts = tell(command, READS_C, BLOCKS)
    assert code == 0, facts
    notes = facts["kernels"][0]["notes"] if command == "verify" else facts.get("notes") or facts["warnings"]
    assert "C is read when beta = 0" in notes[0]
    assert tell(command, READS_C, f"{BLOCKS} --strict")[0] == 1
    assert tell(command, PLAIN, f"{BLOCKS} --strict")[0] == 0


def test_verify_takes_the_options_of_files(tell: Tell) -> None:
    source = PLAIN.replace("blockDim.y", "W").replace("blockDim.x", "W") + "__global__ void other(float* x) {}\n"
    options = "-DW=8 --entry mine --block W,W --grid ceil(N/W),ceil(M/W) --signature A,B,C,M,N,K --smem 16"
    assert tell("verify", source, options)[0] == 0


def test_lines_that_repeat(tell: Tell, capsys: pytest.CaptureFixture[str]) -> None:
    source = PLAIN.replace("k < K", "k < K - Z")
    options = f"-DZ=1 {BLOCKS} --smem 64 --entry mine --signature A,B,C,M,N,K --schedule random --seed 3 --c set"
    code, facts = tell("run", source, options)
    assert code == 1
    for words in (BLOCKS.replace(" --grid", ""), "--smem 64", "--entry mine", "-DZ=1", "--c set",
                  "--signature A,B,C,M,N,K", "--schedule random --schedule-seed 3", "--device sim"):  # fmt: skip
        assert all(word in shlex.split(facts["repeat"]) for word in words.split()), words
    assert run_command([*shlex.split(facts["repeat"])[1:], "--json"]) == 1
    again = json.loads(capsys.readouterr().out)
    assert again | {"seconds": 0} == facts | {"seconds": 0}
    code, facts = tell("verify", source, f"-DZ=1 {BLOCKS} --schedule random --strict")
    assert code == 1
    assert "--schedule random --schedule-seed 0 --strict" in facts["failures"][0]["repeat"]
    repeat = tell("check", source, f"-DZ=1 {BLOCKS} --c set")[1]["trials"][-1]["repeat"]
    assert "--c set --trial 'integers, bit for bit'" in repeat


def test_dynamic_shared_memory_that_was_not_given(
    tell: Tell, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = PLAIN.replace("C[row", "extern __shared__ float s[]; s[threadIdx.x] = sum; C[row", 1)
    assert tell("run", source)[0] == 0  # no launch is known: it gets as much as a GPU has
    code, facts = tell("run", source, "--smem 0")
    assert code == 1
    assert any("--smem" in hint for hint in facts["hints"])
    assert run_command(["check", str(tmp_path / "mine.cu"), "--smem", "0"]) == 2  # its launch may be to blame
    assert "--smem" in capsys.readouterr().err


def test_nothing_written_is_named_although_c_was_set(tell: Tell) -> None:
    silent = READS_C.replace("C[row * N + col] = alpha", "if (row % 2) C[row * N + col] = alpha")
    for command in ("check", "run"):
        facts = tell(command, silent)[1]
        last = facts if command == "run" else facts["trials"][-1]
        assert last["unwritten"] == 512
        assert "never written" in last["reasons"][0]


@pytest.mark.parametrize(
    ("option", "text"), [("--alpha 1e300", "inf"), ("--beta=-1e300", "-inf"), ("--alpha 1e-60", "0")]
)
def test_scalars_beyond_fp32_are_noted(tell: Tell, option: str, text: str) -> None:
    source = READS_C.replace("= alpha * sum +", "= (alpha == 0 ? 0 : alpha * sum) +")
    notes = tell("run", source, f"{option} --fill integers")[1]["notes"]
    assert f"is {text} in fp32" in notes[0]
