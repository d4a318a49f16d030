"""Commands print the same with --on as without."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.ladder import _in_parallel
from gemmsmith.cli.main import run_command
from gemmsmith.cli.rung import collect_rung
from gemmsmith.cluster.executor import Blobs
from gemmsmith.cluster.slot import Slot
from gemmsmith.cluster.task import Task

KERNEL = """
#include "tile.cuh"
__global__ void {name}(const float* A, const float* B, float* C, int M, int N, int K) {{
  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  if (row {guard} M || col >= N) return;
  float s = 0.0f;
  for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
  C[row * N + col] = s;
}}
void launch(const float* A, const float* B, float* C, int M, int N, int K) {{
  dim3 block(TILE, TILE), grid((N + TILE - 1) / TILE, (M + TILE - 1) / TILE);
  {name}<<<grid, block>>>(A, B, C, M, N, K);
}}
"""


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("GEMMSMITH_DB", str(tmp_path / "r.db"))
    return tmp_path / "r.db"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "repo"
    (root / ".git").mkdir(parents=True)
    (root / "inc").mkdir()
    (root / "inc" / "tile.cuh").write_text("#define TILE 16\n", encoding="utf-8")
    (root / "right.cu").write_text(KERNEL.format(name="right", guard=">="), encoding="utf-8")
    (root / "wrong.cu").write_text(KERNEL.format(name="wrong", guard=">"), encoding="utf-8")
    monkeypatch.chdir(root)
    return root


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = run_command([*words, "--json"])
    out = re.sub(r"0x7[0-9a-f]{11}", "an address", capsys.readouterr().out)  # depends on what was allocated before
    return code, json.loads(out)


def test_verify_and_its_dry_run(repository: Path, database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["verify", "naive", str(repository / "wrong.cu")]
    code, here = ran(capsys, *words, "--on", "here")
    assert (code, here["ok"]) == (1, False)
    there_code, there = ran(capsys, *words, "--on", "local:2")
    tasks = there.pop("tasks")
    assert (there_code, there) == (code, here)
    assert all(task["node"] and task["tries"] == 1 for task in tasks)
    with closing(sqlite3.connect(database)) as raw:
        assert raw.execute("SELECT count(*) FROM task").fetchone() == (len(tasks),)
    _, dry = ran(capsys, *words, "--on", "local:2", "--dry-run")
    assert (dry["dry_run"]["tasks"], dry["dry_run"]["without_history"]) == (len(tasks), 0)
    assert dry["dry_run"]["core_seconds"] == pytest.approx(sum(task["seconds"] for task in tasks), abs=0.2)


def test_check_of_a_folder(repository: Path, database: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: ARG001
    found = []
    for place in ("here", "local:2"):
        code, facts = ran(capsys, "check", ".", "--on", place, "--cures", "0")
        assert code == 1
        for kernel in facts["kernels"]:
            del kernel["seconds"]
        found.append(facts)
    assert found[0] == found[1]
    assert sorted(kernel["status"] for kernel in found[0]["kernels"]) == ["right", "wrong"]
    with closing(sqlite3.connect(database)) as raw:
        assert raw.execute("SELECT kind, state FROM task").fetchall() == [("check", "done")] * 2


def test_a_sweep_records_its_points_once(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "padded", "--vary", "PAD=0,4", "--shapes", "64"]
    _, here = ran(capsys, *words, "--on", "here", "--no-db")
    _, there = ran(capsys, *words, "--on", "local:2")
    assert here == there
    with closing(sqlite3.connect(database)) as raw:
        assert raw.execute("SELECT count(*) FROM measurement").fetchone() == (2,)
        assert raw.execute("SELECT count(*) FROM task").fetchone() == (2,)


def test_the_ladder_is_collected_in_tasks() -> None:
    job = ("naive", 64, "sm_90", 64, Compiler())
    (found,) = _in_parallel([job])
    expected = collect_rung(*job)
    assert found.profile is not None
    assert expected.profile is not None
    assert repr(found.profile.metrics) == repr(expected.profile.metrics)
    assert (found.name, found.verdicts, found.geometry, found.sass, found.animation) == (
        expected.name, expected.verdicts, expected.geometry, expected.sass, expected.animation)  # fmt: skip


def test_a_kernel_is_compiled_on_one_node_and_read_on_the_others(tmp_path: Path) -> None:
    shelf = Blobs()
    task = Task("count_rung", {"name": "naive", "size": 64, "arch": "sm_90", "simulated": 0}, "naive")
    held = []
    for node in ("one", "two"):
        folder = tmp_path / node
        slot = Slot("gemmsmith.cli.task_kinds", shelf, {"GEMMSMITH_CACHE_DIR": str(folder)}, shares=True, name=node)
        try:
            slot.begin(task.to_bytes(), 120)
            while (ended := slot.step(120)) is None:
                pass
        finally:
            slot.end()
        assert json.loads(ended.data)["state"] == "done", ended
        held.append((sorted(path.name for path in folder.glob("*.kernel")), dict(shelf.held)))
        shelf.put = lambda *_: pytest.fail("compiled again")  # type: ignore[method-assign]
    assert held[0] == held[1]
    assert [f"kernel:{name.removesuffix('.kernel')}" for name in held[0][0]] == sorted(shelf.held)
    assert held[0][0]


def test_gpu_commands_say_that_there_is_none(capsys: pytest.CaptureFixture[str], database: Path) -> None:  # noqa: ARG001
    from gemmsmith.run.cuda import gpu_available

    if not gpu_available():
        assert run_command(["bench", "naive", "--shapes", "64", "--on", "local:2"]) == 3
        assert "driver" in capsys.readouterr().err
