"""GPUs whose machine code is not executed: counts, and no time."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from gemmsmith.cli.app import app


@pytest.mark.parametrize(("gpu", "timed"), [("T4", False), ("RTX 4090", True)])
def test_a_time_is_told_only_where_machine_code_is_executed(gpu: str, timed: bool) -> None:
    words = ["explain", "naive", "--gpu", gpu, "--m", "64", "--n", "64", "--k", "64"]
    found = json.loads(CliRunner().invoke(app, [*words, "--json"]).output)
    told = CliRunner().invoke(app, words).output
    assert (found["seconds"] is not None, found["tflops"] is not None) == (timed, timed)
    assert ("No time is predicted" in told) != timed
    assert not any("estimated" in text for text in found["sentences"])
    assert "takes an estimated" not in " ".join(told.split())
    assert found["work"]["fma"] > 0
