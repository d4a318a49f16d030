"""Tasks in processes of this machine: one task at a time each, one GPU each where tasks want one."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from multiprocessing import connection

from gemmsmith.cluster.executor import Blobs
from gemmsmith.cluster.slot import Ended, Slot
from gemmsmith.cluster.sources import SourceTree
from gemmsmith.cluster.task import CPU, Task
from gemmsmith.errors import MissingDeviceError

_DEVICES = "CUDA_VISIBLE_DEVICES"


class LocalExecutor:
    """``count`` processes. For tasks that want a GPU, at most one process per GPU, which sees that one only."""

    def __init__(self, count: int, handlers: str, *, gpu: str = CPU, environment: Mapping[str, str] | None = None):
        self._shelf = Blobs()
        given = dict(environment or {})
        own = [given] * count if gpu == CPU else [given | {_DEVICES: name} for name in _gpus()[:count]]
        self._idle = [Slot(handlers, self._shelf, variables, shares=False) for variables in own]
        self._count = len(self._idle)
        self._busy: dict[Slot, Task] = {}

    def share(self, tree: SourceTree) -> None:
        self._shelf.put(f"sources:{tree.digest}", tree.data)

    def free(self) -> int:
        return len(self._idle)

    def workers(self) -> int:
        return self._count

    def start(self, task: Task) -> None:
        slot = self._idle.pop()
        self._busy[slot] = task
        slot.begin(task.to_bytes(), task.limit)

    def wait(self, seconds: float) -> Sequence[tuple[Task, Ended]]:
        until = time.monotonic() + seconds
        found: list[tuple[Task, Ended]] = []
        while not found and self._busy:
            now = time.monotonic()
            nearest = min(until, *(slot.deadline for slot in self._busy))
            ready = connection.wait([s.messages for s in self._busy if s.messages], max(0.0, nearest - now))
            for slot, task in list(self._busy.items()):
                if slot.messages in ready or time.monotonic() >= slot.deadline:
                    ended = slot.step(0.0)
                    if ended is not None:
                        found.append((task, ended))
                        del self._busy[slot]
                        self._idle.append(slot)
            if time.monotonic() >= until:
                break
        return found

    def close(self) -> None:
        for slot in (*self._idle, *self._busy):
            slot.end()
        self._busy.clear()


def _gpus() -> list[str]:
    """This machine's GPUs, as CUDA_VISIBLE_DEVICES names them."""
    visible = os.environ.get(_DEVICES)
    if visible is not None:
        names = [name for name in visible.split(",") if name.strip() and name.strip() != "-1"]
    else:
        from gemmsmith.run.cuda import device_count

        names = [str(number) for number in range(device_count())]
    if not names:
        raise MissingDeviceError(
            "this machine has no GPU for these tasks", "name a cluster that has: --on ray://host:10001"
        )
    return names
