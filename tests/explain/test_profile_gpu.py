"""profile and compare on a GPU, with a script in place of ncu."""

from __future__ import annotations

import csv
import io
import json
import stat
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from gemmsmith.cli import ncu_profile
from gemmsmith.cli.commands import compare as compare_command
from gemmsmith.cli.commands import profile as profile_command
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.main import run_command
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.cli.options.problem import ProblemOptions
from gemmsmith.cli.subject import find_subject
from gemmsmith.compile.sass import Sass, disassemble
from gemmsmith.explain import ncu
from gemmsmith.explain.metrics import METRICS

SIZE = ["--m", "64", "--n", "64", "--k", "32"]

FAKE_NCU = """#!{python}
import csv, os, sys
if "--import" in sys.argv:
    report = sys.argv[sys.argv.index("--import") + 1]
    page = sys.argv[sys.argv.index("--page") + 1]
    print(open(os.path.join({folder!r}, "source.csv") if page == "source" else report).read())
    sys.exit(0)
at = sys.argv.index("--metrics") + 1
refused = [name for name in sys.argv[at].split(",") if any(word in name for word in {refused!r})]
if refused:
    print("==ERROR== Failed to find metric " + refused[0].partition(".")[0])
    sys.exit(1)
print("==PROF== Connected to process 1")
if "--export" in sys.argv:
    asked = sys.argv[at].split(",")
    with open(sys.argv[sys.argv.index("--export") + 1] + ".ncu-rep", "w") as report:
        rows = csv.writer(report, quoting=csv.QUOTE_ALL)
        rows.writerow(["ID", "Process ID", "Kernel Name", *asked])
        rows.writerow(["", "", "", *("x" for name in asked)])
        rows.writerow(["0", "1", "gemm", *({totals!r}.get(name, "1,000") for name in asked)])
    open({log!r}, "w").write("\\n".join(sys.argv[1:]))
    sys.exit(0)
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


def write_ncu(folder: Path, *refused: str, totals: dict[str, str] | None = None) -> Path:
    """A fake ncu that rejects metrics whose names contain these words; returns the file that logs its arguments."""
    log, program = folder / "arguments", folder / "ncu"
    program.write_text(FAKE_NCU.format(python=sys.executable, log=str(log), refused=refused, folder=str(folder),
                                       totals=totals or {}))  # fmt: skip
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return log


@pytest.fixture
def fake_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    log = write_ncu(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    device = SimpleNamespace(name="NVIDIA H200", arch="sm_90")
    for module in (ncu, ncu_profile, profile_command, compare_command):
        monkeypatch.setattr(module, "cuda_device", lambda: device)
    return log


def test_on_a_gpu_ncu_provides_measured_metrics(fake_gpu: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_metrics_unknown_to_ncu_are_listed_as_absent(fake_gpu: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_an_ncu_without_any_metric_is_an_error(fake_gpu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_ncu(fake_gpu.parent, "__")
    assert run_command(["profile", "naive", *SIZE, "--device", "gpu"]) == 1
    assert "Failed to find metric" in capsys.readouterr().err


def test_one_unknown_metric_does_not_drop_others(fake_gpu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_ncu(fake_gpu.parent, "stalled_membar")
    facts = json.loads(run(capsys, "profile", "naive", *SIZE, "--device", "gpu", "--json"))
    assert [name for name in facts["absent"] if "dram__" not in name] == [METRICS[-1].name]
    assert facts["bytes_used_per_sector"]["load"] == 32


@pytest.mark.usefixtures("fake_gpu")
def test_compare_on_a_gpu_adds_measured_rows(capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(run(capsys, "compare", "naive", "coalesced", "--m", "128", "--n", "128", "--k", "64",
                           "--device", "gpu", "--json"))  # fmt: skip
    measured = {row["name"] for row in facts["rows"] if row["origin"] == "measured"}
    assert {"time, ns", "achieved occupancy, %", "stall: barrier, cycles/instruction"} <= measured


COUNTED = ("Instructions Executed", "Predicated-On Thread Instructions Executed", "L1 Wavefronts Shared",
           "L1 Wavefronts Shared Excessive", "L2 Theoretical Sectors Global", "# Samples", "stall_wait")  # fmt: skip
SPACES = {"LDS": "Shared", "STS": "Shared", "LDG": "Global", "STG": "Global"}


def write_source_page(folder: Path, sass: Sass) -> Counter[str]:
    """The page of a launch in which every instruction ran 10 times, and the executions per opcode."""
    with (folder / "source.csv").open("w") as page:
        rows = csv.writer(page, quoting=csv.QUOTE_ALL)
        rows.writerow(["Kernel Name", "gemm", ""])
        rows.writerow(["Address", "Source", "Address Space", *COUNTED])
        for at in sass.instructions:
            space = SPACES.get(at.base, "-")
            shared, far = space == "Shared", space == "Global"
            rows.writerow([hex(0x7F0000 + at.offset), f"      {at.predicate}   {at.opcode} R1, R2", space, 10, 320,
                           30 * shared, 20 * shared, 40 * far, 1, 1])  # fmt: skip
    return Counter({base: 10 * count for base, count in sass.counts.items()})


@cache
def machine_code() -> Sass:
    shape = ProblemOptions(64, 64, 32)
    return disassemble(find_subject("shared_tile", KernelOptions(), shape, "sm_90", Compiler(None)).compiled)


@pytest.fixture
def with_lines(fake_gpu: Path) -> Counter[str]:
    """A fake ncu with a source page of shared_tile and matching counters."""
    ran = write_source_page(fake_gpu.parent, machine_code())
    waves = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
    far = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
    thread = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
    totals = {
        "smsp__inst_executed.sum": ran.total(),
        "smsp__sass_inst_executed_op_shared_ld.sum": ran["LDS"], waves.format("ld"): 3 * ran["LDS"],
        "smsp__sass_inst_executed_op_shared_st.sum": ran["STS"], waves.format("st"): 3 * ran["STS"],
        "smsp__inst_executed_op_ldgsts.sum": 0, waves.format("ldgsts"): 0,
        "smsp__inst_executed_op_ldsm.sum": 0, waves.format("ldsm"): 0,
        far.format("requests", "ld"): ran["LDG"], far.format("requests", "st"): ran["STG"],
        far.format("sectors", "ld"): 4 * ran["LDG"], far.format("sectors", "st"): 4 * ran["STG"],
        **{thread.format(base.lower()): 32 * ran[base] for base in ("FFMA", "FMUL", "FADD")},
    }  # fmt: skip
    write_ncu(fake_gpu.parent, totals={name: f"{value:,}" for name, value in totals.items()})
    return ran


LINES = ["profile", "shared_tile", *SIZE, "--device", "gpu", "--lines"]


def test_lines_on_a_gpu_have_the_simulators_names_and_add_up(
    fake_gpu: Path, with_lines: Counter[str], capsys: pytest.CaptureFixture[str]
) -> None:
    facts = json.loads(run(capsys, *LINES, "--json"))
    assert facts["origin"] == "measured"
    assert len(facts["line_sums"]) == 15
    assert [made for made in facts["line_sums"] if not made["equal"]] == []
    loads = "smsp__sass_inst_executed_op_shared_ld.sum"
    assert sum(line.get(loads, 0) for line in facts["lines"]) == facts["metrics"][loads]["value"] == with_lines["LDS"]
    assert sum(line["executed"] for line in facts["lines"]) == with_lines.total()
    assert all(line["stalls"] == {"wait": line["samples"]} for line in facts["lines"])
    asked = fake_gpu.read_text().splitlines()
    assert asked[asked.index("--section") + 1] == "SourceCounters"
    simulated = json.loads(run(capsys, "profile", "shared_tile", *SIZE, "--device", "sim", "--json"))
    assert simulated.keys() == facts.keys()
    assert [line for line in simulated["lines"] if "samples" in line or "stalls" in line] == []
    both = {(line["file"], line["line"]) for line in simulated["lines"] if line["text"]}
    assert both & {(line["file"], line["line"]) for line in facts["lines"] if line["text"]} != set()


@pytest.mark.usefixtures("with_lines")
def test_lines_on_a_gpu_as_text_and_csv(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, *LINES)
    assert narrow(text)
    heading = next(line for line in text.splitlines() if line.startswith("line"))
    assert heading.split() == ["line", "executed", "sectors", "waves", "excess", "samples", "stall", "|", "source"]
    assert "Sums over lines equal the launch's own counters (14 compared)" in text
    assert "memory_l2_theoretical_sectors_global" in text
    rows = list(csv.DictReader(io.StringIO(run(capsys, *LINES, "--csv"))))
    assert {"derived__memory_l1_wavefronts_shared_excessive", "samples", "top_stall"} <= rows[0].keys()
    assert {row["top_stall"] for row in rows} == {"wait"}
    assert list(rows[0])[-1] == "text"
    simulated = run(capsys, "profile", "shared_tile", *SIZE, "--device", "sim", "--lines")
    assert "conflicts" in simulated
    assert "samples" not in simulated


def test_lines_that_do_not_add_up_are_reported(
    fake_gpu: Path, with_lines: Counter[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write_ncu(fake_gpu.parent, totals={"smsp__inst_executed.sum": f"{with_lines.total()}"})
    text = run(capsys, *LINES)
    assert narrow(text)
    assert "differ from the launch's own counters in 13 of 14" in text
    assert f"shared load requests: lines {with_lines['LDS']:,}, launch 1,000" in text


@pytest.mark.usefixtures("with_lines")
def test_lines_of_different_machine_code_are_refused(fake_gpu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = fake_gpu.parent / "source.csv"
    page.write_text(page.read_text().replace(" FFMA ", " DFMA ", 1))
    assert run_command(LINES) == 1
    assert "different machine code" in capsys.readouterr().err
    page.write_text("==ERROR== no source\n")
    assert run_command(LINES) == 1
    assert "1 launches but 0 source pages" in capsys.readouterr().err


@pytest.mark.usefixtures("with_lines")
def test_unknown_metrics_do_not_prevent_lines(fake_gpu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_ncu(fake_gpu.parent, "stalled_membar")
    facts = json.loads(run(capsys, *LINES, "--json"))
    assert facts["absent"] == [METRICS[-1].name]
    assert facts["lines"]


@pytest.mark.usefixtures("fake_gpu")
def test_samples_are_refused_on_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "profile", "naive", *SIZE, "--device", "gpu", "--sample", "4", code=2)


def test_a_missing_ncu_exits_with_3_and_install_instructions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu_profile, "cuda_device", lambda: None)
    assert run_command(["profile", "naive", "--device", "gpu"]) == 3
    assert "install Nsight Compute" in capsys.readouterr().err
