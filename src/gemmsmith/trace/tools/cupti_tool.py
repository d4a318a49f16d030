"""CUPTI's activity records through NVIDIA's cupti-python: every runtime and driver call, kernel, copy and fill.

Runs in the traced process. CUPTI delivers full buffers of records on its own thread.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from gemmsmith.trace.kernel_names import api_name, demangled
from gemmsmith.trace.timeline import API, COPY, KERNEL, SET, Event
from gemmsmith.trace.tools.copy_names import MEMSET, copy_name
from gemmsmith.trace.tools.events_file import write_events

EVENTS = "cupti.json"
# NVIDIA's samples use 8 MB, about 50,000 records per buffer.
_BUFFER_BYTES = 8 << 20
_FORCED = 1
_CALLS = ("DRIVER", "RUNTIME")
_WORK = ("CONCURRENT_KERNEL", "MEMCPY", "MEMCPY2", "MEMSET")


class CuptiTool:
    """Records from ``start`` to ``stop``."""

    def __init__(self) -> None:
        cupti: Any = import_module("cupti.cupti")
        self._cupti = cupti
        kind = cupti.ActivityKind
        self._calls = {int(getattr(kind, name)): getattr(kind, name) for name in _CALLS}
        self._work = {int(getattr(kind, name)): getattr(kind, name) for name in _WORK}
        domain = cupti.CallbackDomain
        self._domains = {int(kind.DRIVER): domain.DRIVER_API, int(kind.RUNTIME): domain.RUNTIME_API}
        self._names: dict[tuple[int, int], str] = {}
        self._events: list[Event] = []
        # (kind, cbid, start, duration, correlation, thread); names are looked up at the end, not on CUPTI's thread.
        self._raw_calls: list[tuple[int, int, int, int, int, int]] = []

    def start(self) -> None:
        self._cupti.activity_register_callbacks(self._requested, self._completed)
        for kind in (*self._work.values(), *self._calls.values()):
            self._cupti.activity_enable(kind)

    def stop(self, folder: Path) -> None:
        # Disable calls first: later calls are ours.
        for kind in self._calls.values():
            self._cupti.activity_disable(kind)
        _finish_work()
        self._cupti.activity_flush_all(_FORCED)
        for kind in self._work.values():
            self._cupti.activity_disable(kind)
        process = os.getpid()
        calls = [
            Event(API, self._call_name(kind, cbid), start, duration, correlation=correlation, thread=thread,
                  process=process)
            for kind, cbid, start, duration, correlation, thread in self._raw_calls
        ]  # fmt: skip
        write_events(folder / EVENTS, [*calls, *self._events])

    def _requested(self) -> tuple[int, int]:
        return _BUFFER_BYTES, 0  # 0: as many records as fit

    def _completed(self, records: list[Any]) -> None:
        for record in records:
            kind = int(record.kind)
            # A record without an end was still running at the forced flush.
            if (kind in self._calls or kind in self._work) and 0 < record.start <= record.end:
                self._take(kind, record)

    def _take(self, kind: int, record: Any) -> None:
        start, duration, correlation = record.start, record.end - record.start, record.correlation_id
        if kind in self._calls:
            self._raw_calls.append((kind, record.cbid, start, duration, correlation, record.thread_id))
            return
        where = {"device": record.device_id, "stream": record.stream_id, "correlation": correlation}
        names = self._cupti.ActivityKind
        if kind == int(names.CONCURRENT_KERNEL):
            event = Event(KERNEL, demangled(str(record.name)), start, duration,
                          grid=(record.grid_x, record.grid_y, record.grid_z),
                          block=(record.block_x, record.block_y, record.block_z),
                          registers=record.registers_per_thread, **where)  # fmt: skip
        elif kind == int(names.MEMSET):
            event = Event(SET, MEMSET, start, duration, record.bytes, **where)
        else:
            copied = self._cupti.ActivityMemcpyKind(record.copy_kind).name
            event = Event(COPY, copy_name(copied), start, duration, record.bytes, **where)
        self._events.append(event)

    def _call_name(self, kind: int, cbid: int) -> str:
        if (kind, cbid) not in self._names:
            found = self._cupti.get_callback_name(self._domains[kind], cbid)
            text = found.decode() if isinstance(found, bytes) else str(found)
            self._names[kind, cbid] = api_name(text)
        return self._names[kind, cbid]


def _finish_work() -> None:
    """Wait for work in the active primary contexts, which torch, CuPy and gemmsmith use; creates no context."""
    from cuda.bindings import driver

    try:
        status, count = driver.cuDeviceGetCount()
    except Exception:  # no driver: nothing runs; the loader has its own exception types
        return
    if int(status) != 0:  # the program never started the driver
        return
    for ordinal in range(int(count)):
        device = driver.cuDeviceGet(ordinal)[1]
        status, _, active = driver.cuDevicePrimaryCtxGetState(device)
        if int(status) != 0 or not active:
            continue
        status, context = driver.cuDevicePrimaryCtxRetain(device)
        if int(status) != 0:
            continue
        if int(driver.cuCtxPushCurrent(context)[0]) == 0:
            # A program that corrupted its context gets an error here; earlier records are kept.
            driver.cuCtxSynchronize()
            driver.cuCtxPopCurrent()
        driver.cuDevicePrimaryCtxRelease(device)
