"""Every command: exit codes, JSON that parses and holds what it should, tables of 100 columns, errors in two lines."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from gemmsmith.cli import ladder
from gemmsmith.cli.error_output import tell
from gemmsmith.cli.main import run_command
from gemmsmith.cli.render.output import bytes_text
from gemmsmith.errors import UsageError
from gemmsmith.ladder.registry import rungs, rungs_for
from gemmsmith.run.cuda import gpu_available

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


@dataclass(frozen=True)
class Said:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def widest(self) -> int:
        return max(map(len, self.out.splitlines()), default=0)


class Say(Protocol):
    def __call__(self, *arguments: str) -> Said: ...


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Runs a command in this process."""

    def run(*arguments: str) -> Said:
        code = run_command(arguments)
        text = capsys.readouterr()
        return Said(code, text.out, text.err)

    return run


# --- list, show, doctor


def test_list(say: Say) -> None:
    said = say("list")
    assert (said.code, said.err) == (0, "")
    assert said.widest <= 100
    for name in NAMES:
        assert name in said.out
    found = say("list", "--json").json["rungs"]
    assert [rung["name"] for rung in found] == NAMES
    keys = {"rung", "name", "summary", "teaches", "dtypes", "layouts", "min_arch", "parameters", "presets"}
    assert all(keys <= rung.keys() for rung in found)
    assert found[0]["parameters"][0]["legal"] == [8, 16, 32]


@pytest.mark.parametrize("name", ["naive", "warp_tile_mixed"])
def test_show(say: Say, name: str) -> None:
    said = say("show", name)
    assert said.code == 0, said.err
    assert said.widest <= 125  # pictures in a header keep the line length of their source
    for text in ("Idea", "Try next", "parameter", "preset", "registers", "sm_90"):
        assert text in said.out
    facts = say("show", name, "--json").json
    keys = {"name", "rung", "idea", "config", "arch", "compiler", "resources", "grid", "block", "ptx", "source"}
    assert keys <= facts.keys()
    assert facts["resources"]["registers"] > 0
    assert facts["sass_counts"]["FFMA"] > 0


@pytest.mark.parametrize(
    ("option", "text"),
    [("--source", "__global__"), ("--ptx", ".visible .entry gemm"), ("--sass", "EXIT"), ("--loop", "FFMA")],
)
def test_show_code(say: Say, option: str, text: str) -> None:
    said = say("show", "naive", option)
    assert said.code == 0, said.err
    assert text in said.out


def test_show_another_architecture(say: Say) -> None:
    facts = say("show", "naive", "--arch", "sm_86", "--config", "TILE=16", "--json").json
    assert facts["arch"] == "sm_86"
    assert facts["config"] == {"TILE": 16}
    assert facts["threads"] == 256


def test_doctor(say: Say) -> None:
    said = say("doctor")
    assert said.code == 0
    assert said.widest <= 100
    facts = say("doctor", "--json").json
    states = {finding["what"]: finding["state"] for finding in facts["findings"]}
    assert facts["ok"] is True
    assert states["compiler"] == states["python"] == states["compile cache"] == "ok"
    assert states["GPU"] == ("ok" if gpu_available() else "absent")
    assert all(f["advice"] for f in facts["findings"] if f["state"] != "ok")


# --- run, verify, climb


def test_run(say: Say) -> None:
    said = say("run", "naive", *SMALL)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("ok: naive 17x19x9 fp32")


@pytest.mark.parametrize("options", [
    "--mode exact", "--mode bits", "--mode ring", "--mode projection", "--fill uniform", "--fill specials",
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
    """Some rungs; continuous integration climbs them all."""
    some = tuple(spec for spec in rungs() if spec.rung in (1, 2, 3, 12, 14))
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
    assert all(f'id="rung-{name}"' in page.read_text(encoding="utf-8") for name in names)


@pytest.fixture
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rungs are gathered one after another: two other processes need a second to start, and test_climb has them."""
    monkeypatch.setattr(ladder, "_in_parallel", lambda jobs: (ladder.collect_rung(*job) for job in jobs))


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


# --- rungs that the simulator does not know


@pytest.mark.skipif(gpu_available(), reason="this machine has a GPU, where some of these run")
@pytest.mark.parametrize(("command", "code"), [
    ("run wgmma_tma", 3), ("verify wgmma_cluster", 3), ("profile wgmma_persistent", 3), ("accuracy wgmma_tma", 3),
    ("sweep wgmma_tma --vary STAGES=2,3", 3), ("run wgmma_tma --device sim", 2), ("check wgmma_split_k", 2),
    ("explain wgmma_cluster", 2), ("compare mma_pipelined wgmma_tma", 2),
])  # fmt: skip
def test_a_rung_that_is_not_simulated_needs_a_gpu(say: Say, command: str, code: int) -> None:
    """Exit code 3 where a GPU would help; 2 where the simulator was asked for, or no GPU is used."""
    said = say(*command.split())
    assert said.code == code
    assert "uses instructions that the simulator does not know yet" in said.err
    assert ("and this machine has no GPU" in " ".join(said.err.split())) == (code == 3)
    assert "the simulator runs mma_pipelined" in " ".join(said.err.split())
    assert len(said.err.splitlines()) <= 4
    assert said.out == ""


def test_a_hopper_rung_is_shown_compiled_for_its_architecture(say: Say) -> None:
    facts = say("show", "wgmma_cluster", "--json").json
    assert (facts["arch"], facts["cluster"], facts["persistent"]) == ("sm_90a", [2, 1, 1], True)
    assert facts["config"]["TMA_STORE"] == 0, "outputs of fp32 are stored from registers"
    assert facts["sass_counts"]["HGMMA"] == 4
    narrow = say("show", "wgmma_cluster", "--out-dtype", "fp16", "--json").json
    assert narrow["config"]["TMA_STORE"] > 0
    assert narrow["sass_counts"]["UTMASTG"] > 0
    loop = say("show", "wgmma_cluster", "--loop").out
    assert loop.count("HGMMA.64x256x16.F32") == 4
    assert "STG" not in loop
    said = say("show", "wgmma_cluster", "--arch", "sm_80")
    assert (said.code, "only sm_90 has" in said.err) == (2, True)


def test_occupancy_of_a_hopper_rung(say: Say) -> None:
    facts = say("occupancy", "wgmma_cluster", "--json").json
    assert [gpu["gpu"] for gpu in facts["gpus"]] == ["H100", "H200"]
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
        assert [(rung["simulated"], rung["verified"]) for rung in facts["rungs"]][1:] == [(False, None)] * (
            len(names) - 1
        )
        assert [rung["counted"] is None for rung in facts["rungs"]] == [False, True][: len(names)]


def test_verify_without_names_takes_what_the_simulator_knows(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    few = tuple(spec for spec in rungs() if spec.rung in (1, 16))
    monkeypatch.setattr("gemmsmith.cli.commands.verify.rungs_for", lambda _: few)
    monkeypatch.setattr("gemmsmith.cli.commands.verify.edge_cases", lambda *_: iter(()))
    facts = say("verify", "--device", "sim", "--json").json
    assert [kernel["name"] for kernel in facts["kernels"]] == ["naive"]


# --- wrong use


@pytest.mark.parametrize(("command", "message"), [
    ("run nonsuch", "no rung called 'nonsuch'"), ("run warp_tle", "did you mean warp_tile?"),
    ("run ./none.cu", "there is no file none.cu"), ("verify nonsuch", "no rung called"),
    ("run naive --m -3", "M=-3 is negative"), ("run naive --m 3000000000", "exceeds 2147483647"),
    ("run naive --lda 1", "lda=1 is smaller"), ("run naive --dtype fp64", "unknown data type 'fp64'"),
    ("run naive --dtype fp16", "naive takes fp32 inputs"), ("run warp_tile --trans-a", "use naive or coalesced"),
    ("run naive --config TILE=7", "TILE=7 is not one of 8, 16, 32"),
    ("run naive --config TILE", "--config TILE gives TILE no value"),
    ("run naive --config TILE=x", "TILE=x is not an integer"), ("run naive -D 8", "'8' is not NAME=VALUE"),
    ("run naive -DBM=8", "naive has no parameter BM"), ("run naive --preset big", "its presets: 32x32"),
    ("run naive --offsets 1,2", "is not three integers"), ("run naive --offsets 1,2,-3", "offsets must be"),
    ("run naive --mode fast", "unknown mode 'fast'"), ("run naive --fill zeros", "unknown fill 'zeros'"),
    ("run naive --mode exact --fill normal", "needs the fill 'integers'"), ("run naive --seed -1", "seed"),
    ("run naive --schedule fast", "unknown schedule 'fast'"), ("run naive --device tpu", "use auto, sim or gpu"),
    ("run naive --grid 1", "is a rung"), ("show naive --ptx --sass", "choose one of"),
    ("show naive --arch sm_12", "sm_12"), ("show naive --arch x", "x"),
    ("sweep padded --vary PAD=0,1 --device sim --db .", ". is a folder"),
    ("climb --size -1", "--size -1 is not positive"), ("check naive --m -1", "M=-1 is negative"),
])  # fmt: skip
def test_wrong_use_exits_2(say: Say, command: str, message: str) -> None:
    said = say(*shlex.split(command))
    assert said.code == 2, said.out + said.err
    assert message in said.err
    assert said.err.startswith("error: ")
    assert len(re.findall(r"^error: .*\n(?:  .+\n){0,3}", said.err)) == 1, "a line, and a short hint"
    assert max(map(len, said.err.splitlines())) <= 100
    assert said.out == ""


@pytest.mark.parametrize("command", ["nonsense", "run", "show", "check", "run naive --m x", "run naive --nonsense",
                                     "list extra", "climb --size"])  # fmt: skip
def test_what_the_parser_refuses_exits_2(say: Say, command: str) -> None:
    said = say(*shlex.split(command))
    assert said.code == 2
    assert said.err.startswith("error: ")
    assert " -h lists the " in said.err
    assert "pytest" not in said.err
    assert len(said.err.splitlines()) <= 3
    assert said.out == ""


@pytest.mark.parametrize("command", [
    "bench nosuch", "compare wmma nosuch", "sweep padded --vary PAD=0,1 --device sim --show nosuch",
    "sweep --experiment nosuch",
])  # fmt: skip
def test_messages_are_at_most_100_columns_wide(say: Say, command: str) -> None:
    said = say(*command.split())
    assert (said.code, said.out) == (2, "")
    first, *hint = said.err.splitlines()
    assert first.endswith("'nosuch'")
    assert len(hint) > 1
    assert all(line.startswith("  ") and len(line) <= 100 for line in hint)


def test_a_message_keeps_its_lines_and_words(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/" + "folder-of-a-long-name/" * 6
    tell(UsageError(f"{'word ' * 18}{path} ends", f"first line\n    second  line\n{'x' * 120} {'y' * 10}"), False)
    assert capsys.readouterr().err.splitlines() == [
        "error: " + "word " * 17 + "word", f"  {path}", "  ends", "  first line", "      second  line",
        "  " + "x" * 120, "  " + "y" * 10,
    ]  # fmt: skip


def test_bytes_for_people() -> None:
    sizes = (1023, 1024, 233_472, 1024**2 - 1, 1024**2, 180_342_784)
    assert [*map(bytes_text, sizes)] == ["1023 B", "1.0 KB", "228.0 KB", "1024.0 KB", "1.0 MB", "172.0 MB"]


@pytest.mark.skipif(gpu_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("command", ["run naive", "verify naive", "check naive", "climb"])
def test_a_missing_gpu_exits_3(say: Say, command: str) -> None:
    said = say(*command.split(), "--device", "gpu")
    assert said.code == 3
    assert said.err.startswith("error: no NVIDIA driver on this machine\n")
    assert "--device sim" in said.err
    assert len(said.err.splitlines()) == 2
    assert said.out == ""


def test_help_and_version(say: Say) -> None:
    said = say("--version")
    assert (said.code, said.out.split()[0]) == (0, "gemmsmith")
    for command in ("list", "show", "run", "verify", "check", "doctor", "climb", "report"):
        said = say(command, "-h")
        assert said.code == 0
        assert "--json" in said.out


def test_as_a_program() -> None:
    """The installed entry and ``python -m``: the exit code is the process's own, and no traceback is printed."""
    program = Path(sys.executable).with_name("gemmsmith")
    for words in ([str(program)], [sys.executable, "-m", "gemmsmith"]):
        done = subprocess.run([*words, "run", "nonsuch"], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith("error: there is no rung called 'nonsuch'")
        assert "Traceback" not in done.stderr
