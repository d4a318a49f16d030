"""The watched process: ``python -m gemmsmith.trace.tools.child TOOL FOLDER WORDS…`` runs a program under a tool.

The program is native code of the user's and may end this process in any way; what FOLDER holds is all that counts.
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
    """What runs in the watched process."""

    def start(self) -> None: ...

    def stop(self, folder: Path) -> None: ...


def main(words: list[str]) -> int:
    """Watch a program and return its exit code."""
    tool_name, folder = words[0], Path(words[1])
    target = target_of(words[2:])
    try:
        tool = _tool(tool_name)
        if tool is not None:
            tool.start()
    except Exception as error:  # a missing library, a driver too old, another profiler: each tool has its own types
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
    """Imported here, so that a process loads only what it uses; nsys watches from outside."""
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
    """The traceback from the program's first line on: this file and runpy are of no interest to its author."""
    while frames is not None:
        file = frames.tb_frame.f_code.co_filename
        if file != __file__ and not file.startswith("<frozen"):
            return frames
        frames = frames.tb_next
    return None  # no such module, or a file that is not Python: the message alone says so


def _join_threads() -> None:
    """As Python does before it ends: what other threads launch belongs to the program."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _write(folder: Path, status: dict[str, object]) -> None:
    (folder / STATUS).write_text(json.dumps(status), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
