"""gemmsmith check FOLDER: every kernel of a repository, each checked by a process of its own.

A process per kernel keeps a crash, a hang or a leak of one kernel from the others, and uses all cores.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from gemmsmith.cli.kernels import check_source
from gemmsmith.cli.render.findings import NOT_A_PRODUCT, NOT_RUNNABLE, Checked, checked
from gemmsmith.cli.render.format_names import Format
from gemmsmith.cli.render.formats import formatted
from gemmsmith.cli.render.output import item, print_json, print_table, progress, say
from gemmsmith.errors import GemmsmithError, UnknownKernelError, UsageError
from gemmsmith.regular_file import regular

_SUFFIXES = {".cu", ".cuh", ".cuda", ".h", ".hpp", ".hh", ".hxx", ".inl", ".inc"}
_NOT_SEARCHED = {"build", "node_modules", "third_party", "external", "__pycache__"}
_LARGEST_FILE = 4 << 20
_LONGEST_S = 600
_REASON = 160  # characters
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
    for file in _source_files(folder):
        yield from _kernels_in_file(file)


def _kernels_in_file(file: Path) -> Iterator[KernelPlace]:
    from gemmsmith.userfile.source import read_source_file

    try:
        found = read_source_file(file).kernels
    except GemmsmithError as error:
        yield KernelPlace(file, "", 0, error.message)
        return
    yield from (KernelPlace(file, kernel.qualified, kernel.line) for kernel in found)


def _source_files(folder: Path) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NOT_SEARCHED and not name.startswith("."))
        for name in sorted(files):
            path = Path(here, name)
            with suppress(OSError):  # a dangling link, a pipe, or no permission
                if path.suffix not in _SUFFIXES or regular(path).stat().st_size > _LARGEST_FILE:
                    continue
                if b"__global__" in path.read_bytes():
                    yield path


def check_folders(words: Sequence[str], options: Sequence[str], *, seconds: float, jobs: int, form: Format) -> None:
    """Check the kernels of several files and folders, print what was found, and exit with the code of docs/ci.md."""
    kernels = [kernel for word in words for kernel in _kernels_of(word)]
    if not kernels:
        raise UsageError(f"no __global__ function was found in {', '.join(words)}",
                         "give files or folders with .cu, .cuh or .h files")  # fmt: skip
    limit = seconds if math.isfinite(seconds) else _LONGEST_S
    with progress() as bar:
        task = bar.add_task("checking", total=len(kernels))
        found = check_all(kernels, options, seconds=limit, jobs=jobs or os.cpu_count() or 1,
                          done=lambda _: bar.advance(task))  # fmt: skip
    if form.is_document:
        sys.stdout.write(formatted(found, form))
    elif form is Format.JSON:
        print_json({"ok": not any(kernel.failed for kernel in found), "kernels": [asdict(kernel) for kernel in found]})
    else:
        print_summary(found)
    if any(kernel.failed for kernel in found):
        raise typer.Exit(1)
    if all(kernel.status in (NOT_RUNNABLE, NOT_A_PRODUCT) for kernel in found):
        raise UsageError("no kernel could be checked", "the reasons are in the table")


def _kernels_of(word: str) -> Iterator[KernelPlace]:
    path = Path(word)
    if path.is_dir():
        yield from kernels_in(path)
        return
    check_source(path)
    if not path.is_file():
        raise UnknownKernelError(f"there is no file {path}", "give paths of .cu files, or of folders with some")
    yield from _kernels_in_file(path)


def print_summary(kernels: Sequence[Checked]) -> None:
    """One row for each kernel, faults first; then how many have which status."""
    order = sorted(
        kernels, key=lambda kernel: (not kernel.failed, *map(kernel.status.__eq__, (NOT_A_PRODUCT, NOT_RUNNABLE)))
    )
    rows = [(escape(f"{kernel.file}:{kernel.line}"), escape(kernel.entry), kernel.status.replace("_", " "),
             f"{kernel.seconds:.1f}", escape(_short(kernel))) for kernel in order]  # fmt: skip
    print_table((("file", "left"), ("kernel", "left"), ("status", "left"), ("s", "right"), ("reason", "left")), rows)
    counts = Counter(kernel.status.replace("_", " ") for kernel in kernels)
    say()
    item(f"{len(kernels)} kernels: " + ", ".join(f"{number} {status}" for status, number in counts.most_common()))


def _short(kernel: Checked) -> str:
    """The reason in a line: details are in ``gemmsmith check`` of that kernel alone."""
    first = (kernel.summary.splitlines() or [""])[0]
    return first if len(first) <= _REASON else first[: _REASON - 1] + "…"


def check_all(
    kernels: Sequence[KernelPlace],
    options: Sequence[str],
    *,
    seconds: float,
    jobs: int,
    done: Callable[[Checked], None] = lambda _: None,
) -> list[Checked]:
    """Check each kernel with these further ``options`` in at most ``seconds``; ``done`` is told of each result."""

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
