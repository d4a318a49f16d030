"""gemmsmith sweep as a command: tables, CSV, JSON, pictures, records, exit codes."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from sweep_samples import FILE, bench, measurement, points, rung

from gemmsmith.cli import sweep_plan
from gemmsmith.cli.commands import sweep as sweep_command
from gemmsmith.cli.main import run_command
from gemmsmith.cli.render.sweep_tables import print_sweep
from gemmsmith.explain.occupancy import curve
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.report.sweep_file import read_sweeps
from gemmsmith.run.contender import Identity
from gemmsmith.store.database import Results
from gemmsmith.store.results import Measurement
from gemmsmith.sweep import measure
from gemmsmith.sweep.axes import parse_axis
from gemmsmith.sweep.experiments import EXPERIMENTS
from gemmsmith.sweep.families import Variant
from gemmsmith.sweep.grid import Point
from gemmsmith.sweep.results import Outcome, Sweep
from gemmsmith.sweep.timing import Entrant, Listener


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.cu"
    path.write_text(FILE)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    got = run_command(["sweep", *arguments])
    seen = capsys.readouterr()
    assert got == code, seen
    return str(seen.out if code in (0, 1) else seen.out + seen.err)


# --- tables


def made(points_: Sequence[Point], *found: tuple[str, dict[str, float]], main: str = "spill_bytes") -> Sweep:
    """A sweep without any run: a state and counters for each point."""
    problem = Problem(64, 64, 64)
    outcomes = tuple(
        Outcome(point, state, () if state == "ok" else (f"{state}, because",),
                Measurement(Identity("k", "rung"), problem, "simulated", True, counters=tuple(counters.items()))
                if counters else None)
        for point, (state, counters) in zip(points_, found, strict=True)
    )  # fmt: skip
    names = [name for name, _ in points_[0].settings]
    axes = [parse_axis(f"{n}={','.join(dict.fromkeys(dict(p.settings)[n] for p in points_))}") for n in names]
    return Sweep("k", "", tuple(axes), outcomes, "simulated", "simulator", "H200", main, "Note.")


def test_a_table_shows_spills_states_and_constant_quantities(capsys: pytest.CaptureFixture[str]) -> None:
    cells: list[tuple[str, dict[str, float]]] = [
             ("ok", {"registers": 128, "smem_bytes": 8192, "spill_bytes": 0}),
             ("ok", {"registers": 64, "smem_bytes": 8192, "spill_bytes": 816}), ("illegal", {}), ("failed", {}),
             ("wrong", {"registers": 40, "smem_bytes": 8192, "spill_bytes": 9999})]  # fmt: skip
    print_sweep(made(points(rung("vectorized"), "MIN_BLOCKS=2,4,5,6,8"), *cells))
    text = capsys.readouterr().out
    assert all(len(line) <= 100 for line in text.splitlines())
    rows = {words[0]: words[1:] for line in text.splitlines() if (words := line.split()) and words[0] in "24568"}
    assert rows["2"] == ["128", "0", "B"]
    assert rows["4"] == ["64", "816", "B", "████████"]  # the wrong point's bytes do not set the scale
    assert rows["5"] == ["–", "–", "illegal"]
    assert rows["6"] == ["–", "–", "failed"]
    assert rows["8"][-1] == "WRONG"
    assert "The same at every point: shared 8.0 KB." in text
    assert "illegal MIN_BLOCKS=5: illegal, because" in text
    assert "wrong MIN_BLOCKS=8: wrong, because" in text


def test_two_parameters_make_a_grid(capsys: pytest.CaptureFixture[str]) -> None:
    four = points(rung("coalesced"), "TILE=8,16", "N=32,64")
    values: list[tuple[str, dict[str, float]]] = [("ok", {"spill_bytes": value}) for value in (1, 2, 3)]
    print_sweep(made(four, *values, ("wrong", {"spill_bytes": 4})))
    lines = capsys.readouterr().out.splitlines()
    at = next(i for i, line in enumerate(lines) if "TILE \\ N" in line)
    assert lines[at].split()[-2:] == ["32", "64"]
    assert [line.split() for line in lines[at + 1 : at + 3]] == [["8", "1", "B", "2", "B"], ["16", "3", "B", "–"]]


# --- on the simulator


def test_padding_removes_bank_conflicts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture, database = tmp_path / "sweep.svg", tmp_path / "results.db"
    text = run(capsys, "padded", "--vary", "PAD=0,4,5", "--device", "sim", "--shapes", "256", "--json", "--plot",
               str(picture), "--db", str(database))  # fmt: skip
    facts = json.loads(text)
    unpadded, padded, illegal = facts["points"]
    assert facts["origin"] == "simulated"
    assert unpadded["values"]["store_conflicts"] == pytest.approx(1 / 3)
    assert padded["values"]["store_conflicts"] == 0
    assert padded["values"]["smem_bytes"] == unpadded["values"]["smem_bytes"] + 8 * 4 * 4
    assert padded["measurement"]["verified"] is True
    assert padded["values"]["occupancy"] == 0.25
    assert padded["values"]["seconds"] is None
    assert (illegal["state"], illegal["measurement"]) == ("illegal", None)
    assert illegal["reasons"] == ["PAD=5 is not one of 0, 1, 4, 8"]
    drawn = ElementTree.parse(picture)
    words = " ".join("".join(node.itertext()) for node in drawn.iter() if node.tag.endswith("text"))
    assert "padded: PAD, simulated" in words
    assert "illegal" in words
    with Results.open(database, read_only=True) as results:
        (kept,) = results.runs()
    assert [m.identity.config.split("PAD=")[1][0] for m in kept.measurements] == ["0", "4"]
    assert {m.origin for m in kept.measurements} == {"simulated"}
    assert kept.measurements[1].counter("store_conflicts") == 0
    assert kept.machine.gpu == ""
    assert len({m.identity.digest for m in kept.measurements}) == 2


def test_points_of_a_file_that_are_wrong_or_do_not_compile_are_results(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    text = run(capsys, str(file), "--vary", "TILE=4,8,12", "--csv", "--device", "sim", "--no-db", "--shapes", "96",
               code=1)  # fmt: skip
    rows = {row["set_TILE"]: row for row in csv.DictReader(io.StringIO(text))}
    assert {tile: row["state"] for tile, row in rows.items()} == {"4": "failed", "8": "ok", "12": "wrong"}
    assert "tiles of 4 are too small" in rows["4"]["reasons"]
    assert "wrong" in rows["12"]["reasons"]
    assert "-DTILE=12" in rows["12"]["reasons"]
    assert rows["12"]["sectors_per_kffma"] == ""
    assert float(rows["8"]["barriers_per_kffma"]) == 250  # two for every eight steps of k


def test_a_sweep_of_which_nothing_compiles_fails(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    text = run(capsys, str(file), "--vary", "TILE=4", "--device", "sim", "--no-db", code=1)
    assert "failed TILE=4: " in text


def test_occupancy_alone_is_predicted_and_not_recorded(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    database = tmp_path / "none.db"
    text = run(capsys, "register_block", "--vary", "registers=32,64,255,300", "--json", "--db", str(database))
    facts = json.loads(text)
    assert facts["origin"] == "predicted"
    here = bench()
    used = here.compiled(Variant(rung_named("register_block"), rung_named("register_block").config(), ""),
                         Problem(64, 64, 64)).resources  # fmt: skip
    expected = curve(here.gpu, "registers", (32, 64, 255, 300), threads=256, registers=used.registers,
                     static_smem=used.static_smem, barriers=used.barriers)  # fmt: skip
    assert [p["values"]["occupancy"] for p in facts["points"]] == [e.occupancy.fraction for e in expected]
    assert facts["points"][3]["limited_by"] == "registers: no block fits"
    assert not database.exists()


def test_shared_memory_set_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "register_block", "--vary", "smem=1024,114688,232448", "--json", "--gpu", "H200")
    values = [p["values"] for p in json.loads(text)["points"]]
    assert [v["smem_bytes"] for v in values] == [1024, 114688, 232448]
    assert [v["blocks_per_sm"] for v in values][1:] == [2, 1]


# --- wrong use

ONE = ("naive", "--vary", "TILE=8")
WRONG = [
    ((), "say what to sweep"),
    (("naive",), "say what to sweep"),
    (("naive", "--vary", "FOO=1"), "it can vary TILE, SIZE"),
    (("naive", "--vary", "TILE=9,12"), "TILE=9 is not one of 8, 16, 32"),
    (("nave", "--vary", "TILE=8"), "did you mean naive"),
    (("naive", "--vary", "TILE=8,16", "--vary", "SIZE=1,2,3", "--max-points", "5"), "2 · 3 = 6 points are more than 5"),
    (("naive", "--config", "FOO=1", "--vary", "TILE=8"), "no parameter FOO"),
    (("no.cu", "--vary", "TILE=8"), "no file no.cu"),
    (("naive", "--experiment", "bk"), "names its kernel"),
    (("--experiment", "none"), "the experiments: thread-tile"),
    ((*ONE, "--device", "tpu"), "unknown device"),
    ((*ONE, "--json", "--csv"), "one of --json and --csv"),
    ((*ONE, "--show", "speed"), "no quantity called 'speed'"),
    ((*ONE, "--device", "sim", "--against", "cublas"), "--against needs a GPU"),
    ((*ONE, "--plot", "x.png"), "not an SVG"),
    ((*ONE, "--plot", "no/x.svg"), "no folder"),
    ((*ONE, "--save", "x.txt"), "not a JSON file"),
    ((*ONE, "--save", "no/x.json"), "no folder"),
    ((*ONE, "--block", "8"), "is a rung"),
    ((*ONE, "--shapes", "0x1x1"), "empty matrix"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[" ".join(a) or "nothing" for a, _ in WRONG])
def test_wrong_use_ends_with_2_and_a_message(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    device = () if "--device" in arguments else ("--device", "sim")
    assert message in run(capsys, *arguments, *device, "--no-db", code=2)


def test_the_list_of_experiments(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "--list")
    assert all(e.name in text for e in EXPERIMENTS)
    listed = json.loads(run(capsys, "--list", "--json"))["experiments"]
    assert [e["name"] for e in listed] == [e.name for e in EXPERIMENTS]


# --- on a GPU, with a measurement that is not one


def test_a_sweep_on_a_gpu_from_the_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The sweep's order is kept although shapes are measured together; times, TFLOPS and ratios are shown."""
    device = SimpleNamespace(name="NVIDIA H200", sms=132, arch="sm_90")
    speeds = {"TILE=8": 4e-6, "TILE=16": 2e-6}

    def timed(entrants: Sequence[Entrant], problem: Problem, note: Listener) -> list[Measurement]:
        note("cublas is fine")
        return [measurement(e.label, problem, speeds[e.label.split()[-1]]) for e in entrants]

    monkeypatch.setattr(sweep_command, "cuda_device", lambda: device)
    monkeypatch.setattr(sweep_plan, "cuda_device", lambda: device)
    monkeypatch.setattr(measure, "gpu_measure", lambda *_: timed)
    arguments = ("coalesced", "--vary", "N=32,64", "--vary", "TILE=8,9,16", "--device", "gpu", "--against", "cublas",
                 "--shapes", "64", "--no-db")  # fmt: skip
    facts = json.loads(run(capsys, *arguments, "--json"))
    assert [p["state"] for p in facts["points"]] == ["ok", "illegal", "ok"] * 2
    assert [p["values"]["seconds"] for p in facts["points"]] == [4e-6, None, 2e-6] * 2
    assert facts["origin"] == "measured"
    text = run(capsys, *arguments, "--save", str(tmp_path / "kept.json"))
    (kept,) = read_sweeps(tmp_path / "kept.json")
    assert (kept.origin, kept.where, kept.parameters) == ("measured", "NVIDIA H200", ("N", "TILE"))
    assert [(p.values, bool(p.illegal)) for p in kept.points[:3]] == [
        (("32", "8"), False), (("32", "9"), True), (("32", "16"), False)]  # fmt: skip
    assert kept.points[2].value == 2 * kept.points[0].value > 0
    assert "sweep coalesced --vary N=32,64" in kept.command
    assert all(len(line) <= 100 for line in text.splitlines())
    assert [line.split()[-1] for line in text.splitlines()[1:3]] == ["of", "TFLOPS"]
    assert "2.0 µs" in text
    assert "50.0%" in text
    assert "note: cublas is fine" in text
    assert "measured (NVIDIA H200)" in text
