"""Bad values at every option of every command: a message and an exit code, no traceback, no hang, nothing written."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from thrown_values import BASES, Thrown, commands, furnish, import_everything, run_in_child, thrown

ALL = thrown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if "jax" in sys.modules:  # by collecting tests/gpu, where JAX is installed
        pytest.skip("commands run in forks of this process, and JAX has threads: run this file alone")
    made = tmp_path_factory.mktemp("thrown") / "work"
    made.mkdir()
    furnish(made)
    import_everything()
    return made


def kept(folder: Path) -> dict[str, bytes]:
    """The contents of the files that were there before."""
    return {name: (folder / name).read_bytes() for name in ("mine.cu", "binary.cu", "empty.cu")}


def test_every_command_has_a_base() -> None:
    assert {name for name, _ in commands()} == set(BASES), "add a quick, right command line for a new command"


@pytest.mark.parametrize("each", ALL, ids=str)
def test_bad_values(each: Thrown, folder: Path) -> None:
    before = kept(folder)
    faults = []
    for kind, words in each.lines():
        ended = run_in_child(words, folder)
        if fault := ended.fault():
            faults.append(f"{kind}: {fault}\n{ended.err[-1500:]}")
    assert not faults, "\n".join(faults)
    assert kept(folder) == before


@pytest.mark.parametrize("command", sorted(set(BASES) - {"climb", "verify", "timeline"}))
def test_a_stdout_that_is_closed_or_full(command: str, folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        for stdout in (writer, full):
            ended = run_in_child([*command.split(), *BASES[command], "--json"], folder, stdout)
            assert not ended.fault(), ended.err[-1500:]
    finally:
        os.close(writer)
        os.close(full)
        shutil.rmtree(folder / "report.html", ignore_errors=True)
