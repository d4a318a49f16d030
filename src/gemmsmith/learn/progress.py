"""What a learner has done so far, in one small file of theirs: written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import platformdirs
from filelock import FileLock, Timeout

from gemmsmith.compile.foreign_links import foreign_link
from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.regular_file import regular

ENVIRONMENT = "GEMMSMITH_LEARN"
_NAME = "learn.json"
_VERSION = 1
_LARGEST = 1 << 20  # bytes; a file of ours has a few hundred
_PATIENCE = 5.0  # seconds that another process may hold the file
ELSEWHERE = f"name another file: --progress FILE, or {ENVIRONMENT}"


class ProgressError(GemmsmithError):
    """The file of progress cannot be read or written."""


@dataclass(frozen=True)
class Done:
    """One task: how often it was graded, which hints were shown, when it passed first ('' if it has not)."""

    attempts: int = 0
    hints: int = 0
    passed: str = ""
    solution: bool = False


@dataclass(frozen=True)
class Progress:
    """All tasks that were touched; ``damaged`` names a file that could not be read and was set aside."""

    tasks: Mapping[str, Done] = field(default_factory=lambda: MappingProxyType({}))
    damaged: str = ""

    def of(self, name: str) -> Done:
        return self.tasks.get(name, Done())

    def with_task(self, name: str, done: Done) -> Progress:
        return replace(self, tasks=MappingProxyType({**self.tasks, name: done}))

    def graded(self, name: str, passed: bool) -> Progress:
        before = self.of(name)
        now = before.passed or (datetime.now(UTC).isoformat(timespec="seconds") if passed else "")
        return self.with_task(name, replace(before, attempts=before.attempts + 1, passed=now))

    def hinted(self, name: str, hints: int) -> Progress:
        return self.with_task(name, replace(self.of(name), hints=max(hints, self.of(name).hints)))

    def solved(self, name: str) -> Progress:
        return self.with_task(name, replace(self.of(name), solution=True))


def progress_path(given: Path | None = None) -> Path:
    """``given``, ``$GEMMSMITH_LEARN``, or ``learn.json`` in the user's data folder."""
    chosen = given or os.environ.get(ENVIRONMENT, "")
    path = Path(chosen).expanduser() if chosen else Path(platformdirs.user_data_dir("gemmsmith")) / _NAME
    link = foreign_link(path)
    if link is not None:
        raise ProgressError(
            f"the progress file {path} lies behind {link.path}, a symbolic link that user {link.owner} made", ELSEWHERE
        )
    if os.path.isdir(path):
        raise UsageError(f"{path} is a folder, not a progress file", ELSEWHERE)
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe: reading it would wait for a writer
        raise UsageError(f"{path} is not a regular file", ELSEWHERE)
    return path


def load_progress(path: Path) -> Progress:
    """The progress in ``path``; none where there is no file. A damaged file is named, and not changed.

    A file of another name that holds no progress is taken for something else of the user's, and refused.
    """
    try:
        with regular(path).open("rb") as file:
            content = file.read(_LARGEST)
    except (FileNotFoundError, NotADirectoryError):
        return Progress()
    except OSError as error:
        raise ProgressError(f"cannot read {path}: {error.strerror}", ELSEWHERE) from None
    try:
        return Progress(MappingProxyType(dict(_parsed(content))))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        if path.name != _NAME:
            raise UsageError(f"{path} holds no progress of gemmsmith learn", ELSEWHERE) from None
        return Progress(damaged=str(path))


def change_progress(path: Path, change: Callable[[Progress], Progress]) -> Progress:
    """Read, change and write the file while no other process does. A damaged file is kept beside it."""
    with _locked(path):
        before = load_progress(path)
        aside = _set_aside(path) if before.damaged else ""
        after = replace(change(replace(before, damaged="")), damaged=aside)
        _write(path, after)
        return after


def _parsed(content: bytes) -> Iterator[tuple[str, Done]]:
    data = json.loads(content)
    if data["version"] != _VERSION:
        raise ValueError("another version")
    for name, one in data["tasks"].items():
        done = Done(**one)
        for value, kind in ((done.attempts, int), (done.hints, int), (done.passed, str), (done.solution, bool)):
            if type(value) is not kind:
                raise ValueError("another type")
        yield str(name), done


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(f"{path}.lock", timeout=_PATIENCE):
            yield
    except Timeout:
        raise ProgressError(f"another process has held {path} for {_PATIENCE:g} s", "try again") from None
    except OSError as error:
        raise ProgressError(f"cannot write {path}: {error.strerror}", ELSEWHERE) from None


def _set_aside(path: Path) -> str:
    """Rename a damaged file; the name that it has now."""
    for number in range(1, 1000):
        kept = path.with_name(f"{path.name}.damaged{number}")
        if not kept.exists():
            path.rename(kept)
            return str(kept)
    raise ProgressError(f"{path} is damaged, and so are 999 files beside it", ELSEWHERE)


def _write(path: Path, progress: Progress) -> None:
    data: dict[str, Any] = {"version": _VERSION, "tasks": {name: asdict(one) for name, one in progress.tasks.items()}}
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(json.dumps(data, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
