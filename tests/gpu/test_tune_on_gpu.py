"""On a GPU: a shape is tuned with real candidates, kept, used by later calls, and exported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.choose.choice import choose, forget
from gemmsmith.choose.table import table_from_text
from gemmsmith.cli.main import run_command
from gemmsmith.problem import BF16, Problem
from gemmsmith.run.cuda import cuda_device, gpu_available

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_available() or cuda_device().arch != "sm_90", reason="needs a Hopper GPU"),
]


@pytest.fixture(autouse=True)
def tuning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "tuning.jsonl"
    monkeypatch.setenv("GEMMSMITH_TUNING", str(path))
    forget()
    yield path
    forget()


def tune(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    got = run_command(["tune", *words, "--json"])
    seen = capsys.readouterr()
    assert got == code, seen
    facts: dict[str, Any] = json.loads(seen.out)
    return facts


def test_a_shape_is_tuned_kept_used_and_exported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    words = ("--shapes", "512x384x1024", "--layout", "NT", "--out-dtype", "bf16", "--per-shape", "6")
    facts = tune(capsys, *words, "--export", str(table))
    (shape,) = facts["shapes"]
    assert shape["state"] == "tuned", shape
    assert shape["unusable"] == [], "a candidate that the kernels call legal must compile, run and be right"
    assert shape["us"] > 0
    assert shape["cublas_us"] > 0
    device = cuda_device()
    problem = Problem(512, 384, 1024, BF16, BF16, trans_b=True)
    found = choose(problem, device.name, sms=device.sms, arch=device.arch)
    assert (found.source, found.spec.name, dict(found.config)) == ("tuned", shape["kernel"], shape["config"])
    made = table_from_text(table.read_text())
    assert len(made.entries) == 1
    assert made.gpu == device.name
    assert tune(capsys, *words)["shapes"][0]["state"] == "known"


def test_few_rows_and_an_odd_shape(capsys: pytest.CaptureFixture[str]) -> None:
    facts = tune(capsys, "--shapes", "16x1024x1024,257x255x253", "--per-shape", "4")
    for shape in facts["shapes"]:
        assert (shape["state"], shape["unusable"]) == ("tuned", [])


def test_a_budget_ends_the_run_and_the_next_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--shapes", "256,384", "--per-shape", "3")
    first = tune(capsys, *words, "--budget", "0.001")
    assert not first["finished"]
    assert tune(capsys, *words)["finished"]
