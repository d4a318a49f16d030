"""gemmsmith report: which timings and sweeps go into the page, their origins, and wrong use."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from measured_runs import measurement as any_measurement
from measured_runs import run as made_run
from report_sample import run as sample_run
from report_sample import sweeps

from gemmsmith.bench.machine import machine_facts
from gemmsmith.cli import ladder
from gemmsmith.cli.commands import report
from gemmsmith.cli.main import run_command
from gemmsmith.cli.rung import collect_rung
from gemmsmith.ladder.registry import rungs
from gemmsmith.problem import TF32, Problem
from gemmsmith.report.collect import CollectedRung
from gemmsmith.report.sweep_file import save_sweep
from gemmsmith.store.database import Results
from gemmsmith.store.results import Measurement, Run

NAMES = [spec.name for spec in rungs()[:2]]
Report = Callable[..., dict[str, Any]]
gather = cache(collect_rung)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two rungs, counted once in this process; none of the package's runs and sweeps; a folder of its own."""

    def here(jobs: list[Any]) -> Iterator[CollectedRung]:
        return (gather(*job) for job in jobs)

    monkeypatch.setattr(ladder, "rungs_for", lambda _: rungs()[:2])
    monkeypatch.setattr(ladder, "_in_parallel", here)
    monkeypatch.setattr(ladder, "recorded_sweeps", lambda: ())
    monkeypatch.setattr(report, "recorded_runs", lambda: ())
    monkeypatch.setenv("GEMMSMITH_DB", str(tmp_path / "runs.db"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Report:
    def run(*arguments: str) -> dict[str, Any]:
        assert run_command(["report", "--json", *arguments]) == 0, capsys.readouterr().err
        facts: dict[str, Any] = json.loads(capsys.readouterr().out)
        return facts

    return run


def keep(*runs: Run) -> None:
    with Results.open() as results:
        for one in runs:
            results.begin(one)


def measurement(name: str = "naive", *arguments: Any, **changes: Any) -> Measurement:
    """In the rung's own configuration, so that it is the ladder's."""
    own = {spec.name: str(spec.config()) for spec in rungs()}.get(name, "")
    return any_measurement(name, *arguments, **({"identity": {"config": own}} | changes))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has an H200."""
    monkeypatch.setattr(report, "gpu_available", lambda: True)
    monkeypatch.setattr(report, "device_count", lambda: 1)
    monkeypatch.setattr(report, "cuda_device", lambda _: SimpleNamespace(name="NVIDIA H200"))


def here(run: Run) -> Run:
    now = machine_facts()
    return replace(run, machine=replace(run.machine, host=now.host, system=now.system, cpu=now.cpu))


def test_without_a_run_the_page_has_counts_and_what_comes_with_the_package(
    say: Report, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    facts = say("--size", "32")
    assert (facts["rungs"], facts["runs"], facts["sweeps"], facts["size"]) == (NAMES, [], [], 32)
    assert (facts["page"], facts["counts"], facts["gpu"]) == ("report.html", "simulated", "H200")
    assert facts["command"] == "gemmsmith report --size 32"
    assert "Two rungs" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not (tmp_path / "runs.db").exists(), "reading makes no database"
    packaged = sample_run(("naive", "coalesced"), (512,))
    monkeypatch.setattr(report, "recorded_runs", lambda: (packaged,))
    monkeypatch.setattr(ladder, "recorded_sweeps", sweeps)
    facts = say()
    assert [(r["id"], r["origin"], r["rung_timings"]) for r in facts["runs"]] == [("invented-1", "recorded", 2)]
    assert [s["origin"] for s in facts["sweeps"]] == ["recorded", "recorded"]
    assert facts["size"] == 512, "the largest that was timed"
    assert "recorded on H200" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("gpu")
def test_the_latest_run_that_timed_a_rung_is_taken(say: Report) -> None:
    keep(
        here(made_run("old", measurement("naive", size=32), day=1)),
        here(made_run("good", measurement("naive", size=32), measurement("coalesced", 50, 32), day=2)),
        here(made_run("library", measurement("cublas", size=32, kind="baseline"), day=3)),
        here(made_run("file", measurement("mine.cu", size=32, kind="user"), day=4)),
        here(made_run("wrong", measurement("naive", size=32, rejected="above the roofline"), day=5)),
        here(made_run("counted", measurement("naive", size=32, origin="simulated"), day=6)),
        here(made_run("empty", day=7)),
    )
    facts = say()
    assert [(r["id"], r["origin"], r["rung_timings"]) for r in facts["runs"]] == [("good", "measured", 2)]
    assert facts["size"] == 32
    assert [r["id"] for r in say("--run", "ol")["runs"]] == ["old"]


def test_a_run_of_another_machine_is_recorded_and_its_gpu_is_the_one_of_the_page(say: Report) -> None:
    timed = made_run("there", measurement("naive", size=32), measurement("naive", size=64))
    keep(replace(timed, machine=replace(timed.machine, gpu="NVIDIA GeForce RTX 4090")))
    facts = say("--run", "latest")
    assert [r["origin"] for r in facts["runs"]] == ["recorded"]
    assert (facts["gpu"], facts["size"]) == ("RTX 4090", 64)
    assert say("--gpu", "A100", "--size", "32")["gpu"] == "A100"


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("fact", ["host", "system", "cpu", "gpu"])
def test_measured_here_needs_the_same_machine(say: Report, fact: str) -> None:
    timed = here(made_run("one", measurement("naive", size=32)))
    keep(replace(timed, machine=replace(timed.machine, **{fact: "another"})))
    assert [r["origin"] for r in say()["runs"]] == ["recorded"]


def test_measured_here_needs_a_gpu_now(say: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "gpu_available", lambda: False)
    keep(here(made_run("one", measurement("naive", size=32))))
    assert [r["origin"] for r in say()["runs"]] == ["recorded"]


def test_a_run_of_another_type_is_shown_only_on_request_and_never_as_the_rungs(say: Report, tmp_path: Path) -> None:
    other = measurement("naive", size=32, problem=Problem(32, 32, 32, dtype=TF32, trans_b=True))
    keep(made_run("good", measurement("naive", size=64), day=1), made_run("tf32", other, day=2))
    assert [r["id"] for r in say()["runs"]] == ["good"]
    assert [(r["id"], r["rung_timings"]) for r in say("--run", "tf32", "--size", "32")["runs"]] == [("tf32", 0)]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "naive at 32x32x32 tf32 NT" in page
    assert "Other timings" in page


def test_saved_sweeps_are_added_and_a_timed_one_is_recorded(say: Report, tmp_path: Path) -> None:
    one, two = sweeps()
    save_sweep(tmp_path / "one.json", replace(one, origin="measured"))
    save_sweep(tmp_path / "two.json", replace(two, origin="simulated"))
    facts = say("--size", "32", "--sweep", "one.json", "--sweep", "two.json")
    assert [(s["title"], s["origin"]) for s in facts["sweeps"]] == [(one.title, "recorded"), (two.title, "simulated")]
    assert one.title in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "--sweep one.json --sweep two.json" in facts["command"]


@pytest.mark.usefixtures("gpu")
def test_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    keep(here(made_run("good", measurement("naive", size=32))))
    assert run_command(["report", "--html", "mine.html"]) == 0
    text = capsys.readouterr().out
    assert "mine.html: 2 rungs at 32³ for H200" in text
    assert "measured: run good of 2026-11-15 on NVIDIA H200, 1 timings of rungs" in " ".join(text.split())
    assert "nothing was verified or timed now" in text
    assert all(len(line) <= 100 for line in text.splitlines())


@pytest.mark.parametrize(("arguments", "message"), [
    (["--size", "-1"], "--size -1 is not positive"), (["--html", "no/page.html"], "there is no folder no"),
    (["--html", "."], "is a folder"), (["--sweep", "none.json"], "cannot read none.json"),
    (["--run", "nonsuch"], "nonsuch"), (["--run", "lib"], "timed no rung"), (["--gpu", "Voodoo"], "unknown GPU"),
])  # fmt: skip
def test_wrong_use_ends_with_2_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], message: str
) -> None:
    keep(made_run("library", measurement("cublas", size=32, kind="baseline")))
    assert run_command(["report", *arguments]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.err.startswith("error: ")
    assert said.out == ""
    assert not list(tmp_path.glob("*.html"))


def test_a_page_that_cannot_be_written_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ladder, "write_page", full)
    assert run_command(["report", "--size", "32"]) == 2
    assert capsys.readouterr().err == "error: cannot write report.html: No space left on device\n"
