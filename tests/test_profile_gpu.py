"""profile and compare on a GPU: ncu is a script here that answers as ncu does."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gemmsmith.cli import compare as compare_command
from gemmsmith.cli import profile as profile_command
from gemmsmith.cli.main import run_command
from gemmsmith.explain import ncu
from gemmsmith.explain.metrics import METRICS

SIZE = ["--m", "64", "--n", "64", "--k", "32"]

FAKE_NCU = """#!{python}
import sys
at = sys.argv.index("--metrics") + 1
refused = [name for name in sys.argv[at].split(",") if any(word in name for word in {refused!r})]
if refused:
    print("==ERROR== Failed to find metric " + refused[0].partition(".")[0])
    sys.exit(1)
print("==PROF== Connected to process 1")
print('"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"')
for number, name in enumerate(sys.argv[at].split(",")):
    value = "n/a" if "dram__" in name else "1,000.5" if "pct" in name else str(1000 + number)
    print('"0","1","gemm(int, int)","' + name + '","x","' + value + '"')
open({log!r}, "w").write("\\n".join(sys.argv[1:]))
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run_command(list(arguments)) == code, capsys.readouterr().err
    out: str = capsys.readouterr().out
    return out


def narrow(text: str) -> bool:
    return all(len(line) <= 100 for line in text.splitlines())


def write_ncu(folder: Path, *refused: str) -> Path:
    """An ncu that does not know metrics with these words in their names; returns the file its arguments go to."""
    log, program = folder / "arguments", folder / "ncu"
    program.write_text(FAKE_NCU.format(python=sys.executable, log=str(log), refused=refused))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return log


@pytest.fixture
def fake_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    log = write_ncu(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    device = SimpleNamespace(name="NVIDIA H200", arch="sm_90")
    for module in (ncu, profile_command, compare_command):
        monkeypatch.setattr(module, "cuda_device", lambda: device)
    return log


def test_on_a_gpu_ncu_is_asked_and_its_answers_are_measured(fake_gpu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["profile", "shared_tile", *SIZE, "--device", "gpu", "--config", "TILE=16"]
    facts = json.loads(run(capsys, *command, "--json"))
    assert (facts["origin"], facts["device"]) == ("measured", "NVIDIA H200")
    assert facts["absent"] == ["dram__throughput.avg.pct_of_peak_sustained_elapsed"]
    assert facts["metrics"]["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]["value"] == 1000
    assert facts["bytes_used_per_sector"]["load"] == 32  # 1000.5 % is lanes sharing addresses
    asked = fake_gpu.read_text().splitlines()
    start = asked.index("-m")
    assert asked[start : start + 6] == ["-m", "gemmsmith", "run", "shared_tile", "--device", "gpu"]
    assert asked[asked.index("--config") + 1] == "TILE=16"
    text = run(capsys, *command)
    assert narrow(text)
    assert "measured by ncu" in text
    assert "stall: barrier" in text


def test_metrics_that_ncu_does_not_know_are_left_out_and_named(
    fake_gpu: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_ncu(fake_gpu.parent, "bytes_per_sector", "stalled_membar", "lts__throughput")
    command = ["profile", "shared_tile", *SIZE, "--device", "gpu"]
    facts = json.loads(run(capsys, *command, "--json"))
    optional = {name for name in facts["absent"] if name not in {m.name for m in METRICS}}
    assert optional == set(ncu._RATIOS)
    assert {name for name in facts["absent"] if "membar" in name or "lts__throughput" in name} != set()
    assert facts["metrics"]["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]["value"] == 1000
    assert (facts["bytes_used_per_sector"]["load"], facts["active_lanes"]) == (None, None)
    text = run(capsys, *command)
    assert narrow(text)
    assert "Not given by ncu" in text
    assert "Only a GPU" not in text


def test_an_ncu_that_knows_no_metric_is_an_error(fake_gpu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_ncu(fake_gpu.parent, "__")
    assert run_command(["profile", "naive", *SIZE, "--device", "gpu"]) == 1
    assert "Failed to find metric" in capsys.readouterr().err


def test_one_unknown_counter_costs_no_other(fake_gpu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_ncu(fake_gpu.parent, "stalled_membar")
    facts = json.loads(run(capsys, "profile", "naive", *SIZE, "--device", "gpu", "--json"))
    assert [name for name in facts["absent"] if "dram__" not in name] == [METRICS[-1].name]
    assert facts["bytes_used_per_sector"]["load"] == 32


@pytest.mark.usefixtures("fake_gpu")
def test_compare_on_a_gpu_adds_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(run(capsys, "compare", "naive", "coalesced", "--m", "128", "--n", "128", "--k", "64",
                           "--device", "gpu", "--json"))  # fmt: skip
    measured = {row["name"] for row in facts["rows"] if row["origin"] == "measured"}
    assert {"time, ns", "achieved occupancy, %", "stall: barrier, cycles/instruction"} <= measured


@pytest.mark.usefixtures("fake_gpu")
@pytest.mark.parametrize("option", [["--sample", "4"], ["--lines"]])
def test_what_the_simulator_alone_does_is_refused_on_a_gpu(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "profile", "naive", *SIZE, "--device", "gpu", *option, code=2)


def test_a_missing_ncu_ends_with_3_and_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(profile_command, "cuda_device", lambda: None)
    assert run_command(["profile", "naive", "--device", "gpu"]) == 3
    assert "install Nsight Compute" in capsys.readouterr().err
