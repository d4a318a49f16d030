"""`timeline`: the traced process, with fakes of the three tools, and the command."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from timeline_sample import FAKES, FILL, RUN, ordered

from gemmsmith.cli.main import run_command
from gemmsmith.cli.render.timeline_tables import amount
from gemmsmith.errors import LaunchError, MissingDeviceError, UsageError
from gemmsmith.trace.timeline import API, tables
from gemmsmith.trace.tools import child
from gemmsmith.trace.tools.record import ToolNotStartedError, record, usable
from gemmsmith.trace.tools.target import Target

CUPTI_SCRIPT = f"""
from cupti import cupti as c
k = c.ActivityKind
c.call(k.RUNTIME, 41, 1_000_000, 1_008_500, 11)
c.call(k.RUNTIME, 51, 1_010_000, 1_014_000, 12)
c.call(k.DRIVER, 307, 1_020_000, 1_025_250, 13)
c.call(k.DRIVER, 307, 1_030_000, 1_032_750, 14)
c.copy(1, 4194304, 1_004_000, 1_007_125, 11)
c.fill(1024, 1_012_000, 1_013_000, 12)
c.kernel("gemm", 1_024_000, 1_059_250, 13, (8, 8, 1), (256, 1, 1), 128, 7)
c.kernel({FILL!r}, 1_030_500, 1_033_000, 14, (64, 1, 1), (128, 1, 1), 18, 9)
c.kernel("unfinished", 1_040_000, 0, 15, (1, 1, 1), (1, 1, 1), 1, 7)
"""
Install = Callable[..., None]


@pytest.fixture(name="install")
def _install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Install:
    """Install fakes in place of the real tools, for this process and its children."""
    empty = tmp_path / "no-tools"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))

    def install(*names: str) -> None:
        folders = [str(FAKES / f"with_{name}") for name in names]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(folders))
        # The fake nsys finds Python on PATH.
        monkeypatch.setenv("PATH", os.pathsep.join([*folders, str(Path(sys.executable).parent), "/usr/bin"]))
        for folder in folders:
            monkeypatch.syspath_prepend(folder)

    return install


def script(folder: Path, text: str, name: str = "program.py") -> Target:
    path = folder / name
    path.write_text(text)
    return Target("script", str(path), ())


@pytest.mark.parametrize("tool", ["cupti", "torch", "nsys"])
def test_each_tool_records_the_same_run(install: Install, tmp_path: Path, tool: str) -> None:
    install(tool)
    target = script(tmp_path, CUPTI_SCRIPT if tool == "cupti" else "print('ran')\n")
    found = record(target, [tool], quiet=True)
    events = tuple(replace(e, process=4242) if e.kind == API else e for e in found.events)
    assert ordered(events) == ordered(RUN)
    assert (found.tool, found.exit_code) == (tool, 0)
    assert found.wall > 0
    assert bool(found.notes) == (tool == "torch")


def test_warnings_of_torchs_profiler_do_not_reach_the_user(
    install: Install, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    install("torch")
    record(script(tmp_path, "import warnings; warnings.warn('mine')"), ["torch"])
    said = capfd.readouterr().err
    assert "mine" in said
    assert "cycle" not in said
    assert "stopping" not in said


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [("import sys; sys.exit()", 0, ""), ("raise SystemExit(5)", 5, ""), ("raise SystemExit('why')", 1, "why"),
     ("raise KeyboardInterrupt", 130, ""), ("not valid python", 1, "SyntaxError")],
)  # fmt: skip
def test_exit_codes_are_pythons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], text: str, code: int, said: str
) -> None:
    monkeypatch.setattr("sys.argv", [])
    monkeypatch.setattr("sys.path", [*sys.path])
    assert child.main(["nsys", str(tmp_path), script(tmp_path, text).name]) == code
    assert json.loads((tmp_path / child.STATUS).read_text())["exit_code"] == code
    err = capfd.readouterr().err
    assert said in err
    assert "Traceback" not in err


def test_a_program_that_fails_is_still_recorded(
    install: Install, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    install("cupti")
    found = record(script(tmp_path, CUPTI_SCRIPT + "1 / 0"), ["cupti"])
    assert (found.exit_code, len(found.events)) == (1, len(RUN))
    err = capfd.readouterr().err
    assert "ZeroDivisionError" in err
    assert "program.py" in err
    assert "runpy" not in err
    assert "tracing" not in err


def test_a_program_that_ends_abruptly_is_an_error(install: Install, tmp_path: Path) -> None:
    install("cupti")
    with pytest.raises(LaunchError, match=r"a signal \(9\) before the records of cupti could be written"):
        record(script(tmp_path, "import os; os.kill(os.getpid(), 9)"), ["cupti"])


def test_the_program_sees_its_own_words_and_folder(install: Install, tmp_path: Path) -> None:
    install("cupti")
    (tmp_path / "beside.py").write_text("HERE = 1\n")
    out = tmp_path / "out.json"
    text = (
        "import sys, json, beside\n"
        "assert __name__ == '__main__'\n"
        f"open({str(out)!r}, 'w').write(json.dumps(sys.argv))\n"
    )
    target = replace(script(tmp_path, text), arguments=("--json", "-m", "--", "x y"))
    assert record(target, ["cupti"]).exit_code == 0
    assert json.loads(out.read_text()) == [target.name, "--json", "-m", "--", "x y"]


def test_a_bench_under_a_profiler_stays_out_of_the_users_results(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("cupti")
    monkeypatch.setenv("GEMMSMITH_DB", str(tmp_path / "mine.db"))
    commands = [*record_calls(monkeypatch, Target("command", "gemmsmith", ("list",)))]
    assert commands == [False]
    assert [*record_calls(monkeypatch, script(tmp_path, ""))] == [True]


def record_calls(monkeypatch: pytest.MonkeyPatch, target: Target) -> Iterator[bool]:
    """Whether each started process would write to the user's database."""
    seen = []

    def popen(_: list[str], **options: Any) -> Any:
        seen.append(options["env"]["GEMMSMITH_DB"] == os.environ["GEMMSMITH_DB"])
        return SimpleNamespace(wait=lambda: 0)

    with monkeypatch.context() as patch:
        patch.setattr("subprocess.Popen", popen)
        with pytest.raises(LaunchError):
            record(target, ["cupti"])
    yield from seen


def test_the_programs_threads_are_joined(install: Install, tmp_path: Path) -> None:
    install("cupti")
    text = (
        "import threading, time\n"
        "def work():\n"
        "    time.sleep(0.2)\n"
        + "".join(f"    {line}\n" for line in CUPTI_SCRIPT.strip().splitlines())
        + "threading.Thread(target=work).start()\n"
    )
    assert len(record(script(tmp_path, text), ["cupti"]).events) == len(RUN)


def test_auto_takes_the_next_tool_when_one_does_not_start(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("cupti", "torch")
    assert usable("auto") == ["cupti", "torch"]
    monkeypatch.setenv("FAKE_CUPTI_FAILS", "1")
    count = tmp_path / "count"
    target = script(tmp_path, f"open({str(count)!r}, 'a').write('x')")
    found = record(target, ["cupti", "torch"])
    assert found.tool == "torch"
    assert "CUPTI_ERROR_NOT_INITIALIZED" in found.notes[0]
    assert count.read_text() == "x", "the program ran more than once, or not at all"
    monkeypatch.setenv("FAKE_TORCH_CPU", "1")
    with pytest.raises(ToolNotStartedError, match="without a CUDA profiler"):
        record(target, ["cupti", "torch"])
    assert count.read_text() == "x"


def test_missing_tools_are_named(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    del install  # nothing is on PATH
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    for tool, message in (("auto", "none of"), ("cupti", "cupti is not"), ("torch", "torch is not"), ("nsys", "nsys")):
        with pytest.raises(MissingDeviceError, match=message) as caught:
            usable(tool)
        assert caught.value.exit_code == 3
        assert caught.value.hint
    with pytest.raises(UsageError, match="unknown tool"):
        usable("nvprof")


# ── the command ──


@pytest.fixture(name="gpu")
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemmsmith.cli.commands.timeline.device_count", lambda: 1)
    monkeypatch.setattr("gemmsmith.cli.commands.timeline.cuda_device", lambda: SimpleNamespace(
        name="NVIDIA Test", arch="sm_90", driver_version="13.0"))  # fmt: skip


@pytest.mark.usefixtures("gpu")
def test_json_is_clean_and_complete(install: Install, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    install("cupti")
    target = script(tmp_path, CUPTI_SCRIPT + "print('the program speaks')\nimport sys; sys.exit(7)")
    file = tmp_path / "t.json"
    assert run_command(["timeline", "--json", "--trace", str(file), target.name, "--csv"]) == 1
    out, err = capfd.readouterr()
    found = json.loads(out)
    assert "the program speaks" in err
    assert "exit code 7" in err
    assert (found["exit_code"], found["tool"], found["origin"]) == (7, "cupti", "measured")
    assert (found["machine"]["gpu"], type(found["machine"]["packages"])) == ("NVIDIA Test", dict)
    assert found["program"] == [target.name, "--csv"]
    assert [t["report"] for t in found["tables"]] == [t.key for t in tables(RUN)]
    assert found["tables"][1]["rows"][0]["name"] == "gemm"
    assert found["totals_ns"]["kernels"] == 37_750
    assert len([e for e in json.loads(file.read_text())["traceEvents"] if e["ph"] == "X"]) == len(RUN)


@pytest.mark.usefixtures("gpu")
def test_tables_fit_the_width_and_warn(install: Install, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    install("cupti")
    more = 'c.kernel("gemm", 2_000_000, 2_500_000, 16, (32, 32, 1), (256, 1, 1), 128, 7)\nprint("hello")\n'
    target = script(tmp_path, CUPTI_SCRIPT + more)
    assert run_command(["timeline", "--top", "1", target.name]) == 0
    out, err = capfd.readouterr()
    assert "hello" in out
    assert err == ""
    assert max(len(line) for line in out.splitlines() if "program.py" not in line) <= 100
    assert "warning: gemm: min, max and deviation mix 2 grids: 32×32×1 (1×, median 500.0 µs)" in " ".join(out.split())
    assert "1 more rows: --top 0" in out
    assert "--by-grid" in out


@pytest.mark.usefixtures("gpu")
def test_csv_has_one_row_per_name(install: Install, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    install("cupti")
    assert run_command(["timeline", "--csv", "--by-grid", script(tmp_path, CUPTI_SCRIPT).name]) == 0
    rows = list(csv.DictReader(io.StringIO(capfd.readouterr().out)))
    assert len(rows) == 3 + 2 + 2 + 2
    gemm = next(row for row in rows if row["name"] == "gemm")
    assert (gemm["count"], gemm["total"], gemm["grid"], gemm["block"]) == ("1", "35250", "8x8x1", "256x1x1")


@pytest.mark.usefixtures("gpu")
def test_commands_of_gemmsmith_and_modules(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    install("cupti")
    assert run_command(["timeline", "--", "list", "--json"]) == 0
    out = capfd.readouterr().out
    assert '"warp_tile"' in out
    assert "gave the GPU nothing to do" in out
    assert run_command(["timeline", "--json", "--", "show", "no_such_rung"]) == 2
    out, err = capfd.readouterr()
    assert json.loads(out)["exit_code"] == 2
    assert "no_such_rung" in err
    assert run_command(["timeline", "-m", "json.tool", "--help"]) == 0
    assert "usage" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "nothing to run"),
        (["run"], 2, "gemmsmith timeline -- run"),
        (["no.py"], 2, "there is no script no.py"),
        (["--json", "--csv", __file__], 2, "choose one"),
        (["--top", "-1", __file__], 2, "negative"),
        (["--tool", "nvprof", __file__], 2, "unknown tool"),
        (["--trace", "no/such/folder/t.json", __file__], 2, "there is no folder"),
        (["--unknown", __file__], 2, "--unknown"),
        (["--tool"], 2, "--tool"),
    ],
)
def test_wrong_use(words: list[str], code: int, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command(["timeline", *words]) == code
    out, err = capfd.readouterr()
    assert out == "" or json.loads(out)["error"]["exit_code"] == code
    assert message in err
    assert "Traceback" not in err


def test_without_a_gpu_the_command_says_so(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def none() -> int:
        raise MissingDeviceError("no NVIDIA driver on this machine", "use --device sim")

    monkeypatch.setattr("gemmsmith.cli.commands.timeline.device_count", none)
    assert run_command(["timeline", __file__]) == 3
    err = capfd.readouterr().err
    assert "no NVIDIA driver" in err
    assert "--device sim" not in err, "timeline has no such option"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(0, "ns", "0"), (8, "ns", "8 ns"), (8.25, "ns", "8.250 ns"), (1_234, "ns", "1.234 µs"), (56_700, "ns", "56.70 µs"),
     (999_900, "ns", "999.9 µs"), (1_000_000, "ns", "1.000 ms"), (12_345_678_901, "ns", "12.35 s"),
     (4_194_304, "bytes", "4.194 MB"), (12, "bytes", "12 B"), (1234e9, "ns", "1234 s")],
)  # fmt: skip
def test_amounts(value: float, unit: str, text: str) -> None:
    assert amount(value, unit) == text
    assert not math.isnan(value)
