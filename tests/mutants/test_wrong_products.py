"""``gemmsmith check`` fails products that are wrong by one change, and accuses no innocent twin.

No shape, grid or launch is given: what fits the kernel is found from the kernel.
"""

from __future__ import annotations

import json
from pathlib import Path

import fresh_products
import pytest
from wrong_products import INNOCENT, WRONG

from gemmsmith.cli.main import run_command

# One of each kind, for every change of the project; all of them in test-all and at night.
FIRST = [
    "naive: K above 1000",
    "naive: rows above 4095",
    "naive: minus zero",
    "scaled: beta at most 2",
    "naive: row <= M",
]
FRESH = {name: fresh_products.source(*made) for name, made in fresh_products.WRONG.items()}
SOURCES = {name: change.source for name, change in WRONG.items()} | FRESH
TWINS = {name: change.source for name, change in INNOCENT.items()} | {
    f"fresh {name}": fresh_products.source(name, {}) for name in fresh_products.STYLES
}


def status(folder: Path, source: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code of a check, and the status that it reports."""
    path = folder / "mine.cu"
    path.write_text(source, encoding="utf-8")
    code = run_command(["check", str(path), "--json"])
    return code, json.loads(capsys.readouterr().out)["status"]


@pytest.mark.parametrize("name", FIRST)
def test_one_of_each_kind(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(tmp_path, SOURCES[name], capsys) == (1, "wrong")


@pytest.mark.parametrize("name", [name for name in SOURCES if name not in FIRST])
def test_a_wrong_product_fails(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(tmp_path, SOURCES[name], capsys) == (1, "wrong")


@pytest.mark.parametrize("name", TWINS)
def test_an_innocent_twin_passes(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = status(tmp_path, TWINS[name], capsys)
    assert code == 0
    assert found in ("right", "column_major", "aligned_rows")


def test_verify_catches_what_depends_on_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(SOURCES["naive: rows above 4095"], encoding="utf-8")
    assert run_command(["verify", str(path), "--json"]) == 1
    reasons = [failure["reasons"][0] for failure in json.loads(capsys.readouterr().out)["failures"]]
    assert "block y = 256, where mine.cu:10 changes" in reasons
