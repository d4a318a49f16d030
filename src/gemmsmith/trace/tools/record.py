"""Run a program under a tool, in its own process, and read the recorded events."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gemmsmith.errors import LaunchError, MissingDeviceError, UsageError
from gemmsmith.store.database_errors import ENVIRONMENT
from gemmsmith.trace.timeline import Event, Recording
from gemmsmith.trace.tools import cupti_tool, torch_tool
from gemmsmith.trace.tools.child import STATUS
from gemmsmith.trace.tools.events_file import read_events
from gemmsmith.trace.tools.nsys_tool import find_nsys, nsys_command, read_nsys
from gemmsmith.trace.tools.target import COMMAND, Target

# The order in which 'auto' tries them: CUPTI records every call and needs no torch; nsys is the slowest.
TOOLS = ("cupti", "torch", "nsys")
_PACKAGES = {"cupti": "cupti", "torch": "torch"}
_INSTALL = {"cupti": "pip install '.[timeline]' in gemmsmith's folder (cupti-python)", "torch": "pip install torch"}
_STDERR = 2


class ToolNotStartedError(MissingDeviceError):
    """The tool did not start, and the program was not run."""


def check_name(tool: str) -> None:
    """Refuse a tool that does not exist."""
    if tool not in ("auto", *TOOLS):
        raise UsageError(f"unknown tool {tool!r}", f"use auto, {', '.join(TOOLS)}")


def usable(tool: str) -> list[str]:
    """The tools to try, in order; raises if the requested tool is missing, or all are."""
    check_name(tool)
    if tool == "auto":
        found = [name for name in TOOLS if _present(name)]
        if not found:
            raise MissingDeviceError(
                "none of cupti-python, torch and nsys is installed",
                f"{_INSTALL['cupti']}; or install torch, or Nsight Systems",
            )
        return found
    if tool == "nsys":
        find_nsys()
    elif not _present(tool):
        raise MissingDeviceError(f"{_PACKAGES[tool]} is not installed", _INSTALL[tool])
    return [tool]


def _present(tool: str) -> bool:
    if tool == "nsys":
        return shutil.which("nsys") is not None
    return importlib.util.find_spec(_PACKAGES[tool]) is not None


def record(target: Target, tools: Sequence[str], quiet: bool = False) -> Recording:
    """Run the program once under the first tool that starts; ``quiet`` sends its output to stderr."""
    skipped: list[str] = []
    for number, tool in enumerate(tools):
        try:
            recording = _record(target, tool, quiet)
        except ToolNotStartedError as error:
            if number + 1 == len(tools):
                raise
            skipped.append(f"{error.message}; {tools[number + 1]} was used")
            continue
        return Recording(recording.events, tool, recording.wall, recording.exit_code, (*skipped, *recording.notes))
    raise UsageError("no tool given")


def _record(target: Target, tool: str, quiet: bool) -> Recording:
    with tempfile.TemporaryDirectory(prefix="gemmsmith-timeline-") as name:
        folder = Path(name)
        before = nsys_command(folder) if tool == "nsys" else []
        child = [sys.executable, "-m", "gemmsmith.trace.tools.child", tool, str(folder), *target.words]
        code = _wait([*before, *child], quiet, _environment(target, folder))
        status = _status(folder, tool, code)
        events = _read(folder, tool)
        notes = (torch_tool.NOTE,) if tool == "torch" else ()
        return Recording(events, tool, int(status["wall"]), int(status["exit_code"]), notes)


def _environment(target: Target, folder: Path) -> dict[str, str]:
    """A bench under a profiler is slower, so it must not enter the user's results database."""
    apart = {ENVIRONMENT: str(folder / "results.db")} if target.kind == COMMAND else {}
    return os.environ | apart


def _wait(command: list[str], quiet: bool, environment: dict[str, str]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    process = subprocess.Popen(command, stdout=_STDERR if quiet else None, env=environment)
    try:
        return process.wait()
    except KeyboardInterrupt:
        # Ctrl-C also reached the program: it ends, and its records so far are kept.
        return process.wait()


def _status(folder: Path, tool: str, code: int) -> dict[str, int]:
    path = folder / STATUS
    if not path.exists():
        how = f"a signal ({-code})" if code < 0 else f"exit code {code}"
        raise LaunchError(
            f"the program ended with {how} before the records of {tool} could be written",
            "a crash or os._exit loses the records; --tool nsys keeps them" if tool != "nsys" else "",
        )
    status: dict[str, int | str] = json.loads(path.read_text(encoding="utf-8"))
    if not status["started"]:
        raise ToolNotStartedError(f"{tool} did not start: {status['why']}", "try --tool auto, cupti, torch or nsys")
    if not status["kept"]:
        raise LaunchError(f"{tool} could not write its records", "see its message above, or use another --tool")
    return {key: int(value) for key, value in status.items()}


def _read(folder: Path, tool: str) -> tuple[Event, ...]:
    if tool == "cupti":
        return read_events(folder / cupti_tool.EVENTS)
    if tool == "torch":
        return torch_tool.read_torch_trace(folder / torch_tool.TRACE)
    return read_nsys(folder)
