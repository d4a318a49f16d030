"""A run as a trace for Perfetto (ui.perfetto.dev) and Chrome's tracing page, in the JSON Trace Event format.

Each host thread and each stream is a track; arrows lead from calls to the work they started.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from gemmsmith.errors import UsageError
from gemmsmith.trace.kernel_names import short_name
from gemmsmith.trace.timeline import API, KERNEL, Event, Recording

_ORIGIN = "measured"
# Host processes keep their ids; GPUs are numbered from here, above any process id.
_GPU = 1 << 23
# Tracks per stream: overlapping work on a stream (graph nodes, dependent launches) goes to the next track.
_TRACKS = 64


def write_trace(path: Path, recording: Recording, command: str) -> None:
    """Write the trace, compressed if the name ends in .gz."""
    text = json.dumps(trace(recording, command), allow_nan=False, separators=(",", ":"))
    data = text.encode()
    try:
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "choose another --trace file") from None


def trace(recording: Recording, command: str) -> dict[str, Any]:
    """The trace as a JSON object; times are microseconds since the first event."""
    events = sorted(recording.events, key=lambda e: (e.start, -e.duration))
    zero = events[0].start if events else 0
    placed = [(event, *_place(event)) for event in events if event.kind == API]
    placed += _streams(event for event in events if event.kind != API)
    items = [*_names(placed), *(_slice(event, pid, tid, zero) for event, pid, tid in placed), *_arrows(placed, zero)]
    return {
        "traceEvents": items,
        "displayTimeUnit": "ns",
        "otherData": {"command": command, "tool": recording.tool, "origin": _ORIGIN, "exit_code": recording.exit_code},
    }


Placed = tuple[Event, int, int]


def _place(event: Event) -> tuple[int, int]:
    return event.process, event.thread


def _streams(events: Iterable[Event]) -> Iterator[Placed]:
    """Assign GPU work to tracks. A viewer shows overlapping slices only if they nest, so overlaps get another track."""
    busy: dict[tuple[int, int], list[int]] = {}
    for event in events:
        ends = busy.setdefault((event.device, event.stream), [])
        track = next((i for i, end in enumerate(ends) if end <= event.start), len(ends))
        track = min(track, _TRACKS - 1)
        ends[track : track + 1] = [event.end]
        yield event, _GPU + event.device, event.stream * _TRACKS + track


def _names(placed: list[Placed]) -> Iterator[dict[str, Any]]:
    tracks = {(pid, tid): event for event, pid, tid in reversed(placed)}
    for pid in sorted({pid for pid, _ in tracks}):
        gpu = pid >= _GPU
        yield _meta("process_name", pid, 0, {"name": f"GPU {pid - _GPU}" if gpu else f"CUDA API, process {pid}"})
        yield _meta("process_sort_index", pid, 0, {"sort_index": pid})
    for pid, tid in sorted(tracks):
        if pid < _GPU:
            name = f"thread {tid}"
        else:
            stream, track = divmod(tid, _TRACKS)
            name = f"stream {stream}" + (f" ({track + 1})" if track else "")
        yield _meta("thread_name", pid, tid, {"name": name})
        yield _meta("thread_sort_index", pid, tid, {"sort_index": tid})


def _meta(name: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": 0, "args": args}


def _slice(event: Event, pid: int, tid: int, zero: int) -> dict[str, Any]:
    args: dict[str, Any] = {"correlation": event.correlation}
    if event.kind == KERNEL:
        args |= {"name": event.name, "grid": list(event.grid), "block": list(event.block),
                 "registers": event.registers}  # fmt: skip
    elif event.kind != API:
        rate = event.bytes / event.duration if event.duration else 0.0
        args |= {"bytes": event.bytes, "GB/s": round(rate, 3)}
    return {"ph": "X", "cat": event.kind, "name": short_name(event.name), "pid": pid, "tid": tid,
            "ts": (event.start - zero) / 1000, "dur": event.duration / 1000, "args": args}  # fmt: skip


def _arrows(placed: list[Placed], zero: int) -> Iterator[dict[str, Any]]:
    """Arrows from each call to the work it started; one call may start many (a graph)."""
    # The innermost call launched the work: a driver call inside a runtime call has the same correlation.
    calls = {event.correlation: (event, pid, tid) for event, pid, tid in placed if event.kind == API}
    number = 0
    for event, pid, tid in placed:
        if event.kind == API or event.correlation == 0 or event.correlation not in calls:
            continue
        call, call_pid, call_tid = calls[event.correlation]
        number += 1
        common = {"cat": "launch", "name": "launch", "id": number}
        yield common | {"ph": "s", "pid": call_pid, "tid": call_tid, "ts": (call.start - zero) / 1000}
        yield common | {"ph": "f", "bp": "e", "pid": pid, "tid": tid, "ts": (event.start - zero) / 1000}
