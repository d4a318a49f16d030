"""Output of the tool that a page shows: run the command, and put its real output on the page.

The commands run in ``docs/examples`` at 88 columns. ``tests/docs/test_shown_output.py`` runs them again and compares.
Register names and counts depend on the compiler, so its version stands in a comment above the output: with another
compiler the test compares words, not numbers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from doc_tables.records import ROOT

EXAMPLES = ROOT / "docs" / "examples"
COLUMNS = 88


@dataclass(frozen=True)
class Shown:
    """A command on a page. ``until`` ends the excerpt before the first line that starts with it."""

    command: str
    exit_code: int
    until: str = ""

    def markdown(self) -> str:
        return f"<!-- with {compiler()} -->\n```console\n$ {self.command}\n{self.output()}\n```"

    def output(self) -> str:
        """The lines to show; an excerpt ends with "…"."""
        with tempfile.TemporaryDirectory() as data:
            environment = {**os.environ, "COLUMNS": str(COLUMNS), "NO_COLOR": "1", "TERM": "dumb",
                           "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8",
                           "GEMMSMITH_DB": str(Path(data) / "results.db")}  # fmt: skip
            done = subprocess.run([sys.executable, "-m", "gemmsmith", *self.command.split()[1:]], cwd=EXAMPLES,
                                  env=environment, capture_output=True, encoding="utf-8", check=False)  # fmt: skip
        if done.returncode != self.exit_code:
            raise SystemExit(
                f"{self.command} exited {done.returncode}, not {self.exit_code}:\n{done.stdout}{done.stderr}"
            )
        lines = [line.rstrip() for line in done.stdout.rstrip().splitlines()]
        if self.until:
            end = next((at for at, line in enumerate(lines) if line.startswith(self.until)), None)
            if end is None:
                raise SystemExit(
                    f"{self.command}: no line starts with {self.until!r}; change it in {Path(__file__).name}"
                )
            lines = [*"\n".join(lines[:end]).rstrip().splitlines(), "…"]
        return "\n".join(lines)


def compiler() -> str:
    return f"NVRTC {version('nvidia-cuda-nvrtc')}"


def file_block(name: str, language: str) -> str:
    """An example file as a code block."""
    return f"```{language}\n{(EXAMPLES / name).read_text(encoding='utf-8').rstrip()}\n```"


SHOWN = {
    "shown check": Shown("gemmsmith check tile.cu", exit_code=1),
    "shown explain": Shown("gemmsmith explain tile_fixed.cu --gpu 4090", exit_code=0, until="2. "),
}
