"""Group independent operations of one kind, so that NumPy runs them in one call.

Within a stretch of straight-line code, an operation's level is one more than the level of anything it depends on:
registers it reads or overwrites, and memory accesses it must not pass. Operations of equal level and equal key form a
bundle. An outer product in registers takes one call per step of K instead of one call per element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from gemmsmith.sim.lowering.operation import Cell, Lowered, Operation, Pointer, Slot, Source
from gemmsmith.sim.lowering.read_back import ReadBack
from gemmsmith.sim.lowering.traits import Access, Bundling, Effect, Flow, Traits, Wait

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
    ``first`` is the first of them. ``following`` is the position of the next bundle. ``waits``: lanes may have to wait
    here, or go elsewhere. ``steps``: how many bundles it stands for.
    """

    first: Operation[D]
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
    following: int
    steps: int = 1


class Program:
    """The bundles of a lowered entry, made when they are first reached: much of a kernel handles edges and never runs.

    A position is the index of an operation. The bundles of a stretch of straight-line code take the first positions of
    that stretch, in execution order; ``following`` leads from one to the next, and from the last to the end.
    """

    def __init__(
        self, lowered: Lowered, limit: int, idle: frozenset[int] = frozenset(), read_back: ReadBack | None = None
    ) -> None:
        """No bundle has more than ``limit`` operations, but for those that need not be computed.

        ``idle``: the positions of these operations. They are counted, and nothing else. ``read_back``: loads that may
        read products, if there are any.
        """
        self.idle = idle
        self.read_back = read_back
        self.labels, self.start, self.end = lowered.labels, lowered.start, len(lowered.operations)
        self.bundles: list[Bundle[Any] | None] = [None] * self.end
        self._operations, self._limit = lowered.operations, limit
        self._targets = set(lowered.labels.values())

    def step(self, position: int) -> Bundle[Any]:
        """The bundle at a position that execution has reached."""
        found = self.bundles[position]
        if found is None:
            self._arrange(position)
            found = self.bundles[position]
            assert found is not None, "a jump into the middle of a stretch"
        return found

    def steps(self) -> Iterator[Bundle[Any]]:
        """All bundles, in the order of the program."""
        position = 0
        while position < self.end:
            step = self.step(position)
            yield step
            position = step.following

    def _arrange(self, start: int) -> None:
        """Make the bundles of the stretch that begins at ``start``."""
        operations, stop = self._operations, start + 1
        if operations[start].traits.bundling is Bundling.BOUNDARY:
            groups = [[operations[start]]]
        else:
            while (
                stop < self.end
                and stop not in self._targets
                and operations[stop].traits.bundling is not Bundling.BOUNDARY
            ):
                stop += 1
            groups = _groups(operations[start:stop], self._limit)
        made = [_make(group, start + n if n < len(groups) else stop) for n, group in enumerate(groups, 1)]
        for n, step in enumerate(_joined(made, self.idle) if self.idle else made):
            if step is not None:
                self.bundles[start + n] = step


def most_operations(lanes: int, most_elements: int = 1 << 16) -> int:
    """How many operations a bundle may have, for that many lanes: NumPy is fastest while arrays fit in the cache."""
    return max(1, most_elements // max(1, lanes))


def _groups(stretch: Sequence[Operation[Any]], limit: int) -> list[list[Operation[Any]]]:
    """The operations of one stretch by bundle, in an order that respects every dependency."""
    groups: dict[tuple[Any, ...], list[Operation[Any]]] = {}
    for level, operation in zip(_levels(stretch), stretch, strict=True):
        alone = operation.traits.bundling is Bundling.ALONE
        groups.setdefault((level, operation.position if alone else operation.key), []).append(operation)
    ordered = [group for _, group in sorted(groups.items(), key=lambda item: item[0][0])]
    return [group[start : start + limit] for group in ordered for start in range(0, len(group), limit)]


def _levels(stretch: Sequence[Operation[Any]]) -> list[int]:
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


def _joined(made: list[Bundle[Any]], idle: frozenset[int]) -> list[Bundle[Any] | None]:
    """The bundles of a stretch, of which those that follow one another and need not be computed are one.

    It stands where the first of them stood; the places of the others are None.
    """
    found: list[Bundle[Any] | None] = []
    first = -1  # of the bundles that are joined now
    for n, step in enumerate(made):
        if step.guard is not None or step.waits or any(o.position not in idle for o in step.operations):
            first = -1
            found.append(step)
            continue
        alone = replace(step, execute=_nothing)
        before = found[first] if first >= 0 else None
        if before is not None and before.traits.counts.executed is step.traits.counts.executed:
            found[first] = replace(before, operations=before.operations + step.operations, following=step.following,
                                   count=before.count + step.count, steps=before.steps + 1)  # fmt: skip
            found.append(None)
        else:
            first = n
            found.append(alone)
    return found


def _nothing(machine: Any, step: Bundle[Any], lanes: Any) -> None:
    """Instead of an operation that need not be computed."""
    del machine, step, lanes


def single(operation: Operation[D], following: int) -> Bundle[D]:
    """A bundle of one operation."""
    return _make([operation], following)


def _make(operations: list[Operation[D]], following: int) -> Bundle[D]:
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
    return Bundle(first, tuple(operations), len(operations), targets, sources, pointers, traits, first.execute,
                  first.detail, first.access, guard, first.negated, waits, following)  # fmt: skip


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
