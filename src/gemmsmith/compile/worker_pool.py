"""Processes in which NVRTC compiles strangers' files: it may crash, hang or eat memory there.

A process is started when it is first needed and kept for the next compilation. It reads only CUDA's headers and its own
libraries, and writes only precompiled headers, into a folder of its own; sources travel as text. It ends with its
parent, however that ends.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path

from gemmsmith.compile import nvrtc_job
from gemmsmith.compile.nvrtc_job import TOO_LONG, Job, NvrtcError, Result
from gemmsmith.compile.toolchain import Toolchain, cuda_12_library
from gemmsmith.errors import CompileError

CPU_SECONDS = 240  # the slowest rung takes 30
WALL_SECONDS = 280.0  # below the time for which another process waits for the cache's lock
_MOST_MEMORY, _LEAST_MEMORY = 16 << 30, 4 << 30
_IDLE = 2  # processes kept
# What Python and the CUDA libraries are found by; nothing else of the user's environment is passed on.
_ENVIRONMENT = re.compile(r"PATH$|LD_|PYTHON|CUDA|NVRTC|LANG$|LC_|VIRTUAL_ENV$|CONDA_PREFIX$")


class Worker:
    """One process."""

    def __init__(self, toolchain: Toolchain) -> None:
        preload = cuda_12_library()
        self.seconds = 0.0  # of CPU time, up to its last result
        self._scratch = _scratch_folder()
        settings = {
            "preload": str(preload) if preload is not None else "",
            "folders": _readable(toolchain),
            "memory": memory_limit(),
            "cpu_seconds": CPU_SECONDS,
            "scratch": self._scratch,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-P", nvrtc_job.__file__, json.dumps(settings)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if _ENVIRONMENT.match(name)},
            start_new_session=True,  # Ctrl-C is for the parent, which then ends this process
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests = Connection(os.dup(self._process.stdin.fileno()), readable=False)
        self._results = Connection(os.dup(self._process.stdout.fileno()), writable=False)
        self._process.stdin.close()
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, job: Job, wall_seconds: float) -> Result:
        """Compile. Any exception but ``NvrtcError`` leaves the process unusable."""
        message = {"source": job.source, "path": job.path, "headers": job.headers, "entry": job.entry,
                   "arguments": job.arguments}  # fmt: skip
        self._requests.send_bytes(json.dumps(message).encode())
        if not self._results.poll(wall_seconds):
            raise TimeoutError
        answer = json.loads(self._results.recv_bytes())
        ptx, cubin = self._results.recv_bytes().decode(), self._results.recv_bytes()
        self.seconds = answer["cpu"]
        if answer["error"]:
            raise NvrtcError(answer["error"])
        return Result(answer["failure"], answer["log"], answer["entry"], ptx, cubin)

    def end(self) -> int:
        """End the process at once; its exit status, negative for a signal."""
        self._close()
        try:
            with suppress(subprocess.TimeoutExpired):
                return self._process.wait(0.2)  # it may be ending by itself, with the status that tells why
            self._process.kill()
            return self._process.wait()
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def forget(self) -> None:
        """In a forked process: let go of what belongs to the parent."""
        self._close()
        self._process.returncode = 0

    def _close(self) -> None:
        for connection in (self._requests, self._results):
            with suppress(OSError):
                connection.close()


class WorkerPool:
    """Idle processes, for any number of threads."""

    def __init__(self) -> None:
        self._idle: list[Worker] = []
        self._living: list[Worker] = []
        self._lock = threading.Lock()

    def seconds(self) -> float:
        """CPU seconds of the processes that have not ended; a compilation in flight counts when it is done."""
        with self._lock:
            return sum(worker.seconds for worker in self._living)

    def run(self, job: Job, toolchain: Toolchain, name: str, wall_seconds: float = WALL_SECONDS) -> Result:
        """Compile ``job``, called ``name`` in messages; ``CompileError`` if the process does not survive it."""
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        try:
            if worker is None:
                worker = self._started(toolchain)
            result = worker.run(job, wall_seconds)
        except TimeoutError:
            assert worker is not None
            self._end(worker)
            raise CompileError(f"{name}: the compiler took more than {wall_seconds:.0f} s and was stopped",
                               "smaller tiles or fewer unrolled loops compile faster") from None  # fmt: skip
        except NvrtcError as error:
            assert worker is not None
            self._give_back(worker)
            raise CompileError(f"{name}: {error}") from None
        except (EOFError, OSError):
            raise _died(name, self._end(worker) if worker is not None else 0) from None
        except BaseException:  # Ctrl-C
            if worker is not None:
                self._end(worker)
            raise
        self._give_back(worker)
        return result

    def _give_back(self, worker: Worker) -> None:
        with self._lock:
            if len(self._idle) < _IDLE:
                self._idle.append(worker)
                return
        self._end(worker)

    def _started(self, toolchain: Toolchain) -> Worker:
        worker = Worker(toolchain)
        with self._lock:
            self._living.append(worker)
        return worker

    def _end(self, worker: Worker) -> int:
        with self._lock:
            self._living.remove(worker)  # from here on the system counts its seconds as those of an ended child
        return worker.end()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            self._end(worker)

    def forget(self) -> None:
        """In a forked process: the parent's processes are not ours."""
        self._lock = threading.Lock()
        living, self._idle, self._living = self._living, [], []
        for worker in living:
            worker.forget()


@cache
def worker_pool() -> WorkerPool:
    """This process's pool; ended with it."""
    pool = WorkerPool()
    atexit.register(pool.close)
    os.register_at_fork(after_in_child=pool.forget)
    return pool


def memory_limit() -> int:
    """Bytes that a compilation may take: three quarters of the machine's memory, between 4 and 16 GiB."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(_MOST_MEMORY, max(_LEAST_MEMORY, total * 3 // 4))


def _scratch_folder() -> str:
    """A new folder for one process; empty where none can be made."""
    with suppress(OSError):
        return tempfile.mkdtemp(prefix="gemmsmith-nvrtc-")
    return ""


def _died(name: str, status: int) -> CompileError:
    if status == TOO_LONG:
        return CompileError(f"{name}: the compiler took more than {CPU_SECONDS} s of CPU time and was stopped",
                            "smaller tiles or fewer unrolled loops compile faster")  # fmt: skip
    with suppress(ValueError):
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return CompileError(
            f"{name}: the compiler NVRTC crashed ({how})",
            f"it had {memory_limit() >> 30} GiB of memory; another version of nvidia-cuda-nvrtc may compile the file",
        )
    return CompileError(f"{name}: the compiler NVRTC crashed (signal {-status})")


def _readable(toolchain: Toolchain) -> list[str]:
    """Folders that a compiler's process may read: Python, shared libraries, CUDA's headers and libraries."""
    import cuda.bindings

    packages = [str(Path(path).parent.parent) for path in cuda.bindings.__path__]
    prefixes = [sys.prefix, sys.base_prefix, sys.exec_prefix]
    system = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/cuda",
              "/etc/ld.so.cache", "/dev/null", "/dev/urandom", "/proc/cpuinfo", "/proc/meminfo"]  # fmt: skip
    toolkits = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    libraries = [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
    found = [*prefixes, *packages, *system, *toolkits, *libraries, *map(str, toolchain.includes)]
    return [folder for folder in dict.fromkeys(found) if folder != "/"]
