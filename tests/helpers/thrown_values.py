"""Bad values for every option of every command, and a way to run a command line in a child of this process.

Commands and options come from the parser, so that a new option is covered without a change here. A new command needs a
base: a command line that is quick, because it does little or soon ends: without a GPU, without such a run.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from gemmsmith.cli.command_table import COMMANDS
from gemmsmith.cli.lazy_group import load_command

LIMIT = int(os.environ.get("THROWN_LIMIT", "90"))  # seconds until a command counts as hung, on a busy machine
_MEMORY = 12 << 30
_SMALL = ["--m", "16", "--n", "16", "--k", "8"]
# A file whose kernel does nothing is quickly found wrong.
KERNEL = "__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {}\n"
BASES: dict[str, list[str]] = {
    "list": [], "show": ["naive"], "climb": ["--size", "32", "--no-db", "--device", "gpu"], "report": ["--run", "none"],
    "check": ["mine.cu"], "run": ["naive", *_SMALL, "--device", "sim"], "verify": ["naive", "--device", "sim"],
    "accuracy": ["naive", "--m", "4", "--k", "4", "--distributions", "normal", "--device", "sim"],
    "explain": ["naive", *_SMALL], "profile": ["naive", *_SMALL, "--device", "sim"],
    "compare": ["naive", "coalesced", *_SMALL], "occupancy": ["naive", "--gpu", "H200"],
    "view": ["naive", "--no-open", "--out", "view.html", *_SMALL],
    "sweep": ["naive", "--vary", "TILE=8", "--shapes", "16", "--device", "sim", "--no-db"],
    "bench": ["naive"], "tune": ["--shapes", "64"], "timeline": ["--", "true"],
    "warm": ["--shapes", "16", "--layout", "NN", "--gpu", "A100", "--jobs", "1"],
    "history": [], "history show": [], "history compare": [], "history export": ["--out", "new.csv"],
    "history repair": [], "doctor": [],
    "learn": [], "learn start": ["race", "folder"], "learn grade": ["mine.cu", "--task", "race"],
    "learn hint": ["race"], "learn progress": [], "worklogs": ["gflops"],
}  # fmt: skip
_OF_FILES = ("--entry", "--grid", "--block", "--smem", "--signature", "--layout", "-I", "-D")
_WITH_FILE = ("show", "run", "verify", "accuracy", "explain", "profile", "sweep", "bench", "occupancy",
              "view")  # fmt: skip
_PATHS = ("--html", "--db", "--cache-dir", "--sweep", "--save", "--out", "--trace", "--export", "--tuning", "-I",
          "--plot", "--expect", "--args", "--tool", "--progress", "--into")  # fmt: skip

TEXTS = {
    "nan": "nan", "inf": "inf", "minus inf": "-inf", "negative": "-1", "zero": "0", "beyond double": "1e400",
    "30 digits": "9" * 30, "empty": "", "20,000 letters": "x" * 20_000, "20,000 terms": "+".join("1" * 10_000),
    "not UTF-8": "\udcff", "another script's digit": "٣", "separators": "=,;×", "two lines": "a\nb", "shell": "$(id)",
    "dash": "-", "a thousand items": ",".join(["1"] * 1000),
}  # fmt: skip
FILES = {
    "folder": "folder", "missing": "missing.cu", "missing folder": "no/such/file.cu", "unreadable": "unreadable.cu",
    "binary": "binary.cu", "pipe": "pipe.cu", "device": "/dev/null", "link to itself": "round.cu",
    "dangling link": "dangling.cu", "name not UTF-8": "\udcff.cu", "long name": "n" * 5000, "empty file": "empty.cu",
    "file as folder": "binary.cu/inside",
}  # fmt: skip


@dataclass(frozen=True)
class Thrown:
    """A command, and an option of it or an argument, in upper case."""

    command: str
    option: str

    def __str__(self) -> str:
        return f"{self.command} {self.option}"

    def lines(self) -> Iterator[tuple[str, list[str]]]:
        """Command lines with one bad value each, after what is bad."""
        for kind, value in {**TEXTS, **(FILES if self.takes_path else {})}.items():
            yield kind, self._words(value)

    @property
    def takes_path(self) -> bool:
        return self.is_argument or self.option in _PATHS

    @property
    def is_argument(self) -> bool:
        return not self.option.startswith("-")

    def _words(self, value: str) -> list[str]:
        base = list(BASES[self.command])
        if self.option in _OF_FILES and self.command in _WITH_FILE:
            base[0] = "mine.cu"
        if self.option == "PROGRAM":
            base = ["--"]
        if self.is_argument:
            place = {"Y": 1, "B": 1, "FOLDER": 1, "OTHER": 1}.get(self.option, 0)
            base[place : place + (self.option != "OTHER")] = [value]  # only the base of OTHER has none
            return [*self.command.split(), *base]
        given = [self.option, value] if not self.option.startswith("--") else [f"{self.option}={value}"]
        if self.command == "timeline":
            return [self.command, *given, *base]
        return [*self.command.split(), *base, *given]


def commands() -> Iterator[tuple[str, Any]]:
    """Every command and subcommand with its parser."""
    for name in COMMANDS:
        yield from _and_below(name, load_command(name))


def _and_below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for below, inner in getattr(command, "commands", {}).items():
        yield from _and_below(f"{name} {below}", inner)


def thrown() -> list[Thrown]:
    """Every option and argument that takes a value."""
    return [
        Thrown(name, (parameter.opts[0] if parameter.param_type_name == "option" else parameter.name.upper()))
        for name, command in commands()
        for parameter in command.params
        if not getattr(parameter, "is_flag", False)
    ]


def import_everything() -> None:
    """Before the first fork, so that no child has to."""
    for _name, _command in commands():
        pass
    for name in ("verify.harness", "sim.device", "sim.lower", "verify.settle", "compile.compiler", "explain.diagnosis",
                 "call.launch", "report.page", "store.repair", "cli.launch_commands", "cli.check_run"):  # fmt: skip
        with suppress(ModuleNotFoundError):
            import_module(f"gemmsmith.{name}")


def furnish(folder: Path) -> None:
    """The files that values name."""
    (folder / "mine.cu").write_text(KERNEL)
    (folder / "folder").mkdir()
    (folder / "unreadable.cu").write_text(KERNEL)
    (folder / "unreadable.cu").chmod(0)
    (folder / "binary.cu").write_bytes(bytes(range(256)) * 16)
    (folder / "empty.cu").touch()
    os.mkfifo(folder / "pipe.cu")
    (folder / "round.cu").symlink_to("round.cu")
    (folder / "dangling.cu").symlink_to("nowhere.cu")
    (folder / "\udcff.cu").write_text(KERNEL)


@dataclass(frozen=True)
class Ended:
    """How a command ended. ``code`` is None if it had to be killed; ``outside`` are writes outside its folder."""

    code: int | None
    out: str
    err: str
    outside: tuple[str, ...]

    def fault(self) -> str:
        """What no input may cause; '' if there is none of it."""
        if self.code is None:
            return f"still running after {LIMIT} s"
        if self.code not in (0, 1, 2, 3):
            return f"exit code {self.code}"
        if "Traceback" in self.err or "Traceback" in self.out:
            return "a traceback"
        return f"wrote {self.outside}" if self.outside else ""


def _addresses() -> int:
    """Bytes of addresses that this process has already: tests before may have reserved more than a command needs."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def run_in_child(words: list[str], folder: Path, stdout: int | None = None) -> Ended:
    """Run a command line in a fork of this process, in ``folder``, with its files beside it."""
    beside = folder.parent / f"{folder.name}-output"
    beside.mkdir(exist_ok=True)
    child = os.fork()
    if child == 0:
        _child(words, folder, beside, stdout)
    deadline = time.monotonic() + LIMIT
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)  # its own children too
            os.waitpid(child, 0)
            break
        time.sleep(0.005)
    texts = [(beside / name).read_text(errors="replace") if (beside / name).exists() else ""
             for name in ("out", "err", "outside")]  # fmt: skip
    for name in ("out", "err", "outside"):
        (beside / name).unlink(missing_ok=True)
    return Ended(os.waitstatus_to_exitcode(status) if done else None, texts[0], texts[1], tuple(texts[2].splitlines()))


def _child(words: list[str], folder: Path, beside: Path, stdout: int | None) -> None:
    """Never returns. Writes are watched with an audit hook."""
    code = 70
    try:
        os.setsid()
        os.chdir(folder)
        most = _addresses() + _MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        out = os.open(beside / "out", os.O_WRONLY | os.O_CREAT) if stdout is None else stdout
        err = os.open(beside / "err", os.O_WRONLY | os.O_CREAT)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
        sys.dont_write_bytecode = True
        os.environ.update(HOME=str(beside), TMPDIR=str(beside), GEMMSMITH_DB=str(beside / "r.db"),
                          GEMMSMITH_LEARN=str(beside / "learn.json"),
                          XDG_DATA_HOME=str(beside), XDG_CONFIG_HOME=str(beside))  # fmt: skip
        tempfile.tempdir = None
        _watch(folder, beside)
        from gemmsmith.cli.main import run_command

        code = run_command(words)
        sys.stdout.flush()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 71
    finally:
        try:
            sys.stderr.flush()
        finally:
            os._exit(code)


def _watch(folder: Path, beside: Path) -> None:
    kept = [str(parent / "listings") for parent in list(folder.parents)[:3]]  # of SASS: tests/conftest.py
    roots = (str(folder), str(beside), *kept, os.environ.get("GEMMSMITH_CACHE_DIR", str(folder)), "/dev/", "/proc/")
    log = os.open(beside / "outside", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    changing = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.truncate", "os.chmod")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, int) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return
        elif event in changing:
            path = arguments[0]
            if isinstance(path, int):
                return
            if len(arguments) > 1 and isinstance(arguments[-1], int) and arguments[-1] >= 0 and event != "os.mkdir":
                return  # relative to a folder that was opened before
        else:
            return
        where = os.path.abspath(os.fsdecode(path))
        if not where.startswith(roots) and os.path.isabs(os.fsdecode(path)):
            os.write(log, f"{event} {where}\n".encode(errors="surrogateescape"))

    sys.addaudithook(hook)
