"""gemmsmith check prints a certificate after a kernel that passed, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from checking import ONE_OUTPUT_A_THREAD

from gemmsmith.cli.main import run_command

OPTIONS = ["--m", "32", "--n", "32", "--k", "16", "--block", "16,16", "--grid", "ceil(N/16),ceil(M/16)"]


def checked(tmp_path: Path, source: str, *options: str) -> tuple[int, Path]:
    path = tmp_path / "mine.cu"
    path.write_text(source, encoding="utf-8")
    return run_command(["check", str(path), *OPTIONS, *options]), path


def as_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_right_kernel_gets_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = checked(tmp_path, ONE_OUTPUT_A_THREAD)
    said = " ".join(capsys.readouterr().out.split())
    assert code == 0
    assert "every output is exactly Σ a·b, each product once (error probability below 2^-57)" in said
    assert "sum: k ascending, one accumulator; deterministic; the same for M = 1, " in said
    assert "so |error| ≤ " in said


def test_json_has_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = checked(tmp_path, ONE_OUTPUT_A_THREAD, "--json")
    found = as_json(capsys)["certificate"]
    assert code == 0
    assert found["certified"]
    assert found["statement"] == "Σ a·b"
    assert found["order"] == "k ascending, one accumulator"
    assert found["deterministic"]
    assert found["error_probability_log2"] < -57
    assert 0 < found["error_bound"] < 2.0**-12


def test_a_kernel_outside_the_class_passes_without_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = ONE_OUTPUT_A_THREAD.replace("sum += A[row * K + k] * B[k * N + col];",
                            "if (A[row * K + k] != 0.0f) sum += A[row * K + k] * B[k * N + col];")  # fmt: skip
    code, _ = checked(tmp_path, source, "--json")
    found = as_json(capsys)
    assert code == 0
    assert not found["certificate"]["certified"]
    assert found["certificate"]["reason"].startswith("mine.cu:6 compares a value of the matrices")


def test_one_trial_alone_proves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = checked(tmp_path, ONE_OUTPUT_A_THREAD, "--json", "--trial", "random data")
    found = as_json(capsys)
    assert code == 0
    assert found["certificate"] is None


def test_a_wrong_kernel_is_not_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = checked(tmp_path, ONE_OUTPUT_A_THREAD.replace("k < K; ++k", "k < K - 1; ++k"), "--json")
    assert code == 1
    assert as_json(capsys)["certificate"] is None
