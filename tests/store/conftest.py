"""A database for each test, and `gemmsmith history` upon it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.main import run_command


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a database that does not exist yet; every command finds it through the environment."""
    monkeypatch.setenv("GEMMSMITH_DB", str(tmp_path / "data" / "results.db"))
    return tmp_path / "data" / "results.db"


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command; returns exit code, stdout and stderr. Only lines with a path may be wide."""

    def command(*arguments: str) -> tuple[int, str, str]:
        code = run_command(["history", *arguments])
        text = capsys.readouterr()
        assert "--json" in arguments or all(len(line) <= 100 or "/" in line for line in text.out.splitlines())
        return code, text.out, text.err

    return command
