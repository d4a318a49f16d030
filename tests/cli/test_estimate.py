"""What a launch will cost: an estimate before a long simulation, a refusal of hours, and progress."""

from __future__ import annotations

import json

import pytest

from gemmsmith.cli import estimate as estimates
from gemmsmith.cli.block_progress import ReportingSimulator
from gemmsmith.cli.commands import run as run_module
from gemmsmith.cli.estimate import check_affordable, duration, estimate, size
from gemmsmith.cli.main import run_command
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import UsageError
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.verify.harness import verify_launch

NAIVE = rung_named("naive")
LARGE = Problem(8192, 8192, 8192)
SMALL = ["--m", "64", "--n", "64", "--k", "8", "--device", "sim"]


def test_the_time_is_multiply_adds_over_the_simulators_rate() -> None:
    found = estimate(NAIVE, NAIVE.config(), LARGE)
    assert found.multiply_adds == 8192**3
    assert found.seconds == 8192**3 / found.rate
    tiled = rung_named("warp_tile")
    assert estimate(tiled, tiled.config(), LARGE).seconds < found.seconds, "many outputs per thread are faster"
    assert estimate(NAIVE, NAIVE.config(), Problem(0, 8, 8)).seconds == 0
    batched = rung_named("warp_tile")
    assert estimate(batched, batched.config(), Problem(64, 64, 64, batch=3)).multiply_adds == 3 * 64**3


def test_hours_are_refused_unless_allowed() -> None:
    with pytest.raises(UsageError, match=r"would take about 5\.1 h: 550 billion multiply-adds at 30 million") as caught:
        check_affordable(NAIVE, NAIVE.config(), LARGE, yes=False)
    assert "--yes" in caught.value.hint
    assert check_affordable(NAIVE, NAIVE.config(), LARGE, yes=True).seconds > 3600
    assert check_affordable(NAIVE, NAIVE.config(), Problem(512, 512, 512), yes=False).seconds < 60


def test_run_refuses_hours_and_says_how_to_allow_them(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "naive", "--m", "8192", "--n", "8192", "--k", "8192", "--device", "sim", "--json"]
    assert run_command(words) == 2
    said = capsys.readouterr()
    assert "5.1 h" in json.loads(said.out)["error"]["message"]
    assert "--yes" in said.err


def test_yes_runs_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "MOST_SECONDS", 1e-9)
    assert run_command(["run", "naive", *SMALL]) == 2
    assert run_command(["run", "naive", *SMALL, "--yes"]) == 0
    assert "ok: naive" in capsys.readouterr().out


def test_a_long_run_says_its_estimate_on_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "_WORTH_SAYING", 0.0)
    assert run_command(["run", "naive", *SMALL, "--json"]) == 0
    said = capsys.readouterr()
    assert said.err == "simulating takes about 1 s: 3.28e-05 billion multiply-adds at 30 million a second\n"
    assert json.loads(said.out)["ok"] is True


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "1 s"), (40, "40 s"), (720, "12 min"), (12600, "3.5 h"),
                                               (3 * 86400, "3 days"), (1e12, "31,710 years")])  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(12, "12 B"), (5 * 2**30, "5 GB"), (96 * 2**60, "96 EB"), (1, "1 B")])
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


def test_progress_counts_blocks_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemmsmith.cli.block_progress._LANES", 2048)
    heard: list[tuple[int, int]] = []
    device = ReportingSimulator(listener=lambda done, blocks: heard.append((done, blocks)))
    problem = Problem(65, 64, 8)
    verdict = verify_launch(device, NAIVE, NAIVE.config(), problem, compile_fn=compile_for, mode="bits")
    assert verdict.trusted, str(verdict)
    assert heard == [(2, 6), (4, 6), (6, 6)]
    heard.clear()
    small = verify_launch(device, NAIVE, NAIVE.config(), Problem(8, 8, 8), compile_fn=compile_for)
    assert small.trusted
    assert heard == [], "a launch that is simulated at once has no progress"
