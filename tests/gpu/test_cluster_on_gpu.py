"""On a GPU: commands as tasks, one GPU each, with the same verdicts as without, and every result with its machine."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.run.cuda import cuda_device, gpu_available

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs an NVIDIA GPU")]


def gemmsmith(folder: Path, *words: str) -> dict[str, Any]:
    database = [] if words[0] in ("verify", "tune") else ["--db", str(folder / "results.db")]
    command = [sys.executable, "-m", "gemmsmith", *words, "--json", *database]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Two processes, of which the only GPU gets one."""
    monkeypatch.setenv("GEMMSMITH_DB", str(tmp_path / "results.db"))
    monkeypatch.setenv("GEMMSMITH_TUNING", str(tmp_path / "tuning.jsonl"))
    return "local:2"


def test_bench_says_which_gpu_driver_and_clock_made_each_result(tmp_path: Path, place: str) -> None:
    words = ["bench", "naive", "coalesced", "--shapes", "256,512", "--quick", "--budget", "0.3", "--against", "none"]
    facts = gemmsmith(tmp_path, *words, "--on", place)
    assert [task["gpu"] for task in facts["tasks"]] == [cuda_device().name] * 2
    assert all(task["driver"] and task["sm_mhz"] > 0 for task in facts["tasks"])
    made = [(m["identity"]["name"], m["problem"]["m"]) for m in facts["measurements"]]
    assert sorted(made) == [("coalesced", 256), ("coalesced", 512), ("naive", 256), ("naive", 512)]
    with sqlite3.connect(tmp_path / "results.db") as raw:
        assert raw.execute("SELECT count(*) FROM measurement").fetchone() == (4,)
        assert raw.execute("SELECT count(*) FROM task WHERE state = 'done'").fetchone() == (2,)
        assert raw.execute("SELECT gpu FROM run").fetchall() == [(cuda_device().name,)]


def test_verify_gives_the_same_verdicts(tmp_path: Path, place: str) -> None:
    words = ["verify", "padded", "--device", "gpu"]
    here, there = gemmsmith(tmp_path, *words, "--on", "here"), gemmsmith(tmp_path, *words, "--on", place)
    del there["tasks"]
    assert here == there
    assert here["device"] == cuda_device().name


def test_a_sweep_compares_the_points_of_a_shape_on_one_gpu(tmp_path: Path, place: str) -> None:
    facts = gemmsmith(tmp_path, "sweep", "padded", "--vary", "PAD=0,4", "--shapes", "256,512", "--device", "gpu",
                      "--on", place)  # fmt: skip
    assert [point["state"] for point in facts["points"]] == ["ok"] * 4
    with sqlite3.connect(tmp_path / "results.db") as raw:
        assert raw.execute("SELECT count(*) FROM task").fetchone() == (2,)


@pytest.mark.skipif(not gpu_available() or cuda_device().arch != "sm_90", reason="needs a Hopper GPU")
def test_a_tuned_shape_is_stored_here(tmp_path: Path, place: str) -> None:
    words = ["tune", "--shapes", "256x512x512", "--per-shape", "2", "--tuning", str(tmp_path / "tuning.jsonl")]
    first = gemmsmith(tmp_path, *words, "--on", place)
    assert [shape["state"] for shape in first["shapes"]] == ["tuned"]
    assert "best" in [json.loads(line)["event"] for line in (tmp_path / "tuning.jsonl").read_text().splitlines()]
    assert [shape["state"] for shape in gemmsmith(tmp_path, *words, "--on", "here")["shapes"]] == ["known"]


@pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray")
def test_a_ray_node_gives_each_task_one_gpu(tmp_path: Path, place: str) -> None:  # noqa: ARG001
    code = f"""
import os, subprocess, sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args=dict(num_cpus=4, num_gpus=1, include_dashboard=False))
try:
    words = ["bench", "naive", "--shapes", "256,512", "--quick", "--budget", "0.3", "--against", "none", "--on", "ray"]
    sys.exit(subprocess.run([sys.executable, "-m", "gemmsmith", *words, "--db", {str(tmp_path / "r.db")!r}],
                            env=os.environ | {{"RAY_ADDRESS": cluster.address}}).returncode)
finally:
    cluster.shutdown()
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=300).returncode == 0
