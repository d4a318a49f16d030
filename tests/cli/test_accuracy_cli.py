"""gemmsmith accuracy on the simulator: points, tables, files, pictures, wrong use."""

from __future__ import annotations

import csv
import io
import json
import math
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from unsimulated import unsimulated

from gemmsmith.bench.arithmetic import arithmetic
from gemmsmith.cli.commands import accuracy
from gemmsmith.cli.main import run_command
from gemmsmith.cli.options.kernel import find_kernel
from gemmsmith.cli.render.accuracy_plot import accuracy_picture
from gemmsmith.cli.render.accuracy_tables import Study
from gemmsmith.problem import BF16, FP16, FP32, INT8, TF32, Problem
from gemmsmith.run.cuda import gpu_available
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.oracles.accuracy_study import DISTRIBUTIONS, Errors, Plan, study
from gemmsmith.verify.oracles.accuracy_subjects import kernel_subject

SMALL = ("--m", "24", "--n", "20", "--device", "sim")
QUICK = ("--k", "8,16", "--distributions", "normal,cancelling", *SMALL)
# One thread per output; with DROP=1 the last term of each sum is left out.
SOURCE = """
__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || column >= N) return;
    float sum = 0;
    for (int k = 0; k < K - DROP; ++k) sum += A[row * K + k] * B[k * N + column];
    C[row * N + column] = sum;
}
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    got = run_command(["accuracy", *arguments])
    seen = capsys.readouterr()
    assert got == code, seen
    return seen.out, seen.err


def facts_of(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(capsys, *arguments, "--json", code=code)[0])
    return found


def test_points_of_two_rungs(capsys: pytest.CaptureFixture[str]) -> None:
    facts = facts_of(capsys, "naive", "--against", "coalesced", *QUICK)
    assert facts["origin"] == "simulated"
    assert facts["device"] == "simulator (sm_90)"
    assert facts["command"].startswith("gemmsmith accuracy naive ")
    assert (facts["m"], facts["n"], facts["k"], facts["missing"]) == (24, 20, [8, 16], 0)
    assert facts["kernels"] == [{"name": "naive", "arithmetic": "fp32", "baseline": False},
                                {"name": "coalesced", "arithmetic": "fp32", "baseline": True}]  # fmt: skip
    assert [(p["distribution"], p["k"], p["kernel"]) for p in facts["points"]] == [
        (d, k, name) for d in ("normal", "cancelling") for k in (8, 16) for name in ("naive", "coalesced")
    ]
    for mine, theirs in zip(facts["points"][::2], facts["points"][1::2], strict=True):
        assert mine | {"kernel": ""} == theirs | {"kernel": ""}  # rungs on CUDA cores give the same bits
        assert mine["unit"] == 2.0**-24
        assert 0 < mine["mean"] < mine["largest"] < 16
        assert 0 < mine["frobenius"] < 1e-6
        assert not mine["beyond_gate"]
    assert {(r["measure"], r["value"]) for r in facts["ratios"]} == {("largest", 1.0), ("frobenius", 1.0)}


def test_tf32_has_errors_near_2_to_the_minus_11_and_is_never_called_fp32(
    capsys: pytest.CaptureFixture[str],
) -> None:
    facts = facts_of(capsys, "mma_pipelined", "--dtype", "tf32", "--against", "naive", "--k", "8", "--distributions",
                     "normal", *SMALL)  # fmt: skip
    tf32, fp32 = facts["points"]
    assert (tf32["arithmetic"], tf32["unit"]) == ("tf32", 2.0**-11)
    assert (fp32["arithmetic"], fp32["unit"]) == ("fp32", 2.0**-24)
    assert 0.5 < tf32["largest"] < 2
    assert 2.0**-13 < tf32["frobenius"] < 2.0**-11
    assert fp32["frobenius"] < 2.0**-22
    (by_component, _) = facts["ratios"]
    assert by_component["value"] == pytest.approx(tf32["largest"] * 2**13 / fp32["largest"])


def test_a_missing_term_is_beyond_the_gate(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.cu"
    file.write_text(SOURCE)
    options = (str(file), "--against", "none", "--k", "16", "--distributions", "normal,uniform", *SMALL)
    right = facts_of(capsys, *options, "-DDROP=0")
    assert [k["name"] for k in right["kernels"]] == ["mine.cu"]
    assert all(p["largest"] < 16 for p in right["points"])
    wrong = facts_of(capsys, *options, "-DDROP=1", code=1)
    assert all(p["beyond_gate"] and p["frobenius"] > 0.01 for p in wrong["points"])
    shown, _ = run(capsys, *options, "-DDROP=1", code=1)
    assert shown.count("beyond gate") == 2
    # Nothing was written at all: infinitely wrong, and still JSON.
    nothing = facts_of(capsys, *options, "-DDROP=1", "--grid", "1,1", "--block", "1,1", code=1)
    assert {p["largest"] for p in nothing["points"]} == {"inf"}


def test_tables_of_every_distribution_fit(capsys: pytest.CaptureFixture[str]) -> None:
    shown, _ = run(capsys, "naive", "coalesced", "--against", "shared_tile", "--k", "8", "--seeds", "2", *SMALL)
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 100
    assert "simulated (simulator (sm_90), 2 seeds)" in shown
    assert [line.split()[0] for line in lines if line.startswith(DISTRIBUTIONS)] == list(DISTRIBUTIONS)
    assert "naive beside shared_tile, at worst: largest error ×1 (" in shown
    assert "coalesced beside shared_tile" in shown
    assert "fp32: 2^-24" in shown
    facts = facts_of(
        capsys, "naive", "--against", "none", "--k", "8", "--seeds", "2", "--distributions", "normal", *SMALL
    )
    (point,) = facts["points"]
    (row,) = (line.split() for line in lines if line.startswith("normal"))
    assert row[:4] == ["normal", "8", "naive", "fp32"]
    for cell, value in zip(row[4:], (point["frobenius"], point["largest"] * point["unit"], point["largest"],
                                     point["mean"], point["relative"]), strict=True):  # fmt: skip
        assert float(cell) == pytest.approx(value, rel=0.006)


def test_csv_and_the_saved_file_agree(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    saved = tmp_path / "errors.json"
    shown, told = run(capsys, "naive", "--against", "none", *QUICK, "--csv", "--save", str(saved))
    assert f"wrote {saved}" in told.replace("\n", "")
    rows = list(csv.DictReader(io.StringIO(shown)))
    points = json.loads(saved.read_text())["points"]
    assert [(r["distribution"], int(r["k"]), float(r["largest"])) for r in rows] == [
        (p["distribution"], p["k"], p["largest"]) for p in points
    ]
    assert {r["origin"] for r in rows} == {"simulated"}


def test_the_picture_shows_every_point_on_one_scale(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "errors.svg"
    facts = facts_of(capsys, "mma_pipelined", "--dtype", "tf32", "--against", "naive", *QUICK, "--plot", str(file))
    picture = ElementTree.fromstring(file.read_text(encoding="utf-8"))
    marks = {e.findtext("{*}title"): e for e in picture.iter() if "data-value" in e.attrib}
    assert len(marks) == len(facts["points"]) == 8
    heights = {}
    for point in facts["points"]:
        name = f"{point['kernel']}, {point['distribution']}, K = {point['k']}"
        (mark,) = (mark for title, mark in marks.items() if title is not None and title.startswith(f"{name}:"))
        units = point["largest"] * point["unit"] * 2**24
        assert float(mark.attrib["data-value"]) == pytest.approx(units, rel=1e-4)
        heights[units] = float(mark.attrib["data-y"])
    # The height is the logarithm of the error, on the same scale in all panels.
    logs = np.log10(list(heights))
    slope, offset = np.polyfit(logs, list(heights.values()), 1)
    assert slope < 0
    lines = [float(e.attrib[name]) for e in picture.iter("{http://www.w3.org/2000/svg}line") for name in ("y1", "y2")]
    assert min(lines) <= min(heights.values()) < max(heights.values()) <= max(lines)
    assert np.allclose(slope * logs + offset, list(heights.values()), atol=0.02)
    words = " ".join("".join(e.itertext()) for e in picture.iter("{http://www.w3.org/2000/svg}text"))
    for text in (
        "simulated: simulator (sm_90)",
        "mma_pipelined (tf32)",
        "naive (fp32, baseline)",
        "cancelling",
        "2⁻²⁴",
    ):
        assert text in words
    shapes = {mark.tag for mark in marks.values()}
    assert len(shapes) == 2, "kernels differ in shape as well as in colour"


def test_a_picture_without_errors_and_with_infinite_ones() -> None:
    spec, config = find_kernel("naive")
    plan = Plan(8, 8, (4,), ("integers",))
    subject = kernel_subject(spec, config, Problem(8, 8, 4), SimDevice(), arithmetic)
    points = tuple(study([subject], plan))
    picture = accuracy_picture(Study((subject,), plan, points, "simulated", "simulator", "", "0", "2026-01-01"))
    ElementTree.fromstring(picture)
    assert "no error at all: 1" in picture
    lost = replace(points[0], errors=Errors(*[math.inf] * 4), wrong=True)
    picture = accuracy_picture(Study((subject,), plan, (lost,), "simulated", "simulator", "", "0", "2026-01-01"))
    ElementTree.fromstring(picture)
    assert "results that are not finite: 1" in picture


def test_points_cut_off_by_the_time_limit_are_noted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_short(subjects: Any, plan: Plan, step: Any) -> Any:
        assert plan.seconds == 30
        return list(study(subjects, plan, step))[:1]

    monkeypatch.setattr(accuracy, "study", cut_short)
    facts = facts_of(capsys, "naive", "--against", "none", *QUICK, "--time-limit", "30")
    assert facts["missing"] == 3
    assert facts["notes"] == ["the time limit of 30 s left out 3 of 4 points"]
    monkeypatch.setattr(accuracy, "study", lambda *_: [])
    _, told = run(capsys, "naive", *QUICK, "--time-limit", "30", code=2)
    assert "ended before the first point" in told


def test_default_baselines(capsys: pytest.CaptureFixture[str]) -> None:
    tiny = ("--k", "4", "--m", "8", "--distributions", "normal", "--device", "sim")
    facts = facts_of(capsys, "naive", *tiny)
    assert [(k["name"], k["baseline"]) for k in facts["kernels"]] == [("naive", False), ("warp_tile", True)]
    assert (facts["m"], facts["n"]) == (8, 8)
    facts = facts_of(capsys, "naive", "--against", "naive", *tiny)
    assert [k["name"] for k in facts["kernels"]] == ["naive"]
    gpu: Any = SimpleNamespace(kind="gpu")
    usual = {dtype.name: accuracy._usual_rivals(dtype, gpu) for dtype in (FP32, TF32, FP16, BF16, INT8)}
    assert usual == {"fp32": ("cublas", "cublas-tf32"), "tf32": ("cublas", "cublas-tf32"), "fp16": ("cublas",),
                     "bf16": ("cublas",), "int8": ("warp_tile",)}  # fmt: skip


def test_one_of_several_kernels_that_cannot_take_part_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    facts = facts_of(capsys, "wmma", "naive", "--dtype", "fp32", "--against", "none", *QUICK)
    assert [k["name"] for k in facts["kernels"]] == ["naive"]
    assert facts["notes"][0].startswith("wmma left out: wmma takes fp16, bf16 inputs")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("naive", "--distributions", "gaussian"), "unknown fill 'gaussian'"),
        (("naive", "--distributions", "bits"), "cannot be measured on the fill 'bits'"),
        (("naive", "--k", "16,many"), "not a list of integers"),
        (("naive", "--k", "0"), "K must be 1 or more"),
        (("naive", "--m", "-3"), "M must be 1 or more"),
        (("naive", "--seeds", "0"), "--seeds must be 1 or more"),
        (("naive", "--time-limit", "-1"), "time limit must be positive"),
        (("naive", "--against", "cublas"), "cublas needs a GPU"),
        (("naive", "--against", "cublass"), "cublass"),
        (("naive", "--dtype", "fp16"), "naive takes fp32 inputs, not fp16"),
        (("mma_pipelined", "--dtype", "int8", "--distributions", "wide"), "'wide' is not for int8"),
        (("nosuch",), "nosuch"),
        (("naive", "--json", "--csv"), "choose one of --json and --csv"),
        (("naive", "--plot", "errors.png"), "not an SVG file"),
        (("naive", "--save", "nowhere/errors.json"), "no folder nowhere"),
    ],
)
def test_wrong_use(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    _, told = run(capsys, *arguments, "--device", "sim", code=2)
    assert message in " ".join(told.split())


def test_a_rung_that_is_not_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    with unsimulated("wgmma_tma"):
        _, told = run(capsys, "wgmma_tma", "--device", "sim", code=2)
    assert "is not simulated yet" in told


@pytest.mark.skipif(gpu_available(), reason="needs a machine without a GPU")
def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "naive", "--device", "gpu", code=3)
