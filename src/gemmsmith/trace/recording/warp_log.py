"""The events of one warp: in program order within straight-line code, and on a clock of issue slots.

The simulator runs independent instructions of a stretch of straight-line code in an order of its own. A stretch ends
where lanes branch or wait; there its items are put back into program order, and get their slots.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gemmsmith.trace.launch_trace import Access, Event, Kind

# Neighbours of one of these kinds become one event.
_RUNS = frozenset({Kind.ARITHMETIC, Kind.OTHER})


@dataclass(slots=True)
class Item:
    """An instruction that was executed, before it has a slot. ``position`` orders it within its stretch."""

    position: int
    kind: Kind
    lanes: int
    access: Access | None = None
    target: Access | None = None
    facts: Mapping[str, Any] | None = None
    slots: int = 1


class WarpLog:
    """Events of one warp, at most ``most``: the first two thirds of them, and the last third."""

    def __init__(self, number: int, most: int) -> None:
        self.number, self.clock, self.skipped = number, 0, 0
        self._most = most * 2 // 3
        self.head: list[Event] = []
        self.tail: deque[Event] = deque(maxlen=max(1, most - self._most))
        self._stretch: list[Item] = []

    def add(self, item: Item) -> None:
        """An instruction of the current stretch."""
        self._stretch.append(item)

    def add_all(self, positions: tuple[tuple[int, Kind], ...], lanes: int) -> None:
        """Instructions without accesses."""
        self._stretch += [Item(position, kind, lanes) for position, kind in positions]

    def end_stretch(self) -> int:
        """Give what was executed so far its slots; returns the next slot."""
        if self._stretch:
            self._stretch.sort(key=lambda item: item.position)
            run: Item | None = None
            count = 0
            for item in self._stretch:
                if run is not None and item.kind is run.kind and item.lanes == run.lanes and item.kind in _RUNS:
                    count += 1
                    continue
                if run is not None:
                    self._emit(run, count)
                run, count = item, 1
            assert run is not None
            self._emit(run, count)
            self._stretch = []
        return self.clock

    def now(self, item: Item) -> None:
        """An instruction that ends a stretch."""
        self.end_stretch()
        self._emit(item, 1)

    def _emit(self, item: Item, count: int) -> None:
        slots = max(count, item.slots)
        event = Event(self.clock, slots, item.position, count, item.lanes, item.access, item.target, item.facts)
        self.clock += slots
        if len(self.head) < self._most:
            self.head.append(event)
            return
        if len(self.tail) == self.tail.maxlen:
            self.skipped += 1
        self.tail.append(event)

    def events(self) -> tuple[Event, ...]:
        self.end_stretch()
        return (*self.head, *self.tail)
