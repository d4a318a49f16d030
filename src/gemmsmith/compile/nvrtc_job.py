"""One NVRTC compilation from plain data to plain data, and the process that runs those of strangers' files.

This file is also a program: ``python nvrtc_job.py SETTINGS`` reads jobs from its standard input and writes results to
its standard output, within limits of memory, CPU time and readable folders. It imports nothing of gemmsmith, so that
it starts fast.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

TOO_LONG = 124  # exit status of the process after too much CPU time


@dataclass(frozen=True)
class Job:
    """What NVRTC is called with."""

    source: str
    path: str
    headers: tuple[tuple[str, str], ...]
    entry: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """What NVRTC returned. ``entry`` is the mangled name; ``failure`` is empty if it compiled."""

    failure: str
    log: str
    entry: str = ""
    ptx: str = ""
    cubin: bytes = b""


class NvrtcError(Exception):
    """NVRTC itself failed, not the source."""


def run_job(nvrtc: Any, job: Job) -> Result:
    """Compile with the module ``cuda.bindings.nvrtc``."""
    names, texts = [name.encode() for name, _ in job.headers], [text.encode() for _, text in job.headers]
    created = nvrtc.nvrtcCreateProgram(job.source.encode(), job.path.encode(), len(names), texts, names)
    program = _checked(nvrtc, created)
    try:
        _checked(nvrtc, nvrtc.nvrtcAddNameExpression(program, job.entry.encode()))
        arguments = [argument.encode() for argument in job.arguments]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(arguments), arguments)
        log = _text(nvrtc, program, "ProgramLog")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            return Result(str(status), log)
        entry = _checked(nvrtc, nvrtc.nvrtcGetLoweredName(program, job.entry.encode())).decode()
        return Result("", log, entry, _text(nvrtc, program, "PTX"), _bytes(nvrtc, program, "CUBIN"))
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _checked(nvrtc: Any, result: tuple[Any, ...]) -> Any:
    if result[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        _, text = nvrtc.nvrtcGetErrorString(result[0])
        raise NvrtcError(f"NVRTC failed: {text.decode()}")
    return result[1] if len(result) > 1 else None


def _bytes(nvrtc: Any, program: Any, what: str) -> bytes:
    size = _checked(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program))
    buffer = bytearray(size)
    _checked(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return bytes(buffer)


def _text(nvrtc: Any, program: Any, what: str) -> str:
    return _bytes(nvrtc, program, what).rstrip(b"\0").decode("utf-8", errors="replace")


# --- the process


def _serve(settings: dict[str, Any]) -> None:
    """Run jobs until the parent closes the connection."""
    import os
    from multiprocessing.connection import Connection

    requests, results = Connection(os.dup(0), writable=False), Connection(os.dup(1), readable=False)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # NVRTC and its libraries print where they like
        os.dup2(nothing, stream)
    if settings["preload"]:
        import ctypes

        ctypes.CDLL(settings["preload"], mode=ctypes.RTLD_GLOBAL)
    from cuda.bindings import nvrtc

    nvrtc.nvrtcVersion()
    watch = _Watch(os.getppid(), settings["cpu_seconds"])
    _limit_memory(settings["memory"])
    _read_only(settings["folders"])
    while True:
        try:
            message = json.loads(requests.recv_bytes())
        except EOFError:
            return
        watch.begin()
        headers = tuple((name, text) for name, text in message["headers"])
        job = Job(message["source"], message["path"], headers, message["entry"], tuple(message["arguments"]))
        try:
            made = run_job(nvrtc, job)
            answer = {"failure": made.failure, "log": made.log, "entry": made.entry, "error": ""}
        except (NvrtcError, MemoryError) as error:
            made, answer = Result("", ""), {"error": str(error) or type(error).__name__}
        results.send_bytes(json.dumps(answer).encode())
        results.send_bytes(made.ptx.encode())
        results.send_bytes(made.cubin)


class _Watch:
    """Ends this process when its parent has ended, or when a job takes too much CPU time, from a thread.

    A limit of the system's (RLIMIT_CPU) would not do: NVRTC sets it back.
    """

    def __init__(self, parent: int, cpu_seconds: float) -> None:
        import threading
        import time

        self._parent, self._cpu_seconds, self._clock = parent, cpu_seconds, time.process_time
        self._until = float("inf")
        threading.Thread(target=self._watch, daemon=True).start()

    def begin(self) -> None:
        self._until = self._clock() + self._cpu_seconds

    def _watch(self) -> None:
        import os
        import time

        while os.getppid() == self._parent:
            if self._clock() > self._until:
                os._exit(TOO_LONG)
            time.sleep(0.2)
        os._exit(1)


def _limit_memory(nbytes: int) -> None:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = nbytes if hard == resource.RLIM_INFINITY else min(nbytes, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read_only(folders: list[str]) -> None:
    """Let this process read files in ``folders`` alone and write none (Landlock; older kernels do not have it)."""
    import ctypes
    import os
    import struct

    # linux/landlock.h: all rights over files of its first version, but to execute and to list folders.
    create, add, restrict, no_new_privileges = 444, 445, 446, 38
    read_file, handled = 1 << 2, 0x1FFF & ~0b1001
    libc = ctypes.CDLL(None, use_errno=True)
    rules = libc.syscall(create, struct.pack("<Q", handled), ctypes.c_size_t(8), 0)
    if rules < 0:
        return
    for folder in folders:
        try:
            descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        libc.syscall(add, rules, 1, struct.pack("<Qi", read_file, descriptor), 0)
        os.close(descriptor)
    libc.prctl(no_new_privileges, 1, 0, 0, 0)
    libc.syscall(restrict, rules, 0)
    os.close(rules)


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))
