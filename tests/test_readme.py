"""What the README shows works as it is written."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command
from gemmsmith.run.cuda import gpu_available

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\| `(gemmsmith [^`]*)` \|", README, re.M)


def test_the_python_example_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
    script = tmp_path / "example.py"
    script.write_text(code + "\nassert c.shape == (96, 80)\n", encoding="utf-8")
    import subprocess
    import sys

    subprocess.run([sys.executable, str(script)], check=True)


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 8


@pytest.mark.parametrize("command", [c for c in COMMANDS if not re.search(r"my\.(cu|py)|…|\\\||RUNG", c)])
def test_a_command_runs(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(re.sub(r"\[.*?\]", "", command))[1:]
    if words[0] in ("climb", "report"):
        words += ["--size", "32"]
    if words[0] == "tune":  # there is nothing to time without a GPU, and the command says so
        assert run_command(words) == (0 if gpu_available() else 3)
        return
    assert run_command(words) == 0
    assert capsys.readouterr().out


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).is_file(), target
