"""The host's side of a worker process: it starts it, hands it tasks, answers it, and ends it with all its children."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Protocol

from gemmsmith.cluster.worker import BLOB, KEEP, RESULT, TASK, WANT

_LOG_BYTES = 8192
_PATIENCE_S = 5.0  # until an idle worker ends by itself


class Shelf(Protocol):
    """Blobs by key that workers share: sources, and compiled kernels."""

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, data: bytes) -> None: ...


@dataclass(frozen=True)
class Ended:
    """How a task ended on a worker.

    data  the result's bytes; empty where the worker did not survive the task
    lost  why it did not
    late  whether it was ended by its time limit
    """

    data: bytes = b""
    lost: str = ""
    late: bool = False
    log: str = ""
    host: str = ""
    seconds: float = 0.0


class Slot:
    """One worker process, started with its first task and kept for the next.

    handlers     the module with the functions of tasks
    environment  variables that the process gets besides this one's
    name         of the node, in results
    shares       whether compiled kernels are exchanged through the shelf: not where workers share a cache folder
    """

    def __init__(
        self, handlers: str, shelf: Shelf, environment: Mapping[str, str], shares: bool, name: str = ""
    ) -> None:
        self._name = name or platform.node()
        self._handlers, self._shelf, self._environment, self._shares = handlers, shelf, dict(environment), shares
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._folder = ""
        self._deadline = self._began = 0.0
        self.messages: Connection | None = None  # readable when there is something for ``step``

    @property
    def deadline(self) -> float:
        """When the running task must have ended, by time.monotonic."""
        return self._deadline

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def begin(self, task: bytes, limit: float) -> None:
        """Hand over a task; its time begins when the process is there."""
        if self._process is None or self._process.poll() is not None:
            self.end()
            self._start()
        assert self._log is not None
        self._log.seek(0)
        self._log.truncate()
        self._began = time.monotonic()
        self._deadline = self._began + limit
        with suppress(OSError):  # it has just died: ``step`` finds out
            self._tasks.send_bytes(TASK + task)

    def _start(self) -> None:
        self._folder = os.path.realpath(tempfile.mkdtemp(prefix="gemmsmith-worker-"))
        self._log = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed by end
        words = [self._handlers, self._folder, str(os.getpid()), "shares" if self._shares else "", self._name]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gemmsmith.cluster.worker", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._log, env=os.environ | self._environment, start_new_session=True, cwd=self._folder,
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._tasks = Connection(os.dup(self._process.stdin.fileno()), readable=False)
        self.messages = Connection(os.dup(self._process.stdout.fileno()), writable=False)
        self._process.stdin.close()
        self._process.stdout.close()

    def step(self, seconds: float) -> Ended | None:
        """Wait at most so long for the task; how it ended, or None while it runs."""
        assert self.messages is not None
        left = self._deadline - time.monotonic()
        try:
            if not self.messages.poll(max(0.0, min(seconds, left))):
                return self._late() if time.monotonic() >= self._deadline else None
            message = self.messages.recv_bytes()
            if message[:1] == RESULT:
                return Ended(message[1:], log=self._printed(), host=self._name, seconds=self._took)
            self._answer(message)
        except (EOFError, OSError):
            return self._lost()
        return None

    def _answer(self, message: bytes) -> None:
        if message[:1] == WANT:
            self._tasks.send_bytes(BLOB + (self._shelf.get(message[1:].decode()) or b""))
        elif message[:1] == KEEP:
            length = int.from_bytes(message[1:5], "big")
            self._shelf.put(message[5 : 5 + length].decode(), message[5 + length :])

    @property
    def _took(self) -> float:
        return time.monotonic() - self._began

    def _late(self) -> Ended:
        took, printed = self._took, self._printed()
        self.end()
        return Ended(late=True, log=printed, host=self._name, seconds=took)

    def _lost(self) -> Ended:
        assert self._process is not None
        took = self._took
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        status, printed = self._process.poll(), self._printed()
        self.end()
        return Ended(lost=_how(status), log=printed, host=self._name, seconds=took)

    def _printed(self) -> str:
        """The end of what the task printed."""
        if self._log is None:
            return ""
        size = os.fstat(self._log.fileno()).st_size
        data = os.pread(self._log.fileno(), _LOG_BYTES, max(0, size - _LOG_BYTES))
        return data.decode("utf-8", "replace").strip()

    def end(self) -> None:
        """End the process and everything it started, at once."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            for connection in (self._tasks, self.messages):
                with suppress(OSError):
                    if connection is not None:
                        connection.close()
        if self._log is not None:
            self._log.close()
        if self._folder:
            shutil.rmtree(Path(self._folder), ignore_errors=True)
        self._process = self._log = self.messages = None
        self._folder = ""


def _how(status: int | None) -> str:
    if status is not None and status < 0:
        with suppress(ValueError):
            return f"its process was ended by {signal.Signals(-status).name}"
    return f"its process ended with exit status {status}"
