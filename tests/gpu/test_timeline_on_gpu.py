"""On a GPU: timelines of real programs. Run with ``pytest -m gpu tests/gpu/test_timeline_on_gpu.py``."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.run.cuda import gpu_available

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs an NVIDIA GPU")]


def _missing(tool: str) -> bool:
    return shutil.which("nsys") is None if tool == "nsys" else importlib.util.find_spec(tool) is None


TOOLS = [
    pytest.param(tool, marks=pytest.mark.skipif(_missing(tool), reason=f"{tool} is not installed"))
    for tool in ("cupti", "torch", "nsys")
]
NEEDS_A_TOOL = pytest.mark.skipif(all(map(_missing, ("cupti", "torch", "nsys"))), reason="no tool is installed")
LAUNCHES = 4
RUNGS = ("naive", "shared_tile", "warp_tile")
SIZES = (256, 512)
OURS = f"""
import torch
import gemmsmith

for size in {SIZES}:
    a, b = torch.randn(size, size).cuda(), torch.randn(size, size).cuda()
    out = torch.zeros(size, size, device="cuda")
    for rung in {RUNGS}:
        for _ in range({LAUNCHES}):
            gemmsmith.gemm(a, b, kernel=rung, out=out)
    print("sum", float(out.cpu().sum()))
"""
BYTES = 4 * sum(size * size for size in SIZES)


def timeline(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "gemmsmith", "timeline", *words], capture_output=True, text=True,
                          check=False, timeout=300)  # fmt: skip


def rows(found: dict[str, Any], report: str) -> list[dict[str, Any]]:
    return next(t["rows"] for t in found["tables"] if t["report"] == report)


def watch(folder: Path, tool: str, text: str, *options: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the JSON, and what else was said."""
    path = folder / "program.py"
    path.write_text(text)
    done = timeline("--json", "--tool", tool, *options, str(path))
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("tool", TOOLS)
def test_three_rungs_at_two_sizes_with_copies(tmp_path: Path, tool: str) -> None:
    pytest.importorskip("torch")
    trace = tmp_path / "trace.json"
    code, found, said = watch(tmp_path, tool, OURS, "--trace", str(trace))
    assert code == 0, said
    assert said.count("sum") == len(SIZES)
    launches = len(RUNGS) * len(SIZES) * LAUNCHES
    gemm = next(row for row in rows(found, "cuda_gpu_kern_sum") if row["name"].split("(")[0] == "gemm")
    assert gemm["count"] == launches
    assert 0 < gemm["minimum"] <= gemm["median"] <= gemm["maximum"] <= gemm["total"]
    # A repeated launch goes through cuLaunchKernelEx; NVIDIA's tools may add a suffix for its version.
    calls = [row for row in rows(found, "cuda_api_sum") if row["name"].startswith("cuLaunchKernel")]
    assert sum(row["count"] for row in calls) >= launches
    sizes = {row["name"]: row["total"] for row in rows(found, "cuda_gpu_mem_size_sum")}
    assert sizes["[CUDA memcpy Device-to-Host]"] == BYTES
    assert sizes["[CUDA memcpy Host-to-Device]"] >= 2 * BYTES
    whole = found["totals_ns"]
    assert 0 < whole["gpu_busy"] <= whole["gpu_span"] <= whole["wall"]
    assert whole["gpu_busy"] <= whole["kernels"] + whole["memory"]
    (mixed,) = [w for w in found["warnings"] if w["kind"] == "kernel" and w["name"].split("(")[0] == "gemm"]
    assert mixed["reason"] == "kernels"
    assert sum(part["count"] for part in mixed["parts"]) == launches
    # Two rungs of one block may happen to have as many registers; warp_tile's blocks are unlike theirs.
    assert 2 * len(SIZES) <= len(mixed["parts"]) <= len(RUNGS) * len(SIZES)
    items = json.loads(trace.read_text())["traceEvents"]
    slices = [e for e in items if e["ph"] == "X" and e["name"] == "gemm"]
    arrows = {(e["pid"], e["tid"], e["ts"]) for e in items if e["ph"] == "f"}
    assert len(slices) == launches
    assert {(e["pid"], e["tid"], e["ts"]) for e in slices} <= arrows, "a launch is not tied to its call"


@pytest.mark.parametrize("tool", TOOLS)
def test_a_row_for_each_grid(tmp_path: Path, tool: str) -> None:
    pytest.importorskip("torch")
    _, found, _ = watch(tmp_path, tool, OURS, "--by-grid")
    ours = [row for row in rows(found, "cuda_gpu_kern_gb_sum") if row["name"].split("(")[0] == "gemm"]
    assert len({(tuple(row["grid"]), tuple(row["block"])) for row in ours}) == len(ours)
    assert sum(row["count"] for row in ours) == len(RUNGS) * len(SIZES) * LAUNCHES


@pytest.mark.parametrize("tool", TOOLS)
def test_a_program_that_fails_keeps_what_it_did(tmp_path: Path, tool: str) -> None:
    pytest.importorskip("torch")
    code, found, said = watch(tmp_path, tool, OURS + "raise ValueError('planted')\n")
    assert code == 1
    assert found["exit_code"] == 1
    assert "ValueError: planted" in said
    assert rows(found, "cuda_gpu_kern_sum")


@pytest.mark.parametrize("tool", TOOLS)
def test_a_program_without_cuda_work(tmp_path: Path, tool: str) -> None:
    code, found, said = watch(tmp_path, tool, "print(sum(range(10)))")
    assert code == 0, said
    assert rows(found, "cuda_gpu_kern_sum") == []
    assert rows(found, "cuda_gpu_mem_time_sum") == []


@NEEDS_A_TOOL
def test_work_still_running_at_the_end_is_recorded(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = (
        "import torch\na = torch.randn(4096, 4096, device='cuda')\ntorch.cuda.synchronize()\n"
        "for _ in range(20): b = a @ a\n"
    )
    _, found, _ = watch(tmp_path, "auto", text)
    assert max(row["count"] for row in rows(found, "cuda_gpu_kern_sum")) == 20


@NEEDS_A_TOOL
def test_a_crash_is_an_error_of_one_line(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("import os; os.abort()")
    done = timeline(str(path))
    assert done.returncode in (1, 3)
    assert "Traceback" not in done.stderr


@NEEDS_A_TOOL
def test_a_bench() -> None:
    done = timeline("--json", "--", "bench", "warp_tile", "--shapes", "512x512x512")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert any(row["name"].split("(")[0] == "gemm" for row in rows(found, "cuda_gpu_kern_sum"))
    assert rows(found, "cuda_api_sum")


@NEEDS_A_TOOL
def test_a_run_in_tables() -> None:
    done = timeline("--", "run", "warp_tile", "--device", "gpu", "--m", "512", "--n", "512", "--k", "512")
    assert done.returncode == 0, done.stderr
    assert "kernels" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
