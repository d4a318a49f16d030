"""Input that once hung or ended in a traceback."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from report_sample import sweeps

from gemmsmith.cli.main import run_command
from gemmsmith.report.sweep_file import sweep_to_json

KERNEL = "__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {}\n"
LARGEST = ["--m", "2147483647", "--n", "2147483647", "--k", "2147483647"]
TERMS = "+".join(["1"] * 20_000)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The message of a command line that ends with 2, in a few lines and with nothing on stdout."""
    assert run_command(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert len(said.err.splitlines()) <= 5
    return " ".join(said.err.split())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.cu"
    path.write_text(KERNEL)
    return path


@pytest.mark.parametrize("seconds", ["nan", "0", "-1", "-inf"])
def test_a_timeout_that_is_no_time(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not a number of seconds" in refused(capsys, "check", "naive", f"--timeout={seconds}")


@pytest.mark.parametrize(("words", "message"), [
    (["bench", "naive", "--within", "nan"], "between 0 and 1"), (["bench", "naive", "--budget", "nan"], "positive"),
    (["bench", "naive", "--sample-ms", "nan"], "positive"), (["climb", "--within", "nan"], "between 0 and 1"),
    (["tune", "--shapes", "64", "--budget", "nan"], "not positive"),
    (["accuracy", "naive", "--time-limit", "nan", "--device", "sim"], "must be positive"),
    (["history", "compare", "--least", "nan"], "--least"),
])  # fmt: skip
def test_other_numbers_that_are_none(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in refused(capsys, *words)


@pytest.mark.parametrize("option", ["--grid", "--block", "--smem", "--signature"])
def test_an_expression_of_20_000_terms(option: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"{option} has 39,999 characters" in refused(capsys, "check", str(file), option, TERMS)


def test_expressions_nested_deeply(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nested too deeply" in refused(capsys, "check", str(file), "--grid=" + "-" * 990 + "1")
    assert "too many nested" in refused(capsys, "check", str(file), "--grid=" + "(" * 300 + "1" + ")" * 300)


def test_a_directive_of_20_000_terms(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(f"// gemmsmith: grid={TERMS}\n{KERNEL}")
    refused(capsys, "check", str(file))


@pytest.mark.parametrize("command", ["run naive --device sim", "check naive", "explain naive",
                                     "profile naive --device sim", "compare naive coalesced"])  # fmt: skip
def test_the_largest_extents(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "memory" in refused(capsys, *command.split(), *LARGEST)


def test_the_largest_extents_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    cube = "2147483647x2147483647x2147483647"
    sweep = ["sweep", "naive", "--vary", "TILE=8", "--shapes", cube, "--device", "sim", "--no-db"]
    assert "memory" in refused(capsys, *sweep)
    study = ["accuracy", "naive", "--m", "2147483647", "--k", "2147483647", "--device", "sim"]
    assert "memory" in refused(capsys, *study)
    assert run_command(["occupancy", "naive", "--gpu", "H200", *LARGEST]) == 0
    assert "4,503,599,627,370,496 blocks" in capsys.readouterr().out


def test_an_unknown_origin_in_a_sweep_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("odd.json").write_text(json.dumps(sweep_to_json(sweeps()[0]) | {"origin": "guessed"}))
    assert "odd.json is not a sweep" in refused(capsys, "report", "--sweep", "odd.json")
    assert not Path("report.html").exists()


def test_an_empty_name_is_not_the_current_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert "name of a kernel is empty" in refused(capsys, "check", "")


def test_numbers_beyond_64_bits(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--m", "16", "--n", "16", "--k", "8", "--device", "sim"]
    assert "too large" in refused(capsys, "run", "naive", *small, "--ldb", "9" * 30)


def test_a_pipe_beside_a_file_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file's repository is searched for its launch: a pipe there would wait for a writer."""
    os.mkfifo(tmp_path / "other.cu")
    (tmp_path / "mine.cu").write_text(KERNEL)
    assert "cannot evaluate" in refused(capsys, "check", str(tmp_path / "mine.cu"), "--grid=nan")
    assert "not a regular file" in refused(capsys, "check", str(tmp_path / "other.cu"))
