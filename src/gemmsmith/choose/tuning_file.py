"""The user's tuning file: every step of every ``gemmsmith tune`` as one JSON object per line, append-only.

    run        a command started: on which GPU, when, with which versions
    tried      a candidate is about to run for the first time; if nothing follows, the process died while it ran
    stopped    the user stopped the process while the candidate ran
    candidate  its result: 'timed', 'failed' or 'wrong'
    fresh      earlier candidates of this shape are not to be used again
    best       a shape is finished: later calls use this; with "so_far", the search is not: time was up

Results of ``gemmsmith tune --fastest``, which allows kernels whose results may differ between runs, are stored under a
separate kind of shape. Parameter names of earlier versions are converted when they are read.

Each line is one write to a file opened for appending, under a lock, and is on disk when ``append`` returns. A killed
process leaves at most one torn line at the end, which readers skip and the next writer removes.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs

from gemmsmith.choose.key import ShapeKey, deterministic, fastest, is_fastest
from gemmsmith.choose.table import (
    Entry,
    config_from_fields,
    entry_fields,
    entry_from_fields,
    key_from_fields,
    number_or_nan,
    number_or_null,
)
from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.kernel.equal_sources import current_digest
from gemmsmith.regular_file import regular

ENVIRONMENT = "GEMMSMITH_TUNING"
FORMAT = 1
_ELSEWHERE = f"choose another file with --tuning or {ENVIRONMENT}"
STATES = ("timed", "failed", "wrong")
_BEGINS = b'{"format": '
Pairs = tuple[tuple[str, int], ...]


class TuningFileError(GemmsmithError):
    """The tuning file cannot be written."""

    exit_code = 3


def default_path() -> Path:
    """``$GEMMSMITH_TUNING``, or ``tuning.jsonl`` in the user's data folder."""
    chosen = os.environ.get(ENVIRONMENT, "")
    if chosen:
        return Path(chosen).expanduser()
    return Path(platformdirs.user_data_dir("gemmsmith")) / "tuning.jsonl"


@dataclass(frozen=True)
class Tried:
    """The result of one candidate; ``state`` is '' until it is known, ``times`` counts how often it was started.
    ``brief``: its time is that of very short samples."""

    kernel: str
    config: Pairs
    state: str = ""
    us: float = math.nan
    cublas_us: float = math.nan
    why: str = ""
    times: int = 0
    brief: bool = False


@dataclass
class History:
    """A tuning file's contents for one GPU; candidates by shape and by the digest of their code. ``so_far``: shapes
    whose best is that of a search that time ended."""

    best: dict[ShapeKey, Entry] = field(default_factory=dict)
    so_far: set[ShapeKey] = field(default_factory=set)
    tried: dict[ShapeKey, dict[str, Tried]] = field(default_factory=dict)
    runs: list[Mapping[str, Any]] = field(default_factory=list)


class TuningFile:
    """One tuning file; reading it does not require that it exists.

    ``history`` and all additions concern runs with bit-reproducible kernels only or, with ``any_order``, runs with all.
    """

    def __init__(self, path: Path, any_order: bool = False) -> None:
        self.path, self._any_order = path, any_order

    def gpus(self) -> tuple[str, ...]:
        """The GPUs in the file, in order of appearance."""
        return tuple(dict.fromkeys(str(line["gpu"]) for line in self._lines()))

    def history(self, gpu: str) -> History:
        """Everything about ``gpu``; unreadable lines are skipped with a warning."""
        found = History()
        for line in self._lines():
            if line["gpu"] == gpu and (line["event"] == "run" or self._is_mine(key_from_fields(line))):
                _remember(found, line)
        return found

    def _is_mine(self, key: ShapeKey) -> bool:
        return is_fastest(key) == self._any_order

    def _stored(self, key: ShapeKey) -> dict[str, Any]:
        return asdict(fastest(key) if self._any_order else key)

    def best(self, gpu: str) -> dict[ShapeKey, Entry]:
        """Finished shapes of ``gpu``, of both kinds of run: what calls use."""
        return {
            key: entry for line in self._lines('"event": "best"') if line["gpu"] == gpu
            for key, entry in [entry_from_fields(line)]
        }  # fmt: skip

    def lines_of(self, key: ShapeKey) -> list[str]:
        """The lines about a shape, of all GPUs and both kinds of run, for ``add_lines`` of another file."""
        wanted = (deterministic(key), fastest(key))
        return [
            json.dumps(line) for line in self._lines() if line["event"] != "run" and key_from_fields(line) in wanted
        ]

    def add_lines(self, lines: Iterable[str]) -> None:
        """Append lines of another file; those that are here already are left out."""
        known = {json.dumps(line, sort_keys=True) for line in self._lines()}
        for text in lines:
            line = json.loads(text)
            if json.dumps(line, sort_keys=True) not in known:
                self._append({name: value for name, value in line.items() if name != "format"})

    def add_run(self, gpu: str, command: str, date: str, versions: Mapping[str, str]) -> None:
        self._append({"event": "run", "gpu": gpu, "command": command, "date": date, "versions": dict(versions)})

    def add_start(self, gpu: str, key: ShapeKey, digest: str, kernel: str, config: Pairs) -> None:
        self._append({"event": "tried", "gpu": gpu, "digest": digest, **self._stored(key), "kernel": kernel,
                      "config": dict(config)})  # fmt: skip

    def add_stop(self, gpu: str, key: ShapeKey, digest: str, kernel: str, config: Pairs) -> None:
        self._append({"event": "stopped", "gpu": gpu, "digest": digest, **self._stored(key), "kernel": kernel,
                      "config": dict(config)})  # fmt: skip

    def add_candidate(self, gpu: str, key: ShapeKey, digest: str, tried: Tried) -> None:
        self._append({"event": "candidate", "gpu": gpu, "digest": digest, **self._stored(key), "kernel": tried.kernel,
                      "config": dict(tried.config), "state": tried.state, "us": number_or_null(tried.us),
                      "cublas_us": number_or_null(tried.cublas_us), "why": tried.why,
                      **({"brief": True} if tried.brief else {})})  # fmt: skip

    def add_fresh(self, gpu: str, key: ShapeKey) -> None:
        self._append({"event": "fresh", "gpu": gpu, **self._stored(key)})

    def add_best(self, gpu: str, key: ShapeKey, entry: Entry, so_far: bool = False) -> None:
        self._append({"event": "best", "gpu": gpu} | entry_fields(key, entry) | self._stored(key)
                     | ({"so_far": True} if so_far else {}))  # fmt: skip

    def _append(self, line: Mapping[str, Any]) -> None:
        data = (json.dumps({"format": FORMAT, **line}, allow_nan=False) + "\n").encode()
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.path.exists():
                regular(self.path)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                _cut_torn_line(handle, self.path)
                while data:
                    data = data[os.write(handle, data) :]
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise TuningFileError(f"cannot write the tuning file {self.path}: {error.strerror}", _ELSEWHERE) from None

    def _lines(self, only: str = "") -> Iterator[Mapping[str, Any]]:
        """Readable lines that contain ``only``; a warning counts the unreadable ones."""
        try:
            text = regular(self.path).read_bytes().decode("utf-8", errors="replace")
        except FileNotFoundError:
            return
        except OSError as error:
            _warn(f"cannot read the tuning file {self.path}: {error.strerror}; it is not used")
            return
        *lines, _torn = text.split("\n")
        bad = 0
        for line in lines:
            if only not in line:
                continue
            try:
                yield _checked(line)
            except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError):
                bad += 1
        if bad:
            _warn(f"{bad} of {len(lines)} lines of the tuning file {self.path} cannot be read; they are not used")


def _checked(line: str) -> Mapping[str, Any]:
    """A line as its fields; raises here for any other line, so that callers need not check."""
    found: dict[str, Any] = json.loads(line)
    if found["format"] != FORMAT or not isinstance(found["gpu"], str):
        raise ValueError(line)
    match found["event"]:
        case "run":
            _ = str(found["command"]), str(found["date"]), dict(found["versions"])
        case "tried" | "stopped":
            key_from_fields(found), config_from_fields(found), str(found["kernel"]), str(found["digest"])
        case "candidate" if found["state"] in STATES:
            key_from_fields(found), config_from_fields(found), str(found["kernel"]), str(found["digest"])
            number_or_nan(found["us"]), number_or_nan(found["cublas_us"]), str(found["why"])
        case "fresh":
            key_from_fields(found)
        case "best":
            entry_from_fields(found)
        case _:
            raise ValueError(line)
    return found


def _remember(found: History, line: Mapping[str, Any]) -> None:
    event = line["event"]
    if event == "run":
        found.runs.append(line)
        return
    key = deterministic(key_from_fields(line))
    if event == "best":
        found.best[key] = entry_from_fields(line)[1]
        (found.so_far.add if line.get("so_far") is True else found.so_far.discard)(key)
        return
    if event == "fresh":
        found.tried.pop(key, None)
        return
    known, digest = found.tried.setdefault(key, {}), current_digest(str(line["digest"]))
    now = Tried(str(line["kernel"]), config_from_fields(line), times=known[digest].times if digest in known else 0)
    if event in ("tried", "stopped"):
        known[digest] = replace(now, times=max(0, now.times + (1 if event == "tried" else -1)))
    else:
        known[digest] = replace(now, state=line["state"], us=number_or_nan(line["us"]), why=str(line["why"]),
                                cublas_us=number_or_nan(line["cublas_us"]),
                                brief=line.get("brief") is True)  # fmt: skip


def _cut_torn_line(handle: int, path: Path) -> None:
    """Remove what a killed writer left after the last newline; the lock is held. Raises for another program's file."""
    size = os.fstat(handle).st_size
    begins = os.pread(handle, len(_BEGINS), 0)
    if not _BEGINS.startswith(begins):
        raise UsageError(f"{path} is not a tuning file", _ELSEWHERE)
    keep = size
    while keep:
        start = max(0, keep - 4096)
        at = os.pread(handle, keep - start, start).rfind(b"\n")
        if at >= 0:
            keep = start + at + 1
            break
        keep = start
    if keep != size:
        os.ftruncate(handle, keep)


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=2)


@cache
def tuned(path: Path, gpu: str) -> Mapping[ShapeKey, Entry]:
    """Finished shapes of a file, read once per process."""
    return TuningFile(path).best(gpu)


def chosen_path(path: Path | None) -> Path:
    """``path``, or the default; raises for a folder."""
    where = default_path() if path is None else Path(path).expanduser()
    if os.path.isdir(where):
        raise UsageError(f"{where} is a folder, not a tuning file", "name a file: --tuning tuning.jsonl")
    return where
