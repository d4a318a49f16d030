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


def run_job(nvrtc: Any, job: Job, headers: PrecompiledHeaders | None = None) -> Result:
    """Compile with the module ``cuda.bindings.nvrtc``; ``headers`` spares those that were precompiled before."""
    names, texts = [name.encode() for name, _ in job.headers], [text.encode() for _, text in job.headers]
    created = nvrtc.nvrtcCreateProgram(job.source.encode(), job.path.encode(), len(names), texts, names)
    program = _checked(nvrtc, created)
    try:
        _checked(nvrtc, nvrtc.nvrtcAddNameExpression(program, job.entry.encode()))
        given = job.arguments if headers is None else (*job.arguments, *headers.begin(job))
        arguments = [argument.encode() for argument in given]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(arguments), arguments)
        if headers is not None:
            headers.end(program, status == nvrtc.nvrtcResult.NVRTC_SUCCESS)
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


class PrecompiledHeaders:
    """Precompiles what the source includes when it is compiled for the second time: CUDA's C++ libraries take seconds.

    NVRTC compares the first lines of a source and the options with those that its file was made from, but not the texts
    of headers given in memory: each set of them has a folder of its own. The file holds NVRTC's whole heap, hundreds of
    megabytes, so one is kept at a time.
    """

    SLOW_S = 1.0  # of a compilation that is worth it: writing the file takes a third of what it spares each time
    _HEAP_BYTES = 640 << 20  # <cuda/barrier> and <cooperative_groups.h> take 350 MB, CuTe 500
    _LEAST_FREE_BYTES = 2 << 30
    _MOST_FILES = 2  # for sources with the same headers whose first lines differ

    def __init__(self, nvrtc: Any, folder: str) -> None:
        import time

        self._nvrtc, self._folder, self._clock = nvrtc, folder, time.process_time
        self._slow: set[str] = set()  # headers that were compiled before, and slowly
        self._files: dict[str, int] = {}  # how many files were written for them
        self._key, self._started, self._asked = "", 0.0, False
        self._known = bool(folder) and hasattr(nvrtc, "nvrtcSetPCHHeapSize") and nvrtc.nvrtcVersion()[1:] >= (12, 8)
        if self._known:
            nvrtc.nvrtcSetPCHHeapSize(self._HEAP_BYTES)

    def begin(self, job: Job) -> tuple[str, ...]:
        """Further options for ``job``."""
        import hashlib

        text = json.dumps((job.path, sorted(job.headers), job.arguments))
        self._key = hashlib.sha256(text.encode()).hexdigest()[:16]
        self._started = self._clock()
        self._asked = self._known and self._key in self._slow and self._has_room()
        if not self._asked:
            return ()
        return "--pch", f"--pch-dir={self._folder}/{self._key}", "--pch-verbose=false", "--pch-messages=false"

    def _has_room(self) -> bool:
        import os
        import shutil

        if self._files.get(self._key, 0) > self._MOST_FILES:
            return False
        if self._key not in self._files:
            for other in self._files:
                shutil.rmtree(f"{self._folder}/{other}", ignore_errors=True)
            self._files = {}
            if shutil.disk_usage(self._folder).free < self._LEAST_FREE_BYTES:
                return False
            os.makedirs(f"{self._folder}/{self._key}", exist_ok=True)
            self._files[self._key] = 0
        return True

    def failed(self, result: Result) -> bool:
        """Whether a compilation failed for its precompiled headers: for no line of the source."""
        if not (self._asked and result.failure and "atastrophic error: " in result.log):
            return False
        self._known = False
        return True

    def end(self, program: Any, compiled: bool) -> None:
        """What the compilation that began tells about its headers."""
        if compiled and self._clock() - self._started > self.SLOW_S:
            self._slow.add(self._key)
        if self._asked:
            (status,) = self._nvrtc.nvrtcGetPCHCreateStatus(program)
            if status == self._nvrtc.nvrtcResult.NVRTC_SUCCESS:
                self._files[self._key] += 1
            elif status != self._nvrtc.nvrtcResult.NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED:
                self._files[self._key] = self._MOST_FILES + 1  # they do not fit


# --- the process


def _serve(settings: dict[str, Any]) -> None:
    """Run jobs until the parent closes the connection."""
    import os
    import time
    from multiprocessing.connection import Connection

    requests, results = Connection(os.dup(0), writable=False), Connection(os.dup(1), readable=False)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # NVRTC and its libraries print where they like
        os.dup2(nothing, stream)
    if settings["scratch"]:
        os.environ["TMPDIR"] = settings["scratch"]  # where NVRTC writes a precompiled header before it has its name
    if settings["preload"]:
        import ctypes

        ctypes.CDLL(settings["preload"], mode=ctypes.RTLD_GLOBAL)
    from cuda.bindings import nvrtc

    nvrtc.nvrtcVersion()
    scratch = settings["scratch"]
    watch = _Watch(os.getppid(), settings["cpu_seconds"], scratch)
    _limit_memory(settings["memory"])
    _restrict_files(settings["folders"], scratch)
    precompiled = PrecompiledHeaders(nvrtc, scratch)
    while True:
        try:
            message = json.loads(requests.recv_bytes())
        except EOFError:
            return
        watch.begin()
        headers = tuple((name, text) for name, text in message["headers"])
        job = Job(message["source"], message["path"], headers, message["entry"], tuple(message["arguments"]))
        try:
            made = run_job(nvrtc, job, precompiled)
            if precompiled.failed(made):
                made = run_job(nvrtc, job)
            answer = {"failure": made.failure, "log": made.log, "entry": made.entry, "error": ""}
        except (NvrtcError, MemoryError) as error:
            made, answer = Result("", ""), {"error": str(error) or type(error).__name__}
        results.send_bytes(json.dumps(answer | {"cpu": time.process_time()}).encode())
        results.send_bytes(made.ptx.encode())
        results.send_bytes(made.cubin)


class _Watch:
    """Ends this process when its parent has ended, or when a job takes too much CPU time, from a thread.

    A limit of the system's (RLIMIT_CPU) would not do: NVRTC sets it back.
    """

    def __init__(self, parent: int, cpu_seconds: float, scratch: str) -> None:
        import threading
        import time

        self._parent, self._cpu_seconds, self._clock = parent, cpu_seconds, time.process_time
        self._until, self._scratch = float("inf"), scratch
        threading.Thread(target=self._watch, daemon=True).start()

    def begin(self) -> None:
        self._until = self._clock() + self._cpu_seconds

    def _watch(self) -> None:
        import os
        import shutil
        import time

        while os.getppid() == self._parent:
            if self._clock() > self._until:
                os._exit(TOO_LONG)
            time.sleep(0.2)
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)
        os._exit(1)


def _limit_memory(nbytes: int) -> None:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = nbytes if hard == resource.RLIM_INFINITY else min(nbytes, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _restrict_files(folders: list[str], scratch: str) -> None:
    """Let this process read files in ``folders`` alone, and write in ``scratch`` alone (Landlock; older kernels do not
    have it)."""
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
    allowed = [(folder, read_file) for folder in folders] + [(scratch, handled)] * bool(scratch)
    for folder, rights in allowed:
        try:
            descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        libc.syscall(add, rules, 1, struct.pack("<Qi", rights, descriptor), 0)
        os.close(descriptor)
    libc.prctl(no_new_privileges, 1, 0, 0, 0)
    libc.syscall(restrict, rules, 0)
    os.close(rules)


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))
