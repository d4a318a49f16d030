"""Commands run in the test's own process."""

from __future__ import annotations

import pytest
from command_output import Said, Say

from gemmsmith.cli.main import run_command


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Runs a command in this process."""

    def run(*arguments: str) -> Said:
        code = run_command(arguments)
        text = capsys.readouterr()
        return Said(code, text.out, text.err)

    return run
