"""gemmsmith check of a file that launches kernels of its headers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checking import ONE_OUTPUT_A_THREAD, check

from gemmsmith.cli.check_folder import _kernels_of
from gemmsmith.cli.main import run_command

LAUNCH = "<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);"
SECOND = ONE_OUTPUT_A_THREAD.replace("mine", "second").replace("k = 0", "k = 1")
UNUSED = ONE_OUTPUT_A_THREAD.replace("mine", "unused")
HOST = f"""#include "kernels.cuh"
void run(float* A, float* B, float* C, int M, int N, int K) {{
    mine{LAUNCH}
    second{LAUNCH}
}}
"""


def _files(tmp_path: Path, host: str) -> Path:
    (tmp_path / "kernels.cuh").write_text(ONE_OUTPUT_A_THREAD + SECOND + UNUSED, encoding="utf-8")
    (tmp_path / "main.cu").write_text(host, encoding="utf-8")
    return tmp_path / "main.cu"


def test_kernels_that_the_file_launches_are_listed(tmp_path: Path) -> None:
    file = _files(tmp_path, HOST)
    assert [(each.file, each.entry, each.line) for each in _kernels_of(str(file))] == [
        (file, "mine", 3), (file, "second", 4)
    ]  # fmt: skip


def test_all_of_them_are_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--json", "--cures", "0", "--trial", "random data"]
    assert run_command(["check", str(_files(tmp_path, HOST)), *words]) == 1
    found = {kernel["entry"]: kernel["status"] for kernel in json.loads(capsys.readouterr().out)["kernels"]}
    assert found == {"mine": "right", "second": "wrong"}


def test_a_file_with_one_kernel_of_its_own_names_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """That one is what the file is about, product or not."""
    clear = "__global__ void clear(float* x) { x[threadIdx.x] = 0; }\n"
    assert run_command(["check", str(_files(tmp_path, HOST + clear))]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "clear is not a matrix product" in said
    assert "its headers have other kernels (mine, second, unused): choose one with --entry NAME" in said


def test_a_definition_behind_a_bracket_that_is_not_closed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    declared = ONE_OUTPUT_A_THREAD.partition("{")[0] + ";\n"
    broken = "__global__ void before(float* x) { x[0] = powf((2.0f, x[1]); }\n"
    code, found = check(tmp_path, declared + broken + ONE_OUTPUT_A_THREAD, capsys, "--entry", "mine")
    assert code == 2
    assert "k.cu declares mine, but its definition is not found" in found
    assert "_Z" not in found
