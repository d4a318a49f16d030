"""gemmsmith check FOLDER: every kernel of a repository, each checked by a process of its own.

A process per kernel keeps a crash, a hang or a leak of one kernel from the others, and uses all cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmsmith.cli.render.findings import Checked, checked
from gemmsmith.errors import GemmsmithError, UsageError

_SUFFIXES = {".cu", ".cuh", ".cuda", ".h", ".hpp", ".hh", ".hxx", ".inl", ".inc"}
_NOT_SEARCHED = {"build", "node_modules", "third_party", "external", "__pycache__"}
_LARGEST_FILE = 4 << 20
_SPARE_S = 60  # beyond the time that a check gives itself, for compiling


@dataclass(frozen=True)
class KernelPlace:
    """A kernel of a repository; ``error`` says why its file could not be read."""

    file: Path
    entry: str
    line: int
    error: str = ""


def kernels_in(folder: Path) -> Iterator[KernelPlace]:
    """The kernels of all source files below ``folder``, in order; hidden and build folders are left out."""
    from gemmsmith.userfile.source import read_source_file

    for file in _source_files(folder):
        try:
            found = read_source_file(file).kernels
        except GemmsmithError as error:
            yield KernelPlace(file, "", 0, error.message)
            continue
        yield from (KernelPlace(file, kernel.qualified, kernel.line) for kernel in found)


def _source_files(folder: Path) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NOT_SEARCHED and not name.startswith("."))
        for name in sorted(files):
            path = Path(here, name)
            if path.suffix in _SUFFIXES and path.stat().st_size <= _LARGEST_FILE and b"__global__" in path.read_bytes():
                yield path


def check_all(
    kernels: Sequence[KernelPlace],
    options: Sequence[str],
    *,
    seconds: float,
    jobs: int,
    done: Callable[[Checked], None] = lambda _: None,
) -> list[Checked]:
    """Check each kernel with these further ``options`` in at most ``seconds``; ``done`` is told of each result."""
    if not kernels:
        raise UsageError("no __global__ function was found", "give a folder with .cu, .cuh or .h files")

    def one(kernel: KernelPlace) -> Checked:
        result = check_apart(kernel, options, seconds)
        done(result)
        return result

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, kernels))


def check_apart(kernel: KernelPlace, options: Sequence[str], seconds: float) -> Checked:
    """Check one kernel in a process of its own."""
    if kernel.error:
        return checked(kernel.file, "", _error(kernel.error))
    words = ["check", str(kernel.file), "--entry", kernel.entry, "--json", *options]
    start = time.monotonic()
    try:
        report = _report([sys.executable, "-m", "gemmsmith", *words], seconds + _SPARE_S)
    except subprocess.TimeoutExpired:
        report = _error(f"not finished after {seconds + _SPARE_S:.0f} s")
    took = time.monotonic() - start
    return checked(kernel.file, kernel.entry, report, line=kernel.line, seconds=took)


def _report(command: Sequence[str], seconds: float) -> dict[str, Any]:
    """The JSON object that a check prints; what it said last if it printed none."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    try:
        found: dict[str, Any] = json.loads(ended.stdout)
    except json.JSONDecodeError:
        return _error(_last_line(ended.stderr))
    return found


def _error(message: str) -> dict[str, Any]:
    return {"error": {"kind": "CheckError", "message": message, "hint": ""}}


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["the check ended without a word"])[-1]
