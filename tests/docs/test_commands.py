"""Every `gemmsmith …` command in the documentation is one that the command line takes; the quick ones are run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer.main
from pages import PAGES, ROOT, Command, commands

from gemmsmith.cli.app import app
from gemmsmith.cli.main import run_command
from gemmsmith.explain import sampling
from gemmsmith.ladder.registry import rungs
from gemmsmith.learn.worklogs.claim import claims
from gemmsmith.store.database import Results
from gemmsmith.store.recorded import recorded_runs

# The log and the changelog quote commands of their time.
TODAY = [page for page in PAGES if page.parent.name != "log" and page.name != "CHANGELOG.md"]
ALL = {command.text: command for page in TODAY for command in commands(page)}
WHOLE = {text: command for text, command in ALL.items() if len(command.words) > 1}  # else it only names a command
BARE = ("gemmsmith list", "gemmsmith doctor", "gemmsmith history")  # complete as they are, and quick

NEEDS_GPU, SLOW, PLACEHOLDER = "needs a GPU", "takes more than 5 s", "has a name to fill in"
RERUN = "tests/learn/test_claims.py runs it"
WRITES, NEW_RUNG, SHOWN = "overwrites the shipped table", "is about a new rung", "test_shown_output.py runs the same"
# By the words that follow `gemmsmith`; the longest beginning that fits decides.
NOT_RUN = {
    "bench": NEEDS_GPU,
    "tune": NEEDS_GPU,
    "tune --tuning": WRITES,
    "tune --export FILE": PLACEHOLDER,
    "timeline": NEEDS_GPU,
    "warm": SLOW,
    "accuracy": SLOW,
    "accuracy warp_tile --distributions": NEEDS_GPU,
    "accuracy fp32_wgmma_bf16x6": SLOW,
    "check my.cu": SLOW,
    "check kernels": PLACEHOLDER,
    "check 'gemm.cu": PLACEHOLDER,
    "check .": PLACEHOLDER,
    "check tile.cu": SHOWN,
    "explain tile_fixed.cu": SHOWN,
    "explain my.cu": SHOWN,
    "check my_idea": NEW_RUNG,
    "check launches.py": SLOW,
    "verify my_idea": NEW_RUNG,
    "explain my_idea": NEW_RUNG,
    "compare shared_tile my_idea": NEW_RUNG,
    "profile RUNG": PLACEHOLDER,
    "profile warp_tile --trace": SLOW,
    "view": SLOW,
    "show RUNG": PLACEHOLDER,
    "sweep --experiment NAME": PLACEHOLDER,
    "sweep --experiment padding": SLOW,
    "sweep --experiment bk": SLOW,
    "sweep padded": SLOW,
    "sweep rectangular": SLOW,
    "sweep my.cu": SLOW,
    "run auto": SHOWN,
    "sweep warp_tile --vary SIZE": NEEDS_GPU,
    "verify --precision": SLOW,
    "learn grade coalesce.cu": "is not passed by the kernel to start from",
    "worklogs constants": RERUN,
    "worklogs all": RERUN,
    "check kernels/": PLACEHOLDER,
    "check PRINTED.cu": PLACEHOLDER,
    "profile THEIRS.cu": PLACEHOLDER,
    "explain": SLOW,
    "compare": SLOW,
    "climb --times": SLOW,
    "occupancy warp_tile --gpu all": SLOW,
}
NOT_RUN |= {command.run.removeprefix("gemmsmith "): RERUN for claim in claims() for command in claim.commands}
_NAMES = {"RUNG", "auto", "my_idea"}  # in a rung's place
_FOLDERS = {".", "kernels"}  # of a reader's own


def reason(text: str) -> str:
    """Why a command is not run; empty where it is."""
    words = text.removeprefix("gemmsmith ")
    fitting = [start for start in NOT_RUN if words.startswith(start)]
    return NOT_RUN[max(fitting, key=len)] if fitting else ""


def parsed(words: list[str]) -> list[Any]:
    """The contexts of a command line, read as when it is run, down to its subcommand; nothing is executed."""
    command: Any = typer.main.get_command(app)
    contexts: list[Any] = []
    name, rest = "gemmsmith", list(words)
    while True:
        context = command.make_context(name, rest, parent=contexts[-1] if contexts else None)
        contexts.append(context)
        left = [*getattr(context, "_protected_args", []), *context.args]
        if not hasattr(command, "resolve_command") or not left:
            return contexts
        name, command, rest = command.resolve_command(context, left)


@pytest.mark.parametrize("text", ALL)
def test_the_command_line_takes_it(text: str) -> None:
    words = ALL[text].words
    if len(words) == 1:
        group: Any = typer.main.get_command(app)
        assert group.get_command(group.make_context("gemmsmith", words), words[0]) is not None, text
        return
    context = parsed(words)[-1]
    known = {spec.name for spec in rungs()}
    for parameter in context.command.params:
        if "RUNG" in (parameter.metavar or ""):
            given = context.params[parameter.name]
            for name in given if isinstance(given, (list, tuple)) else [given]:
                file = name.partition(":")[0].endswith((".cu", ".cuh", ".py", ".json"))
                assert not name or name in known | _NAMES | _FOLDERS or file, name


@pytest.mark.parametrize("line", ["bench warp_tile --no-such-option", "no-such-command x", "history no-such x"])
def test_a_wrong_command_is_found(line: str) -> None:
    with pytest.raises(Exception, match=r"No such|no such"):
        parsed(line.split())


def test_every_reason_is_still_needed() -> None:
    texts = [text.removeprefix("gemmsmith ") for text in WHOLE]
    for start in NOT_RUN:
        assert any(text.startswith(start) for text in texts), f"no page shows gemmsmith {start}"


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the examples, a kernel my.cu, and a database of two runs; profiles simulate a sixteenth."""
    monkeypatch.setattr(sampling, "BUDGET", sampling.BUDGET // 16)
    folder = ROOT / "docs" / "examples"
    for file in (*folder.glob("*.cu"), *(folder / "any_kernel").glob("*.*")):
        (tmp_path / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "tile_fixed.cu").rename(tmp_path / "my.cu")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GEMMSMITH_DB", str(tmp_path / "results.db"))
    (run,) = recorded_runs()
    with Results.open() as results:
        results.begin(replace(run, id="1" * 32))
        results.begin(replace(run, id="2" * 32))


RUN = [*BARE, *(text for text in WHOLE if not reason(text))]


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize("text", RUN)
def test_it_runs(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(Command("", text).words) == 0, capsys.readouterr().err
    assert capsys.readouterr().out
