"""Run the evidence on a claim of a worklog: our own commands, in a folder with the claim's kernels."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from gemmsmith.errors import UsageError
from gemmsmith.learn.worklogs.claim import KERNELS, Claim, Command


@dataclass(frozen=True)
class Shown:
    """A command that was run. ``lines`` are what shows the claim; ``missing`` says what it lacks, empty if nothing."""

    command: Command
    exit: int
    lines: tuple[str, ...]
    missing: str

    @property
    def ok(self) -> bool:
        return not self.missing


def run_evidence(claim: Claim) -> Iterator[Shown]:
    """Each command's result, as soon as it is known."""
    with tempfile.TemporaryDirectory(prefix="gemmsmith-worklogs-") as folder:
        save_kernels(claim, Path(folder))
        for command in claim.commands:
            with chdir(folder):
                yield _run(command)


def _run(command: Command) -> Shown:
    from gemmsmith.cli.main import run_command

    with redirect_stdout(io.StringIO()) as printed, redirect_stderr(printed):
        code = run_command(command.words)
    text = printed.getvalue()
    return Shown(command, code, tuple(command.lines(text)), command.missing(code, text))


def save_kernels(claim: Claim, folder: Path, force: bool = True) -> list[Path]:
    """Write the claim's files to ``folder``; their paths. Without ``force`` no file of the reader's is overwritten."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", "make it first, or name another one after --save")
    written = []
    for name in claim.files:
        path, text = folder / name, KERNELS.joinpath(name).read_text(encoding="utf-8")
        if path.exists() and not force and (not path.is_file() or path.read_text(encoding="utf-8") != text):
            raise UsageError(f"{path} is there already, and is another file", "name another folder after --save")
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written
