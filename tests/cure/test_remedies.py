"""Limits of a kernel that is right, each with a change that a copy confirmed: C read when beta = 0, 32-bit indices."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from faulty_kernel import Faulty
from faulty_values import NAIVE

from gemmsmith.cli.check_prepare import Asked
from gemmsmith.cli.check_run import run_check
from gemmsmith.cli.options.device import CacheOptions, DeviceOptions
from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
from gemmsmith.cli.options.problem import ShapeOptions
from gemmsmith.cli.options.verification import VerificationOptions
from gemmsmith.cli.render.check_json import report_json
from gemmsmith.cli.render.check_report import Report
from gemmsmith.cli.render.check_text import print_report
from gemmsmith.cure.code import Code, Program
from gemmsmith.cure.edit import applied
from gemmsmith.cure.overflow import overflows
from gemmsmith.cure.unread import beta_tested

NAMES = {role: role for role in ("A", "B", "C", "M", "N", "K", "beta")}


def program(body: str) -> Program:
    head = "__global__ void k(const float* A, const float* B, float* C, int M, int N, int K, float beta)"
    return Program((Code(Path("k.cu"), f"{head} {{\n{body}\n}}"),), "k", NAMES)


def mended(found: Program, kind: object) -> str:
    made = list(kind(found))  # type: ignore[operator]
    return applied(made[0].edits, found.files)[0][1] if made else ""


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("C[row * N + col] = 0;", "C[(size_t)row * N + col] = 0;"),
        ("const int at = row * N + col;\nC[at] = 0;", "const size_t at = (size_t)row * N + col;\nC[at] = 0;"),
        ("size_t at = row * N + col; C[at] = 0;", "size_t at = (size_t)row * N + col; C[at] = 0;"),
        ("A += blockIdx.y * 64 * K;", "A += (size_t)blockIdx.y * 64 * K;"),
        ("float x = A[(k0 + y) * K + z * 4];", "float x = A[(size_t)(k0 + y) * K + z * 4];"),
    ],
)
def test_indices_get_64_bits(body: str, wanted: str) -> None:
    assert wanted in mended(program(body), overflows)


@pytest.mark.parametrize(
    "body", ["C[(size_t)row * N + col] = 0;", "int tiles = N * 2; C[0] = tiles;", "long i = 3L * N; C[i] = 0;"]
)
def test_indices_with_64_bits_and_other_products_stay(body: str) -> None:
    assert mended(program(body), overflows) == ""


def test_beta_is_tested_before_c_is_read() -> None:
    text = mended(program("C[i] = s + beta * C[i];\nC[j] = C[j] * beta + s;"), beta_tested)
    assert "C[i] = s + (beta == 0 ? 0 : beta * C[i]);" in text
    assert "C[j] = (beta == 0 ? 0 : C[j] * beta) + s;" in text
    assert mended(program("C[i] = s + 2 * C[i];"), beta_tested) == ""


def checked_freely(source: str, folder: Path) -> Report:
    """With the trials that fit the kernel, large matrices among them."""
    path = folder / "kernel.cu"
    path.write_text(source)
    spec, config = find_kernel(str(path), KernelOptions())
    asked = Asked(str(path), KernelOptions(), ShapeOptions(), True, DeviceOptions("sim"), 120, VerificationOptions(),
                  CacheOptions(), cures=60.0)  # fmt: skip
    return run_check(spec, config, replace(asked, budget=60.0))


def test_each_limit_has_the_change_that_cured_a_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = checked_freely(Faulty("", NAIVE, "").source, tmp_path)
    assert report.ok
    assert report.status == "right"
    assert [each.kind for each in report.remedies] == ["overflow", "c-read"]
    assert report_json(report)["remedies"] == [each.to_json() for each in report.remedies]
    print_report(report)
    said = " ".join(capsys.readouterr().out.split())
    assert "limit C is read when beta = 0 (" in said
    assert "Write `(beta == 0 ? 0 : beta * C[row * N + col])` in line 10 (tried in a copy: the trial passes)" in said
    assert "in lines 8 and 10 (tried in a copy: all" in said
