"""gemmsmith check FOLDER: every kernel of a repository, each checked by a process of its own.

A process per kernel keeps a crash, a hang or a leak of one kernel from the others. All cores are used, or those of a
cluster.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from gemmsmith.cli.entry_words import split_entry
from gemmsmith.cli.job import CommandJob, cores
from gemmsmith.cli.kernels import check_source
from gemmsmith.cli.options.on import OnOptions
from gemmsmith.cli.python_files import PYTHON_FILE, has_kernels
from gemmsmith.cli.render.findings import NOT_A_PRODUCT, NOT_RUNNABLE, Checked, checked
from gemmsmith.cli.render.format_names import Format
from gemmsmith.cli.render.formats import formatted
from gemmsmith.cli.render.output import item, print_json, print_table, say
from gemmsmith.cluster.place import LOCAL, Place
from gemmsmith.cluster.sources import SourceTree, pack
from gemmsmith.cluster.task import Task, TaskResult
from gemmsmith.errors import GemmsmithError, UnknownKernelError, UsageError
from gemmsmith.regular_file import regular
from gemmsmith.userfile.files.include_search import repository_of

_SUFFIXES = {".cu", ".cuh", ".cuda", ".h", ".hpp", ".hh", ".hxx", ".inl", ".inc"}
_NOT_SEARCHED = {"build", "node_modules", "third_party", "external", "__pycache__"}
_LARGEST_FILE = 4 << 20
_LONGEST_S = 600
_REASON = 160  # characters
SPARE_S = 60  # beyond the time that a check gives itself, for compiling


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
    from gemmsmith.userfile.kernels.entry_choice import spelled_entry
    from gemmsmith.userfile.text.source import read_source_file

    try:
        found = read_source_file(file).kernels
    except GemmsmithError as error:
        yield KernelPlace(file, "", 0, error.message)
        return
    yield from (KernelPlace(file, spelled_entry(kernel, found), kernel.line) for kernel in found)


def _launched_from_headers(file: Path) -> Iterator[KernelPlace]:
    """The kernels of its headers that a file without kernels names, at the line where it does."""
    from gemmsmith.userfile.files.project import Project

    first, *headers = Project.of(file, (), ()).sources(file)
    lines = first.text.split("\n")
    for kernel in (kernel for header in headers for kernel in header.kernels):
        named = re.compile(rf"\b{re.escape(kernel.name)}\b")
        line = next((i for i, text in enumerate(lines, 1) if named.search(text)), 0)
        if line:
            yield KernelPlace(file, kernel.qualified, line)


def _source_files(folder: Path) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NOT_SEARCHED and not name.startswith("."))
        for name in sorted(files):
            path = Path(here, name)
            with suppress(OSError):  # a dangling link, a pipe, or no permission
                if path.suffix not in (*_SUFFIXES, PYTHON_FILE) or regular(path).stat().st_size > _LARGEST_FILE:
                    continue
                if b"__global__" in path.read_bytes() and (path.suffix != PYTHON_FILE or has_kernels(path)):
                    yield path


def check_folders(
    words: Sequence[str], options: Sequence[str], *, seconds: float, jobs: int, on: OnOptions, form: Format
) -> None:
    """Check the kernels of several files and folders, print what was found, and exit with the code of docs/ci.md."""
    kernels = [kernel for word in words for kernel in _kernels_of(word)]
    if not kernels:
        raise UsageError(f"no __global__ function was found in {', '.join(words)}",
                         "give files or folders with .cu, .cuh or .h files, or .py with kernels as text")  # fmt: skip
    limit = seconds if math.isfinite(seconds) else _LONGEST_S
    command = shlex.join(["gemmsmith", "check", *words, *options])
    found = check_all(kernels, options, seconds=limit, on=on, usual=Place(LOCAL, jobs) if jobs else cores(),
                      command=command, json=form is Format.JSON)  # fmt: skip
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
    file, entry = split_entry(word)
    path = Path(file)
    if path.is_dir():
        yield from kernels_in(path)
        return
    check_source(path)
    if not path.is_file():
        raise UnknownKernelError(f"there is no file {path}", "give paths of .cu files, or of folders with some")
    if not entry:
        own = list(_kernels_in_file(path))
        yield from own or _launched_from_headers(path)
        return
    name = entry.partition("<")[0].strip()
    line = next((kernel.line for kernel in _kernels_in_file(path) if kernel.entry.endswith(name)), 0)
    yield KernelPlace(path, entry, line)


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
    kernels: Sequence[KernelPlace], options: Sequence[str], *, seconds: float, on: OnOptions, usual: Place,
    command: str = "", json: bool = False, done: Callable[[Checked], None] = lambda _: None,
) -> list[Checked]:  # fmt: skip
    """Check each kernel with these further ``options`` in at most ``seconds``; ``done`` is called with each.

    Where ``--on`` names a place, the kernels' repositories are sent there; otherwise files are read in place.
    """
    trees = _trees(kernels, options) if on.named and not on.dry_run else {}
    readable = [kernel for kernel in kernels if not kernel.error]
    tasks = [check_task(kernel, options, on.limit(seconds), trees) for kernel in readable]
    owners = {task.digest: kernel for task, kernel in zip(tasks, readable, strict=True)}

    def on_result(result: TaskResult) -> None:
        done(_checked(owners[result.digest], result))

    job = CommandJob(command or shlex.join(["gemmsmith", "check", *options]), tasks, on, usual, tuple(trees.values()),
                     recorded=on.named, json=json, on_result=on_result)  # fmt: skip
    found = {id(kernel): result for kernel, result in zip(readable, job.results(), strict=True)}
    return [_checked(kernel, found.get(id(kernel))) for kernel in kernels]


def load_all(
    kernels: Sequence[KernelPlace], *, on: OnOptions, usual: Place, seconds: float, command: str
) -> list[tuple[bool, str, float]]:
    """Whether each kernel compiles and can be simulated, why not, and the seconds that took."""
    trees = _trees(kernels, ()) if on.named else {}
    tasks = [check_task(kernel, (), seconds, trees, "load") for kernel in kernels]
    job = CommandJob(command, tasks, on, usual, tuple(trees.values()), recorded=on.named)
    return [(bool(result.ok and result.value["loaded"]),
             result.value["why"] if result.ok else (result.error or {}).get("message", ""), result.seconds)
            for result in job.results()]  # fmt: skip


def check_task(
    kernel: KernelPlace, options: Sequence[str], seconds: float, trees: Mapping[Path, SourceTree], kind: str = "check"
) -> Task:
    """The task that checks one kernel; its file is read in place where it is in none of ``trees``."""
    tree = trees.get(repository_of(Path(os.path.abspath(kernel.file))))
    given = {"file": str(kernel.file), "entry": kernel.entry, "options": list(options), "seconds": seconds + SPARE_S}
    where = {} if tree is not None else {"cwd": os.getcwd()}
    return Task(kind, given | where, f"{kernel.file}:{kernel.entry}", sources=tree.digest if tree else "",
                limit=seconds + 2 * SPARE_S)  # fmt: skip


def _trees(kernels: Sequence[KernelPlace], options: Sequence[str]) -> dict[Path, SourceTree]:
    """The sources of each repository, with the folders and files that ``options`` name."""
    folders = [Path(word[2:]) for word in options if word.startswith("-I") and len(word) > 2]
    named = [Path(word.partition(":")[0]) for word in options if ".py" in word]
    groups: dict[Path, list[Path]] = {}
    for kernel in kernels:
        groups.setdefault(repository_of(Path(os.path.abspath(kernel.file))), []).append(kernel.file)
    return {root: pack([*dict.fromkeys(files), *filter(Path.is_file, named)], folders)
            for root, files in groups.items()}  # fmt: skip


def _checked(kernel: KernelPlace, result: TaskResult | None) -> Checked:
    if result is None:
        return checked(kernel.file, "", _error(kernel.error))
    report = result.value if result.ok else _error((result.error or {}).get("message", ""))
    return checked(kernel.file, kernel.entry, report, line=kernel.line, seconds=result.seconds)


def _error(message: str) -> dict[str, Any]:
    return {"error": {"kind": "CheckError", "message": message, "hint": ""}}
