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
    """A command on a page, and the lines to leave out: pairs of beginnings, from the first up to the second.

    An empty second means the end. What is left out shows as "…".
    """

    command: str
    exit_code: int
    without: tuple[tuple[str, str], ...] = ()

    def markdown(self) -> str:
        return f"<!-- with {compiler()} -->\n```console\n$ {self.command}\n{self.output()}\n```"

    def output(self) -> str:
        """The lines to show."""
        with tempfile.TemporaryDirectory() as data:
            environment = {**os.environ, "COLUMNS": str(COLUMNS), "NO_COLOR": "1", "TERM": "dumb",
                           "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8", "GEMMSMITH_CURES": "60",
                           "GEMMSMITH_DB": str(Path(data) / "results.db")}  # fmt: skip
            done = subprocess.run([sys.executable, "-m", "gemmsmith", *self.command.split()[1:]], cwd=EXAMPLES,
                                  env=environment, capture_output=True, encoding="utf-8", check=False)  # fmt: skip
        if done.returncode != self.exit_code:
            raise SystemExit(
                f"{self.command} exited {done.returncode}, not {self.exit_code}:\n{done.stdout}{done.stderr}"
            )
        lines = [line.rstrip() for line in done.stdout.rstrip().splitlines()]
        for start, end in self.without:
            first = self._find(lines, start)
            last = self._find(lines, end) if end else len(lines)
            lines = ["\n".join(lines[:first]).rstrip(), "…", *lines[last:]]
            lines = "\n".join(lines).splitlines()
        return "\n".join(lines)

    def _find(self, lines: list[str], start: str) -> int:
        for at, line in enumerate(lines):
            if line.startswith(start):
                return at
        raise SystemExit(f"{self.command}: no line starts with {start!r}; change SHOWN in {Path(__file__).name}")


def compiler() -> str:
    return f"NVRTC {version('nvidia-cuda-nvrtc')}"


def file_block(name: str, language: str) -> str:
    """An example file as a code block."""
    return f"```{language}\n{(EXAMPLES / name).read_text(encoding='utf-8').rstrip()}\n```"


SHOWN = {
    "shown check": Shown("gemmsmith check tile.cu", exit_code=1,
                         without=(("  skipped", "sgemm races"), ("     = nothing", "  the result"), ("not run", ""))),
    "shown explain": Shown("gemmsmith explain tile_fixed.cu --gpu 4090", exit_code=0),
}  # fmt: skip
