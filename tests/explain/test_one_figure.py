"""explain, compare and profile give one figure for one quantity."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import gemmsmith
from gemmsmith.cli.main import run_command
from gemmsmith.cli.render.comparison_text import print_comparison
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import UnsupportedError
from gemmsmith.explain import simulated_profile
from gemmsmith.explain.comparison import to_json
from gemmsmith.explain.comparison_rows import origin_of
from gemmsmith.explain.profile import REQUESTS
from gemmsmith.explain.sampling import Counted, count_launch
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named

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


def test_compare_counts_what_profile_counts() -> None:
    """Both count machine code, of which an estimate from PTX has another mix."""
    found = gemmsmith.compare("vectorized", "shared_tile", 128, 128, 64)
    assert found.level == to_json(found)["counted"] == "machine code"
    shown = {row.name: row for row in found.rows if row.section == "instruction mix"}
    assert {origin_of(row) for row in shown.values()} == {"simulated"}
    counted = gemmsmith.profile("vectorized", 128, 128, 64)
    total = sum(count for _, count in counted.machine_mix)
    assert counted.machine_mix
    for name, count in counted.machine_mix:
        assert shown[name].left == pytest.approx(count / total)
    rows = {row.name: row.left for row in found.rows if row.section == "shared memory"}
    assert rows["load requests"] == counted.value(REQUESTS["ld"])
    spec = rung_named("vectorized")
    problem = spec.problem(128, 128, 64)
    code = compile_for(spec, spec.config(), problem, "sm_90")
    assert simulated_profile.simulate(spec, spec.config(), problem, code).machine_mix != counted.machine_mix


def test_kernels_are_compared_at_one_level(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the machine code of one cannot be executed, the PTX of both is counted, and the reason is told."""

    def refused(spec: KernelSpec, *rest: Any, **named: Any) -> Counted:
        if named and spec.name == "coalesced":
            raise UnsupportedError("no such instruction")
        return count_launch(spec, *rest, **named)

    monkeypatch.setattr(simulated_profile, "count_launch", refused)
    found = gemmsmith.compare("naive", "coalesced", 64, 64, 64)
    assert {each.case.profile.level for each in (found.left, found.right)} == {"PTX"}
    assert to_json(found)["counted"] == "PTX (no such instruction)"
    assert {origin_of(row) for row in found.rows if row.section == "instruction mix"} == {"predicted"}
    print_comparison(("one", "other"), ("x", "y"), found.sentences, found.rows, level=found.level)
    assert "are those of PTX (no such instruction)" in " ".join(capsys.readouterr().out.split())
