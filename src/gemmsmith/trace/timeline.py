"""A program's CUDA time: the events of one run, and summary tables like those of Nsight Systems.

Every tool (trace/tools) yields the same ``Event``; tables, warnings and the trace file are built from events alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

API, KERNEL, COPY, SET = "api", "kernel", "memcpy", "memset"
Extent = tuple[int, int, int]
Place = tuple[str, Extent | None, Extent | None]


@dataclass(frozen=True, slots=True)
class Event:
    """One CUDA call on the host, or one kernel, copy or fill on a GPU. Times are nanoseconds on one clock.

    grid, block, registers   for kernels
    bytes                    for copies and fills
    stream                   for GPU work; ``thread`` and ``process`` for host calls
    correlation              the same number on a call and on the work it started; 0 if unknown
    """

    kind: str
    name: str
    start: int
    duration: int
    bytes: int = 0
    grid: Extent = (0, 0, 0)
    block: Extent = (0, 0, 0)
    registers: int = 0
    device: int = 0
    stream: int = 0
    correlation: int = 0
    thread: int = 0
    process: int = 0

    @property
    def end(self) -> int:
        return self.start + self.duration


@dataclass(frozen=True)
class Recording:
    """One run of a program under a tool. ``wall`` is its run time in nanoseconds."""

    events: tuple[Event, ...]
    tool: str
    wall: int
    exit_code: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """Statistics of the events with one name; ``deviation`` is the sample deviation (n − 1), 0 for one event."""

    name: str
    count: int
    share: float
    total: int
    average: float
    median: float
    minimum: int
    maximum: int
    deviation: float
    grid: Extent | None = None
    block: Extent | None = None


@dataclass(frozen=True)
class Table:
    """Rows by decreasing total. ``key`` is Nsight Systems' report name; ``unit`` is 'ns' or 'bytes'."""

    key: str
    title: str
    unit: str
    rows: tuple[Row, ...]

    @property
    def total(self) -> int:
        return sum(row.total for row in self.rows)


@dataclass(frozen=True)
class Totals:
    """Totals of a run in nanoseconds. Kernels and copies may overlap; ``gpu_busy`` counts overlapping time once."""

    wall: int
    api: int
    kernels: int
    memory: int
    gpu_busy: int
    gpu_span: int


def tables(events: Sequence[Event], by_grid: bool = False) -> tuple[Table, ...]:
    """The four tables, even if empty. ``by_grid`` gives each grid and block of a kernel its own row."""
    calls = [e for e in events if e.kind == API]
    kernels = [e for e in events if e.kind == KERNEL]
    moved = [e for e in events if e.kind in (COPY, SET)]
    return (
        _table("cuda_api_sum", "CUDA API calls", "ns", calls),
        _table("cuda_gpu_kern_gb_sum" if by_grid else "cuda_gpu_kern_sum", "kernels", "ns", kernels, by_grid),
        _table("cuda_gpu_mem_time_sum", "copies and fills, by time", "ns", moved),
        _table("cuda_gpu_mem_size_sum", "copies and fills, by size", "bytes", moved),
    )


def totals(recording: Recording) -> Totals:
    """How the run's time is divided."""
    events = recording.events
    work = [e for e in events if e.kind != API]
    kernels = sum(e.duration for e in work if e.kind == KERNEL)
    return Totals(
        wall=recording.wall,
        api=covered(e for e in events if e.kind == API),
        kernels=kernels,
        memory=sum(e.duration for e in work) - kernels,
        gpu_busy=covered(work),
        gpu_span=max(e.end for e in work) - min(e.start for e in work) if work else 0,
    )


def covered(events: Iterable[Event]) -> int:
    """Nanoseconds during which at least one of the events ran."""
    result = reach = 0
    for event in sorted(events, key=lambda e: e.start):
        reach = max(reach, event.start)
        result += max(0, event.end - reach)
        reach = max(reach, event.end)
    return result


def grouped(events: Iterable[Event], by_grid: bool = False) -> dict[Place, list[Event]]:
    """Events by name, or by name, grid and block, in order of first appearance."""
    groups: dict[Place, list[Event]] = {}
    for event in events:
        key = (event.name, event.grid, event.block) if by_grid else (event.name, None, None)
        groups.setdefault(key, []).append(event)
    return groups


def extent_text(extent: Extent) -> str:
    """Formatted as 8×4×1."""
    return "×".join(str(length) for length in extent)


def _table(key: str, title: str, unit: str, events: Sequence[Event], by_grid: bool = False) -> Table:
    groups = {where: _values(unit, group) for where, group in grouped(events, by_grid).items()}
    whole = sum(sum(values) for values in groups.values())
    rows = [_row(*where, values, whole) for where, values in groups.items()]
    return Table(key, title, unit, tuple(sorted(rows, key=lambda row: (-row.total, row.name))))


def _values(unit: str, events: Sequence[Event]) -> list[int]:
    return [e.bytes if unit == "bytes" else e.duration for e in events]


def _row(name: str, grid: Extent | None, block: Extent | None, values: list[int], whole: int) -> Row:
    numbers = np.array(values, dtype=np.float64)
    total = sum(values)
    return Row(
        name=name,
        count=len(values),
        share=100 * total / whole if whole else 0.0,
        total=total,
        average=total / len(values),
        median=float(np.median(numbers)),
        minimum=min(values),
        maximum=max(values),
        deviation=float(numbers.std(ddof=1)) if len(values) > 1 else 0.0,
        grid=grid,
        block=block,
    )
