"""Group independent operations of one kind, so that NumPy runs them in one call.

Within a stretch of straight-line code an operation's level is one more than that of anything it depends
on: registers it reads or overwrites, and memory it must not pass. Operations of equal level and equal key
form a bundle. An outer product in registers becomes one call a step of K instead of one call an element.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.sim.lower import Lowered, Operation, Slot, Source

Rows = int | slice | NDArray[np.intp]

CONTROL = ("branch", "barrier", "warp_barrier", "shuffle", "exit", "commit", "wait", "fence", "assert")
# Operations that are never merged with another.
SINGLE = ("unpack", "pack", "atomic")
# Operations that only whole warps execute, and that wait for the lanes of their warp.
ALIGNED = ("ldmatrix", "stmatrix", "movmatrix", "mma")


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand position of a bundle: rows of a register file, or constants."""

    file: str
    rows: Rows
    dtype: np.dtype[Any]
    constant: Any


@dataclass(frozen=True, slots=True)
class Bundle:
    """Operations that run as one; ``count`` of them along the first axis when more than one."""

    operations: tuple[Operation, ...]
    targets: tuple[Operand, ...]
    sources: tuple[Operand, ...]
    offsets: tuple[Any, ...]

    @property
    def first(self) -> Operation:
        return self.operations[0]

    @property
    def count(self) -> int:
        return len(self.operations)


@dataclass(frozen=True)
class Program:
    """Bundles in execution order; labels are positions in it."""

    steps: tuple[Bundle, ...]
    labels: dict[str, int]


def bundle(lowered: Lowered, lanes: int, most_elements: int = 1 << 16) -> Program:
    """Arrange a lowered entry for ``lanes`` lanes; no bundle exceeds ``most_elements`` lane-operations."""
    limit = max(1, most_elements // max(1, lanes))
    starts = set(lowered.labels.values())
    steps: list[Bundle] = []
    where: dict[int, int] = {}
    stretch: list[Operation] = []
    for position, operation in enumerate(lowered.operations):
        if position in starts:
            steps += _arrange(stretch, limit)
            stretch = []
            where[position] = len(steps)
        if operation.kind in CONTROL:
            steps += _arrange(stretch, limit)
            stretch = []
            steps.append(_make([operation]))
        else:
            stretch.append(operation)
    steps += _arrange(stretch, limit)
    where[len(lowered.operations)] = len(steps)
    return Program(tuple(steps), {label: where[at] for label, at in lowered.labels.items()})


def _arrange(stretch: list[Operation], limit: int) -> list[Bundle]:
    """The bundles of one stretch, in an order that respects every dependency."""
    groups: dict[tuple[int, Any], list[Operation]] = {}
    for number, (level, operation) in enumerate(zip(_levels(stretch), stretch, strict=True)):
        key = (operation.kind, number) if operation.kind in SINGLE else operation.key
        groups.setdefault((level, key), []).append(operation)
    bundles = []
    for (_level, _key), operations in sorted(groups.items(), key=lambda item: item[0][0]):
        for start in range(0, len(operations), limit):
            bundles.append(_make(operations[start : start + limit]))
    return bundles


def _levels(stretch: list[Operation]) -> list[int]:
    written: dict[tuple[str, int], int] = {}
    read: dict[tuple[str, int], int] = {}
    last_load = last_store = last_copy = 0
    levels = []
    for operation in stretch:
        level = 0
        for cell in operation.reads():
            level = max(level, written.get(cell, 0))
        for cell in operation.writes():
            level = max(level, written.get(cell, 0), read.get(cell, 0))
        loads = operation.kind in ("load", "atomic", "ldmatrix") and operation.space != "param"
        stores = operation.kind in ("store", "atomic", "stmatrix")
        copies = operation.kind == "copy"  # reads and writes memory, in no order among copies
        if loads or stores or copies:
            level = max(level, last_store)
        if loads or stores:
            level = max(level, last_copy)
        if stores or copies:
            level = max(level, last_load)
        level += 1
        for cell in operation.reads():
            read[cell] = max(read.get(cell, 0), level)
        for cell in operation.writes():
            written[cell] = level
        if loads:
            last_load = max(last_load, level)
        if stores:
            last_store = max(last_store, level)
        if copies:
            last_copy = max(last_copy, level)
        levels.append(level)
    return levels


def _make(operations: list[Operation]) -> Bundle:
    first = operations[0]
    targets = tuple(_operand([o.targets[i] for o in operations]) for i in range(len(first.targets)))
    sources = tuple(_operand([o.sources[i] for o in operations]) for i in range(len(first.sources)))
    offsets = tuple(_offsets([o.offsets[i] for o in operations]) for i in range(len(first.offsets)))
    return Bundle(tuple(operations), targets, sources, offsets)


def _offsets(values: list[int]) -> Any:
    if len(set(values)) == 1:
        return values[0]
    return np.array(values, np.int64)[:, None]


def _operand(items: list[Source]) -> Operand:
    first = items[0]
    if isinstance(first, Slot):
        rows = [i.row for i in items if isinstance(i, Slot)]
        return Operand(first.file, _rows(rows), first.dtype, None)
    if len(items) == 1:
        return Operand("", 0, first.dtype, first)
    return Operand("", 0, first.dtype, np.array(items, first.dtype)[:, None])


def _rows(rows: list[int]) -> Rows:
    if len(rows) == 1:
        return rows[0]
    step = rows[1] - rows[0]
    if step > 0 and all(b - a == step for a, b in pairwise(rows)):
        return slice(rows[0], rows[-1] + 1, step)
    return np.array(rows, np.intp)
