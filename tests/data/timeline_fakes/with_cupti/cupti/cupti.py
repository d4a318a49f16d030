"""Records are made by the watched program itself, with ``call``, ``kernel``, ``copy`` and ``fill``.

They come back as the real ones do: only while their kind is enabled, in a buffer, on another thread, at a flush.
"""

from __future__ import annotations

import enum
import os
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


class ActivityKind(enum.IntEnum):
    MEMCPY = 1
    MEMSET = 2
    DRIVER = 4
    RUNTIME = 5
    CONCURRENT_KERNEL = 10
    MEMCPY2 = 22


class CallbackDomain(enum.IntEnum):
    DRIVER_API = 1
    RUNTIME_API = 2


class ActivityMemcpyKind(enum.IntEnum):
    HTOD = 1
    DTOH = 2
    DTOD = 8


class cuptiError(Exception):  # noqa: N801
    pass


NAMES = {(1, 307): "cuLaunchKernel", (2, 41): "cudaMemcpyAsync_v3020", (2, 51): "cudaMemsetAsync_v3020"}
_enabled: set[int] = set()
_pending: list[Any] = []
_completed: list[Callable[[list[Any]], None]] = []


def activity_register_callbacks(
    requested: Callable[[], tuple[int, int]], completed: Callable[[list[Any]], None]
) -> None:
    if os.environ.get("FAKE_CUPTI_FAILS"):
        raise cuptiError("CUPTI_ERROR_NOT_INITIALIZED")
    size, most = requested()
    assert size >= 1024
    assert most == 0
    _completed.append(completed)


def activity_enable(kind: int) -> None:
    assert _completed, "callbacks come first"
    _enabled.add(int(kind))


def activity_disable(kind: int) -> None:
    _enabled.discard(int(kind))


def activity_flush_all(flag: int) -> None:
    assert flag == 1
    records = _pending.copy()
    _pending.clear()
    worker = threading.Thread(target=lambda: _completed[0](records))
    worker.start()
    worker.join()


def get_callback_name(domain: int, cbid: int) -> str:
    return NAMES[int(domain), cbid]


def _record(kind: ActivityKind, start: int, end: int, **rest: Any) -> None:
    if int(kind) in _enabled:
        _pending.append(SimpleNamespace(kind=int(kind), start=start, end=end, **rest))


def call(kind: ActivityKind, cbid: int, start: int, end: int, correlation: int) -> None:
    _record(kind, start, end, cbid=cbid, correlation_id=correlation, thread_id=4242, process_id=4242)


def kernel(
    name: str, start: int, end: int, correlation: int, grid: Any, block: Any, registers: int, stream: int
) -> None:
    _record(ActivityKind.CONCURRENT_KERNEL, start, end, name=name, correlation_id=correlation, device_id=0,
            stream_id=stream, registers_per_thread=registers, grid_x=grid[0], grid_y=grid[1], grid_z=grid[2],
            block_x=block[0], block_y=block[1], block_z=block[2])  # fmt: skip


def copy(kind: int, nbytes: int, start: int, end: int, correlation: int) -> None:
    _record(ActivityKind.MEMCPY, start, end, copy_kind=kind, bytes=nbytes, correlation_id=correlation, device_id=0,
            stream_id=7)  # fmt: skip


def fill(nbytes: int, start: int, end: int, correlation: int) -> None:
    _record(ActivityKind.MEMSET, start, end, bytes=nbytes, correlation_id=correlation, device_id=0, stream_id=7)
