"""gemmsmith bench on a fake GPU: tables, JSON, exit codes, records; and without a GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_bench import FakeContender, FakeGpu, put_in_command

from gemmsmith.cli import bench_plan
from gemmsmith.cli.commands import bench as bench_command
from gemmsmith.cli.main import run_command
from gemmsmith.errors import MissingDeviceError
from gemmsmith.ladder.registry import rungs
from gemmsmith.run.cuda import gpu_available
from gemmsmith.store.database import Results
from gemmsmith.store.run_file import run_from_json

SHAPE = ("--shapes", "24x20x28")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeGpu:
    """The command with a fake GPU: rungs take 1 ms, cublas 2 ms."""
    fake = FakeGpu()

    def kernel(spec: Any, config: Any, *_: object) -> FakeContender:
        del config
        return fake.contender(spec.name, 1e-3, spoil=_zero if spec.name == "coalesced" else None)

    def baseline(name: str) -> FakeContender:
        if name == "triton":
            return fake.contender(name, kind="baseline", refuses="triton is not installed")
        precision = "tf32" if "tf32" in name else "fp32"
        return fake.contender(name, 2e-3, kind="baseline", precision=precision)

    put_in_command(fake, monkeypatch, tmp_path, kernel)
    monkeypatch.setattr(bench_plan, "baseline_named", baseline)
    return fake


def _zero(c: Any, _launch: int) -> None:
    c[...] = 0


def say(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run_command(["bench", *arguments])
    text = capsys.readouterr()
    return code, text.out, text.err


@pytest.mark.usefixtures("gpu")
def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = say(capsys, "naive", "warp_tile", *SHAPE, "--against", "cublas,cublas-tf32,cublaslt")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0].rstrip() == "24x20x28 fp32 on NVIDIA H200, measured"
    rows = {line.split()[0]: line for line in lines if line and line[0].islower()}
    assert [name for name in rows if name != "clock,"][:5] == [
        "cublas",
        "cublas-tf32",
        "cublaslt",
        "naive",
        "warp_tile",
    ]
    first = next(line for line in lines if line.startswith("naive"))
    assert "1.00 ms" in first
    assert first.count("200.0%") == 3
    assert "one by one" in out
    assert "10.0 µs" not in first, "host time is in the second table"
    assert "Recorded as run" in out


@pytest.mark.usefixtures("gpu")
def test_quick_has_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = say(capsys, "naive", *SHAPE, "--quick", "--no-db")
    assert code == 0
    assert "one by one" not in out
    assert "Recorded" not in out


@pytest.mark.usefixtures("gpu")
def test_json_is_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = say(capsys, "naive", *SHAPE, "--json", "--quick", "--against", "cublas,triton")
    assert code == 0
    facts = json.loads(out)
    assert any("triton skipped: triton is not installed" in note for note in facts.pop("notes"))
    run = run_from_json(facts)
    assert [m.identity.name for m in run.measurements] == ["cublas", "naive"]
    assert run.measurements[1].ratio("cublas") == pytest.approx(2.0)
    assert run.machine.gpu == "NVIDIA H200"
    assert run.command.startswith("gemmsmith bench naive --shapes 24x20x28")
    assert "--quick" in run.command


def test_every_measurement_is_recorded_at_once(
    gpu: FakeGpu, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill in the second shape loses nothing of the first."""

    def killed(contender: FakeContender, problem: Any, *_: object) -> None:
        if problem.m == 8:
            raise KeyboardInterrupt
        return original(contender, problem, *_)

    original: Any = FakeContender.prepare
    monkeypatch.setattr(FakeContender, "prepare", killed)
    where = tmp_path / "mine.sqlite"
    code, _, _ = say(capsys, "naive", "--shapes", "24x20x28,8x8x8", "--quick", "--db", str(where))
    assert code not in (0, 2)
    with Results.open(where) as results:
        (run,) = results.runs()
    assert [(m.identity.name, m.problem.m) for m in run.measurements] == [("cublas", 24), ("naive", 24)]
    assert not gpu.watch.is_active


@pytest.mark.usefixtures("gpu")
def test_a_wrong_kernel_exits_1_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = say(capsys, "coalesced", "naive", *SHAPE, "--quick")
    assert code == 1
    assert "coalesced REJECTED: " in out
    assert "480 of 480 outputs wrong" in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.usefixtures("gpu")
def test_a_baseline_against_itself(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = say(capsys, "cublas", "--against", "cublas", *SHAPE, "--quick")
    assert code == 0
    again = next(line for line in out.splitlines() if line.startswith("cublas (again)"))
    assert "100.0%" in again


@pytest.mark.usefixtures("gpu")
def test_tf32_is_always_named(
    capsys: pytest.CaptureFixture[str], gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tensor(*_: object) -> FakeContender:
        return gpu.contender("mine.cu", kind="file", precision="tf32")

    monkeypatch.setattr(bench_plan, "KernelContender", tensor)
    _, out, _ = say(capsys, "naive", *SHAPE, "--quick", "--against", "none")
    assert "mine.cu (tf32)" in out


@pytest.mark.usefixtures("gpu")
def test_files_and_rungs_together_take_their_own_options(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: FakeGpu
) -> None:
    mine = tmp_path / "mine.cu"
    mine.write_text("__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {}\n")
    seen = {}

    def kernel(spec: Any, config: Any, *_: object) -> FakeContender:
        seen[spec.name] = (str(config), spec.extra_defines)
        return gpu.contender(spec.name)

    monkeypatch.setattr(bench_plan, "KernelContender", kernel)
    words = [str(mine), "naive", *SHAPE, "--quick", "--block", "16,16", "-D", "WIDE=1", "--config", "TILE=16"]
    code, _, err = say(capsys, *words)
    assert (code, err) == (0, "")
    assert seen == {"mine.cu": ("", (("WIDE", "1"),)), "naive": ("TILE=16", ())}
    code, _, err = say(capsys, "naive", *SHAPE, "--block", "16,16")
    assert code == 2
    assert "are for files" in err


@pytest.mark.usefixtures("gpu")
def test_auto_depends_on_the_precision(capsys: pytest.CaptureFixture[str]) -> None:
    kernels = {}
    for precision in ("ieee", "tf32"):
        words = ["auto", *SHAPE, "--quick", "--json", "--precision", precision]
        code, out, err = say(capsys, *words)
        assert (code, err) == (0, "")
        facts = json.loads(out)
        facts.pop("notes")
        run = run_from_json(facts)
        assert f"--precision {precision}" in run.command
        (ours,) = (m for m in run.measurements if m.identity.name == "auto")
        assert ours.problem.dtype.name == ("tf32" if precision == "tf32" else "fp32")
        kernels[precision] = ours.identity.config.split()[0]
    known = {spec.name for spec in rungs()}
    assert kernels == {"ieee": "simt_best" if "simt_best" in known else "async_copy", "tf32": "mma_pipelined"}
    code, out, _ = say(capsys, "auto", "naive", *SHAPE, "--quick", "--no-db", "--fastest")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 100
    assert sum(line.startswith(("auto", "naive")) for line in out.splitlines()) == 2


@pytest.mark.usefixtures("gpu")
def test_auto_without_a_kernel_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["auto", *SHAPE, "--dtype", "int8", "--precision", "ieee", "--against", "none", "--no-db"]
    code, out, err = say(capsys, *words)
    assert (code, out) == (2, "")
    assert "no rung computes" in " ".join(err.split())


@pytest.mark.usefixtures("gpu")
def test_nothing_measured_is_an_error_with_the_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = say(capsys, "triton", "--against", "none", *SHAPE)
    assert (code, out) == (2, "")
    assert "nothing was measured" in err
    assert "triton is not installed" in err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["naiv"], "naiv"), (["naive", "--against", "cublass"], "there is no baseline 'cublass'"),
        (["naive", "--shapes", "big"], "unknown shape suite"), (["naive", "--shapes", "0x4x4"], "nothing to time"),
        (["naive", "--layout", "XN"], "unknown layout"), (["naive", "--dtype", "fp64"], "unknown data type"),
        (["naive", "--within", "0"], "between 0 and 1"),
        (["naive", "--precision", "0.005"], "unknown precision"), (["naive", "--precision", "tf32"], "does not keep"),
        (["auto", "--config", "BM=64"], "auto chooses"),
        (["auto", "--precision", "tf32", "--dtype", "fp32"], "contradict"),
        (["naive", "--budget", "-1"], "must be positive"),
        (["naive", "--config", "TILE=7"], "TILE=7 is not one of"), (["none.cu"], "none.cu"),
        (["naive", "--dtype", "int8"], "naive takes fp32 inputs, not int8"), (["naive", "--db", "."], "is a folder"),
    ],
)  # fmt: skip
def test_wrong_use(capsys: pytest.CaptureFixture[str], words: list[str], text: str) -> None:
    code, out, err = say(capsys, *words)
    assert (code, out) == (2, "")
    assert text in " ".join(err.split())
    assert "Traceback" not in err


@pytest.mark.usefixtures("gpu")
def test_one_of_several_kernels_is_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    """It is wrong use only if none of the kernels can."""
    for words in (["naive", "wmma"], ["naive", "cublas"]):
        assert say(capsys, *words, *SHAPE, "--dtype", "fp16", "--quick", "--no-db")[0] != 2
    assert say(capsys, "naive", "warp_tile", *SHAPE, "--dtype", "fp16")[0] == 2


@pytest.mark.usefixtures("gpu")
def test_the_history_leaves_out_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert say(capsys, "naive", *SHAPE, "--quick")[0] == 0
    assert run_command(["history"]) == 0
    assert "  bench naive --shapes 24x20x28 --quick  " in capsys.readouterr().out


def test_without_a_gpu(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def absent() -> None:
        raise MissingDeviceError("no NVIDIA driver on this machine")

    if gpu_available():
        monkeypatch.setattr(bench_command, "cuda_device", absent)
    monkeypatch.setenv("GEMMSMITH_DB", str(tmp_path / "none.sqlite"))
    code, out, err = say(capsys, "naive")
    assert (code, out) == (3, "")
    assert "times need a GPU: no NVIDIA driver on this machine\n" in err
    assert "sweep --device sim" in err
    assert not (tmp_path / "none.sqlite").exists(), "nothing ran, nothing is recorded"
