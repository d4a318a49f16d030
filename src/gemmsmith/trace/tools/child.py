"""The traced process: ``python -m gemmsmith.trace.tools.child TOOL FOLDER WORDS…`` runs a program under a tool.

The program may run native code and end this process in any way, so results are passed only through files in FOLDER.
"""

from __future__ import annotations

import json
import runpy
import sys
import threading
import time
import traceback
from pathlib import Path
from types import TracebackType
from typing import Protocol

from gemmsmith.trace.tools.target import SCRIPT, Target, target_of

STATUS = "status.json"
NOT_STARTED = 97
_INTERRUPTED = 130


class Tool(Protocol):
    """A recorder inside the traced process."""

    def start(self) -> None: ...

    def stop(self, folder: Path) -> None: ...


def main(words: list[str]) -> int:
    """Trace a program and return its exit code."""
    tool_name, folder = words[0], Path(words[1])
    target = target_of(words[2:])
    try:
        tool = _tool(tool_name)
        if tool is not None:
            tool.start()
    except Exception as error:  # a missing library, an old driver, another profiler; the types vary by tool
        _write(folder, {"started": False, "why": f"{type(error).__name__}: {error}"})
        return NOT_STARTED
    began = time.perf_counter_ns()
    code = _run(target)
    _join_threads()
    wall = time.perf_counter_ns() - began
    _write(folder, {"started": True, "wall": wall, "exit_code": code, "kept": False})
    if tool is not None:
        tool.stop(folder)
    _write(folder, {"started": True, "wall": wall, "exit_code": code, "kept": True})
    return code


def _tool(name: str) -> Tool | None:
    """Imported lazily, so that the process loads only the tool in use; nsys runs outside the process."""
    if name == "cupti":
        from gemmsmith.trace.tools.cupti_tool import CuptiTool

        return CuptiTool()
    if name == "torch":
        from gemmsmith.trace.tools.torch_tool import TorchTool

        return TorchTool()
    return None


def _run(target: Target) -> int:
    sys.argv = [target.name, *target.arguments]
    try:
        if target.kind == SCRIPT:
            if not sys.flags.safe_path:  # as `python script.py` does
                sys.path[0] = str(Path(target.name).resolve().parent)
            runpy.run_path(target.name, run_name="__main__")
        else:
            runpy.run_module(target.name, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BaseException as error:
        traceback.print_exception(error.with_traceback(_users(error.__traceback__)))
        return 1
    finally:
        sys.stdout.flush()
    return 0


def _users(frames: TracebackType | None) -> TracebackType | None:
    """The traceback from the program's first frame on, without this file and runpy."""
    while frames is not None:
        file = frames.tb_frame.f_code.co_filename
        if file != __file__ and not file.startswith("<frozen"):
            return frames
        frames = frames.tb_next
    return None  # no such module, or not a Python file; the message suffices


def _join_threads() -> None:
    """Wait for non-daemon threads, as Python does at exit: their launches belong to the program."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _write(folder: Path, status: dict[str, object]) -> None:
    (folder / STATUS).write_text(json.dumps(status), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
