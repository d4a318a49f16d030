"""A worker process: reads tasks from its standard input, one at a time, and writes messages to its standard output.

    python -m gemmsmith.cluster.worker HANDLERS FOLDER PARENT SHARES NODE

Messages to its host (``slot.py``) begin with one byte: ``R`` a result, ``W`` wants a blob by its key, ``K`` keeps one.
The host answers ``W`` with ``B`` and the blob, or with ``B`` alone. A task begins with ``T``. HANDLERS is a module
whose ``handler_named`` gives the function of a kind. What a task prints goes to the host's log file.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gemmsmith.cluster.task import Node
    from gemmsmith.store.results import Machine

TASK, RESULT, WANT, KEEP, BLOB = b"T", b"R", b"W", b"K", b"B"
KERNEL = "kernel:"
_WATCH_S = 0.5
_TREES = 4  # unpacked source trees that are kept
Handler = Callable[[dict[str, Any], Path], Any]


@dataclass
class Host:
    """The other end of the pipes."""

    tasks: Connection
    messages: Connection
    lock: threading.Lock = field(default_factory=threading.Lock)

    def want(self, key: str) -> bytes | None:
        """The blob that another worker or the driver has for ``key``."""
        with self.lock:
            self.messages.send_bytes(WANT + key.encode())
            return self.tasks.recv_bytes()[1:] or None

    def keep(self, key: str, data: bytes) -> None:
        """Give other workers a blob."""
        name = key.encode()
        with self.lock:
            self.messages.send_bytes(KEEP + len(name).to_bytes(4, "big") + name + data)


@dataclass
class Worker:
    """Runs tasks in this process."""

    host: Host
    handlers: Callable[[str], Handler]
    folder: Path
    node: str = ""
    trees: dict[str, Path] = field(default_factory=dict)

    def run(self, data: bytes) -> bytes:
        """The result of the task in ``data``, as bytes."""
        from gemmsmith.cluster.task import DONE, TaskResult, failure
        from gemmsmith.errors import CompileError, GemmsmithError

        task = json.loads(data)
        start = time.monotonic()
        try:
            self._check_version(task["version"])
            where = self._sources(task["sources"])
            os.chdir(where)
            value = self.handlers(task["kind"])(task["parameters"], self._root(task["sources"]))
            result = TaskResult(task["digest"], DONE, json.loads(self._as_sent(value, task["sources"])))
        except GemmsmithError as error:
            log = error.log if isinstance(error, CompileError) else ""
            message, hint = (self._as_sent(text, task["sources"]) for text in (error.message, error.hint))
            result = failure(task["digest"], type(error).__name__, json.loads(message), json.loads(hint), log)
        except Exception as error:
            traceback.print_exc()
            what = f"{type(error).__name__}: {error}"
            result = failure(task["digest"], "BugError", f"{task['label']} failed: {what}", "the log has the traceback")
        seconds = time.monotonic() - start
        sys.stdout.flush()
        sys.stderr.flush()
        return replace(result, node=_node(self.node, bool(task["gpu"])), seconds=seconds).to_bytes()

    def _check_version(self, version: str) -> None:
        from gemmsmith import __version__
        from gemmsmith.errors import UsageError

        if version != __version__:
            raise UsageError(f"this worker has gemmsmith {__version__}, the command is of {version}",
                             "install the same version on all machines")  # fmt: skip

    def _root(self, digest: str) -> Path:
        return self.folder / (digest[:16] or "none")

    def _sources(self, digest: str) -> Path:
        """The working directory of a task, with its sources unpacked."""
        from gemmsmith.cluster.sources import unpack
        from gemmsmith.errors import GemmsmithError

        if digest not in self.trees:
            root = self._root(digest)
            root.mkdir(parents=True, exist_ok=True)
            here = root
            if digest:
                data = self.host.want(f"sources:{digest}")
                if data is None:
                    raise GemmsmithError("the sources of this task are gone", "run the command again")
                here = unpack(data, root)
            while len(self.trees) >= _TREES:
                oldest = next(iter(self.trees))
                del self.trees[oldest]
                shutil.rmtree(self._root(oldest), ignore_errors=True)
            self.trees[digest] = here
        return self.trees[digest]

    def _as_sent(self, value: Any, digest: str) -> str:
        """As JSON, with the paths that the driver knows."""
        return json.dumps(value, allow_nan=False).replace(str(self._root(digest)), "") or '""'


def _node(name: str, on_gpu: bool) -> Node:
    """This machine, and the GPU's clock as it is now."""
    from gemmsmith.bench.clocks import open_probe
    from gemmsmith.cluster.task import Node

    machine, address = _machine(on_gpu)
    if not address:
        return Node(name, machine)
    probe = open_probe(address)
    clock = probe.read().sm_mhz
    probe.close()
    return Node(name, machine, clock)


@cache
def _machine(on_gpu: bool) -> tuple[Machine, str]:
    """The facts of this machine, and the GPU's address; '' where none is used."""
    from gemmsmith.bench.machine import machine_facts
    from gemmsmith.compile.toolchain import find_toolchain
    from gemmsmith.errors import GemmsmithError

    compiler, device = "", None
    with suppress(GemmsmithError):
        compiler = find_toolchain().compiler
    if on_gpu:
        from gemmsmith.run.cuda import cuda_device

        with suppress(GemmsmithError):
            device = cuda_device()
    return machine_facts(device, compiler), device.pci_bus_id if device is not None else ""


def share_kernels(host: Host) -> None:
    """Compiled kernels come from other workers where they have them, and go to them."""
    from gemmsmith.compile.compiler import default_cache

    default_cache().exchange = (lambda key: host.want(KERNEL + key), lambda key, data: host.keep(KERNEL + key, data))


def _start_guard() -> None:
    """A process that ends everything this one started, once this one is gone, however it ended.

    Ray ends a worker's process at once, and only that. Called before there are threads.
    """
    ours, its = os.pipe()
    if os.fork():
        os.close(ours)
        os.set_inheritable(its, False)
        return
    os.dup2(ours, 0)
    os.closerange(1, min(65536, os.sysconf("SC_OPEN_MAX")))
    os.read(0, 1)  # returns when no process has the other end
    os.killpg(0, signal.SIGKILL)


def _end_with_parent(parent: int) -> None:
    """End this process and its children once the host is gone, however it ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_S)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, name="gemmsmith-parent", daemon=True).start()


def main(handlers: str, folder: str, parent: str, shares: str, name: str) -> None:
    _start_guard()
    _end_with_parent(int(parent))
    host = Host(Connection(os.dup(0), writable=False), Connection(os.dup(1), readable=False))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # what a task prints is part of the log
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker = Worker(host, importlib.import_module(handlers).handler_named, Path(folder), name)
    if shares == "shares":
        share_kernels(host)
    while True:
        try:
            data = host.tasks.recv_bytes()
        except EOFError:
            return
        host.messages.send_bytes(RESULT + worker.run(data[1:]))


if __name__ == "__main__":
    main(*sys.argv[1:])
