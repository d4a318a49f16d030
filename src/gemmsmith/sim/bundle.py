"""Group independent operations of one kind, so that NumPy runs them in one call.

Within a stretch of straight-line code, an operation's level is one more than the level of anything it depends on:
registers it reads or overwrites, and memory accesses it must not pass. Operations of equal level and equal key form a
bundle. An outer product in registers takes one call per step of K instead of one call per element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from gemmsmith.sim.operation import Cell, Lowered, Operation, Pointer, Slot, Source
from gemmsmith.sim.traits import Access, Bundling, Effect, Flow, Traits, Wait

Rows = int | slice | NDArray[np.intp]
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand position of a bundle: rows of a register file, or constants."""

    file: str
    rows: Rows
    dtype: np.dtype[Any]
    constant: Any


@dataclass(frozen=True, slots=True)
class Pointers:
    """One address operand of a bundle. ``offset`` is a column if the operations differ in it."""

    base: Operand
    offset: int | NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bundle(Generic[D]):
    """Operations that run as one. With more than one, their values are rows of two-dimensional arrays.

    What the operations have in common is repeated here: ``traits``, ``execute``, ``detail``, ``access`` and guard.
    ``waits`` says whether lanes may have to wait here, or go elsewhere than to the next bundle.
    """

    operations: tuple[Operation[D], ...]
    count: int
    targets: tuple[Operand, ...]
    sources: tuple[Operand, ...]
    pointers: tuple[Pointers, ...]
    traits: Traits
    execute: Callable[..., None]
    detail: D
    access: Access | None
    guard: int | None
    negated: bool
    waits: bool

    @property
    def first(self) -> Operation[D]:
        return self.operations[0]


@dataclass(frozen=True)
class Program:
    """Bundles in execution order; labels are positions in it."""

    steps: tuple[Bundle[Any], ...]
    labels: dict[str, int]


def bundle(lowered: Lowered, lanes: int, most_elements: int = 1 << 16) -> Program:
    """Arrange a lowered entry for ``lanes`` lanes; no bundle exceeds ``most_elements`` lane-operations."""
    limit = max(1, most_elements // max(1, lanes))
    starts = set(lowered.labels.values())
    steps: list[Bundle[Any]] = []
    where: dict[int, int] = {}
    stretch: list[Operation[Any]] = []
    for position, operation in enumerate(lowered.operations):
        if position in starts:
            steps += _arrange(stretch, limit)
            stretch = []
            where[position] = len(steps)
        if operation.traits.bundling is Bundling.BOUNDARY:
            steps += _arrange(stretch, limit)
            stretch = []
            steps.append(_make([operation]))
        else:
            stretch.append(operation)
    steps += _arrange(stretch, limit)
    where[len(lowered.operations)] = len(steps)
    return Program(tuple(steps), {label: where[at] for label, at in lowered.labels.items()})


def _arrange(stretch: list[Operation[Any]], limit: int) -> list[Bundle[Any]]:
    """The bundles of one stretch, in an order that respects every dependency."""
    groups: dict[tuple[Any, ...], list[Operation[Any]]] = {}
    for level, operation in zip(_levels(stretch), stretch, strict=True):
        alone = operation.traits.bundling is Bundling.ALONE
        groups.setdefault((level, operation.position if alone else operation.key), []).append(operation)
    bundles = []
    for _, operations in sorted(groups.items(), key=lambda item: item[0][0]):
        for start in range(0, len(operations), limit):
            bundles.append(_make(operations[start : start + limit]))
    return bundles


def _levels(stretch: list[Operation[Any]]) -> list[int]:
    written: dict[Cell, int] = {}
    read: dict[Cell, int] = {}
    last_load = last_store = last_copy = 0
    levels = []
    for operation in stretch:
        reads, writes = operation.reads(), operation.writes()
        level = 0
        for cell in reads:
            if (at := written.get(cell, 0)) > level:
                level = at
        for cell in writes:
            level = max(level, written.get(cell, 0), read.get(cell, 0))
        effect = None if operation.access is None else operation.access.effect
        if effect is None:
            level += 1
        elif effect is Effect.COPY:
            level = max(level, last_store, last_load) + 1
            last_copy = max(last_copy, level)
        elif effect is Effect.READ:
            level = max(level, last_store, last_copy) + 1
            last_load = max(last_load, level)
        else:
            level = last_store = max(level, last_store, last_copy, last_load) + 1
            if effect is Effect.UPDATE:
                last_load = level
        for cell in reads:
            if read.get(cell, 0) < level:
                read[cell] = level
        for cell in writes:
            written[cell] = level
        levels.append(level)
    return levels


def _make(operations: list[Operation[D]]) -> Bundle[D]:
    first, traits = operations[0], operations[0].traits
    if len(operations) == 1:
        targets, sources = tuple(map(_single, first.targets)), tuple(map(_single, first.sources))
        pointers = tuple([Pointers(_single(p.base), p.offset) for p in first.pointers])
    else:
        targets = tuple(_merged(list(column)) for column in zip(*(o.targets for o in operations), strict=True))
        sources = tuple(_merged(list(column)) for column in zip(*(o.sources for o in operations), strict=True))
        pointers = tuple(_pointers(list(column)) for column in zip(*(o.pointers for o in operations), strict=True))
    waits = traits.waits_on is not Wait.NOTHING or traits.flow is not Flow.NEXT
    guard = None if first.guard is None else first.guard.row
    return Bundle(tuple(operations), len(operations), targets, sources, pointers, traits, first.execute, first.detail,
                  first.access, guard, first.negated, waits)  # fmt: skip


def _pointers(items: list[Pointer]) -> Pointers:
    offsets = [item.offset for item in items]
    same = offsets.count(offsets[0]) == len(offsets)
    return Pointers(
        _merged([item.base for item in items]), offsets[0] if same else np.array(offsets, np.int64)[:, None]
    )


def _single(item: Source) -> Operand:
    if isinstance(item, Slot):
        return Operand(item.file, item.row, item.dtype, None)
    return Operand("", 0, item.dtype, item)


def _merged(items: list[Source]) -> Operand:
    first = items[0]
    if isinstance(first, Slot):
        return Operand(first.file, _rows([i.row for i in items if isinstance(i, Slot)]), first.dtype, None)
    return Operand("", 0, first.dtype, np.array(items, first.dtype)[:, None])


def _rows(rows: list[int]) -> Rows:
    """One row that all operations share is a number: NumPy broadcasts it. Rows in even steps are a slice."""
    step = rows[1] - rows[0]
    if step == 0 and rows.count(rows[0]) == len(rows):
        return rows[0]
    if step > 0 and all(b - a == step for a, b in pairwise(rows)):
        return slice(rows[0], rows[-1] + 1, step)
    return np.array(rows, np.intp)
