"""explain, compare and profile give one figure for one quantity."""

from __future__ import annotations

import json
import re

import pytest

from gemmsmith.cli.main import run_command

SIZE = ("--m", "128", "--n", "128", "--k", "128")


@pytest.mark.parametrize("rung", ["naive", "coalesced", "shared_tile", "warp_tile"])
def test_bytes_used_of_a_sector(rung: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A broadcast makes bytes requested and distinct bytes differ; both were once called 'used'."""
    assert run_command(["explain", rung, *SIZE, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    texts = [*found["sentences"], *(each["sentence"] for each in found["findings"] if "loads" in each["kind"])]
    figures = {figure for text in texts for figure in re.findall(r"uses? ([\d.]+) of the 32 bytes", text)}
    assert len(figures) == 1
    assert run_command(["profile", rung, *SIZE, "--device", "sim", "--json"]) == 0
    used = json.loads(capsys.readouterr().out)["bytes_used_per_sector"]["load"]
    assert float(figures.pop()) == pytest.approx(used, abs=0.06)
    for each in found["findings"]:
        if each["kind"] == "uncoalesced global loads":
            assert each["numbers"]["bytes_used_per_sector"] == pytest.approx(used, abs=1e-6)


@pytest.mark.parametrize("rung", ["naive", "shared_tile", "padded", "mma_swizzled"])
def test_ratios_in_text_findings_and_table(rung: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["explain", rung, *SIZE, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for pattern in (
        r"([\d.e-]+) (?:shared-memory )?wavefronts (?:per 32 multiply-adds)?",
        r"feeds (?:only )?([\d.]+) warp",
    ):
        figures = {figure for each in (*found["sentences"], *(f["sentence"] for f in found["findings"]))
                   for figure in re.findall(pattern, each)}  # fmt: skip
        assert len(figures) <= 1, figures
    assert run_command(["compare", rung, rung, *SIZE, "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    rows = {row["name"]: row["x"] for row in compared["rows"]}
    assert rows["time, ms"] == pytest.approx(found["seconds"] * 1e3)
    assert rows["TFLOPS"] == pytest.approx(found["tflops"])
    work = found["work"]
    if work["wavefronts"]:
        assert rows["wavefronts per 32 multiply-adds"] == pytest.approx(work["wavefronts"] / work["fma"])
    assert len({(row["section"], row["name"]) for row in compared["rows"]}) == len(compared["rows"])


def test_no_two_keys_of_the_json_mean_the_traffic_of_l2(capsys: pytest.CaptureFixture[str]) -> None:
    """The most that L2 may move and what the time model assumes are two quantities, with two names."""
    assert run_command(["explain", "naive", *SIZE, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "l2_bytes" not in found["roofline"]
    assert found["roofline"]["most_l2_bytes"] >= found["work"]["l2_bytes"]
