"""How errors are told: a line on stderr, an object on stdout with --json, and exit code 3 for every missing device."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
from unsimulated import unsimulated

from gemmsmith.cli import main
from gemmsmith.cli.error_output import wants_json
from gemmsmith.cli.main import INTERRUPTED, run_command
from gemmsmith.errors import MissingDeviceError
from gemmsmith.run import cuda
from gemmsmith.run.cuda import gpu_available

BROKEN = "__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) { nonsuch(); }\n"


@pytest.mark.parametrize(("command", "code", "kind"), [
    ("run nosuch --json", 2, "UnknownKernelError"), ("run naive --m -3 --json", 2, "ProblemError"),
    ("run naive --json --nosuch", 2, "UsageError"), ("nosuch --json", 2, "UsageError"),
    ("show naive --config TILE=7 --json", 2, "ConfigError"), ("sweep --json", 2, "UsageError"),
    ("profile naive --json --csv", 2, "UsageError"), ("history show nosuch --json", 2, "UsageError"),
    ("history --json show nosuch", 2, "UsageError"), ("timeline --json no.py", 2, "UsageError"),
])  # fmt: skip
def test_with_json_an_error_is_an_object_too(
    command: str, code: int, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(command.split()) == code
    said = capsys.readouterr()
    error = json.loads(said.out)["error"]
    assert set(error) == {"kind", "message", "hint", "exit_code"}
    assert (error["exit_code"], error["kind"]) == (code, kind)
    told = " ".join(said.err.split())
    assert told.startswith(f"error: {' '.join(error['message'].split())}")
    assert told.endswith(" ".join(error["hint"].split()))


PRODUCT = """__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {
  int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
  float s = 0.f;
  for (int k = 0; k < K; ++k) s += A[i * K + k] * B[k * N + j];
  if (i < M && j < N) C[i * N + j] = s;
}
"""


@pytest.mark.parametrize(("command", "says", "helps"), [
    ("bench naive --m 64", "no such option: --m", "--shapes 64x64x64"),
    ("run mine.cu --args x=1", "no such option: --args", "check, explain, profile, compare and view take --args"),
    ("check mine.cu --block abc", "--block: cannot evaluate 'abc'", "write integers, names"),
    ("check mine.cu --block 16,16 --grid ceil(N/", "'(' was never closed\n", "write integers, names"),
    ("check mine.cu --block 0,0", "each part must be at least 1", "for example --block 16,16"),
    ("check mine.cu --signature A,B,Q", "has 3 roles, but mine takes 6 parameters", "give one role for each"),
    ("check mine.cu --m 1e3", "invalid value for '--m': it must be an integer", "check -h lists the options"),
    ("explain nofile", "there is no rung called 'nofile'", "give the path of a .cu file; the rungs: naive"),
    ("check bytes.cu", "bytes.cu is not UTF-8 text", "give a file of CUDA C++ source"),
])  # fmt: skip
def test_a_mistake_is_told_with_what_helps(
    command: str, says: str, helps: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("mine.cu").write_text(PRODUCT)
    Path("bytes.cu").write_bytes(bytes(range(128, 256)))
    assert run_command(command.split()) == 2
    told = capsys.readouterr().err
    flat = " ".join(told.split())
    assert says in told or says in flat
    assert helps in flat
    assert "Traceback" not in told


def test_a_compile_error_has_its_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.cu").write_text(BROKEN)
    assert run_command(["check", str(tmp_path / "broken.cu"), "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] == "CompileError"
    assert "nonsuch" in error["log"]


def test_without_json_stdout_stays_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["run", "nosuch"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("words", "wanted"), [
    (["run", "naive", "--json"], True), (["run", "naive"], False), (["timeline", "--json", "a.py"], True),
    (["timeline", "a.py", "--json"], False), (["timeline", "--top", "3", "--json", "a.py"], True),
    (["timeline", "--", "bench", "--json"], False), (["bench", "--", "--json"], False),
])  # fmt: skip
def test_words_of_a_watched_program_are_not_ours(words: list[str], wanted: bool) -> None:
    assert wants_json(words) is wanted


def test_a_bug_is_told_as_json_too_and_keeps_its_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> int:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(main, "_run", broken)
    with pytest.raises(ZeroDivisionError):
        run_command(["run", "naive", "--json"])
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["kind"], error["message"], error["exit_code"]) == ("ZeroDivisionError", "oops", 1)


@pytest.mark.parametrize(("error", "code", "text"), [
    (KeyboardInterrupt(), INTERRUPTED, "interrupted"), (MemoryError("32 PiB"), 2, "too little memory: 32 PiB"),
    (RecursionError(), 2, "nested too deeply"), (ValueError("array is too big; …"), 2, "too little memory"),
    (OSError(errno.ENAMETOOLONG, "File name too long", "x" * 5000), 2, "File name too long"),
    (OverflowError("Python int too large"), 2, "too large for this machine"),
    (OSError(errno.ELOOP, "Too many levels", "round"), 2, "cannot use round: Too many levels"),
])  # fmt: skip
def test_what_python_raises_for_foreseeable_mistakes(
    error: BaseException, code: int, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> int:
        raise error

    monkeypatch.setattr(main, "_run", fails)
    assert run_command(["run", "naive"]) == code
    assert text in capsys.readouterr().err


def test_an_interrupt_that_typer_turns_into_a_number_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.main.get_command", lambda _app: lambda **_: INTERRUPTED)
    assert run_command(["run", "naive"]) == INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"


# --- missing devices

NEEDS_A_GPU = [
    "run naive --device gpu", "run auto --device gpu", "verify naive --device gpu", "check naive --device gpu",
    "climb --device gpu", "profile naive --device gpu", "compare naive wmma --device gpu",
    "accuracy naive --device gpu", "sweep naive --vary TILE=8 --device gpu", "bench naive", "tune --shapes 64",
    "timeline -- bench naive", "accuracy naive --against cublas",
    "sweep naive --vary TILE=8 --against cublas --no-db", "run wgmma_tma", "verify wgmma_tma", "profile wgmma_tma",
    "accuracy wgmma_tma", "sweep wgmma_tma --vary STAGES=2,3 --no-db",
]  # fmt: skip


@pytest.mark.skipif(gpu_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("command", NEEDS_A_GPU)
def test_a_missing_gpu_is_exit_code_3_everywhere(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, *rest = command.split()
    with unsimulated("wgmma_tma"):
        assert run_command([first, "--json", *rest]) == 3
    said = capsys.readouterr()
    assert json.loads(said.out)["error"]["kind"] == "MissingDeviceError"
    assert said.err.startswith("error: ")
    assert 2 <= len(said.err.splitlines()) <= 4


def test_a_gpu_that_does_not_start_is_missing_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise MissingDeviceError("the NVIDIA driver does not start: CUDA_ERROR_UNKNOWN", "check nvidia-smi")

    monkeypatch.setattr(cuda, "cuda_device", broken)
    assert run_command(["run", "naive", "--device", "gpu"]) == 3
    assert "check nvidia-smi" in capsys.readouterr().err


def test_doctor_ends_with_3_where_a_needed_tool_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gemmsmith.cli.commands import doctor

    def missing() -> None:
        raise MissingDeviceError("the CUDA compiler NVRTC could not be loaded", "pip install nvidia-cuda-nvrtc")

    monkeypatch.setattr(doctor, "find_toolchain", missing)
    assert run_command(["doctor", "--json"]) == 3
    facts = json.loads(capsys.readouterr().out)
    assert facts["ok"] is False
