"""What a process remembers of its calls: one cache, one bound, one eviction rule.

It holds, under keys that begin differently: checked problems, loaded kernels, executors (a call's launches, planned and
loaded), cached calls by their call key, and launches with all addresses filled in. Nothing in it keeps a tensor alive.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from gemmsmith.choose.choice import ANSWERS

CAPACITY = 4096  # a launch takes about 3 KB
HINTS, HINTS_OF_A_NAME = 1024, 4  # of one weight: training and evaluation, with two numbers of rows


class CallCache:
    """The most recently used entries. All are dropped when tuning results change, since kernels may be chosen anew."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self._entries: OrderedDict[Any, Any] = OrderedDict()
        self._hints: dict[Any, tuple[Any, ...]] = {}
        self._generation = ANSWERS.generation

    def get(self, key: Any) -> Any:
        """The value under ``key``, or None. A key that cannot be hashed has none."""
        if self._generation != ANSWERS.generation:
            self.clear()
        try:
            value = self._entries[key]
            self._entries.move_to_end(key)
        except (KeyError, TypeError):  # KeyError also where another thread has just evicted it
            return None
        return value

    def peek(self, key: Any) -> Any:
        """The same without counting as a use, at half the cost: for keys that are asked for all the time."""
        if self._generation != ANSWERS.generation:
            self.clear()
        try:
            return self._entries.get(key)
        except TypeError:
            return None

    def hints(self, name: Any) -> tuple[Any, ...]:
        """Calls that may be the one that is asked for, the latest first; the caller checks."""
        if self._generation != ANSWERS.generation:
            self.clear()
        return self._hints.get(name, ())

    def add_hint(self, name: Any, hint: Any) -> None:
        if len(self._hints) >= HINTS:
            self._hints.clear()
        self._hints[name] = (hint, *self._hints.get(name, ())[: HINTS_OF_A_NAME - 1])

    def put(self, key: Any, value: Any) -> None:
        self._entries[key] = value
        while len(self._entries) > self.capacity:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        self._entries.clear()
        self._hints.clear()
        self._generation = ANSWERS.generation

    def __len__(self) -> int:
        return len(self._entries)


CACHE = CallCache()
