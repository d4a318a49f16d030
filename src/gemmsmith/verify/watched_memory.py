"""Simulated memory that keeps which elements of some matrices a launch read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.sim.memory.global_memory import GlobalMemory

Array = NDArray[Any]


class WatchedMemory(GlobalMemory):
    """Memory that keeps which elements of some allocations were read."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: dict[int, tuple[int, NDArray[np.bool_]]] = {}  # the size of an element; whether each was read

    def watch(self, base: int, itemsize: int, count: int) -> None:
        self.marks[base] = itemsize, np.zeros(count, np.bool_)

    def gather(self, addresses: Array, width: int) -> Array:
        found = super().gather(addresses, width)
        for base, (itemsize, read) in self.marks.items():
            offsets = addresses.astype(np.int64) - base
            inside = offsets[(offsets >= 0) & (offsets < read.size * itemsize)]
            for byte in range(0, width, itemsize):
                read[np.minimum((inside + byte) // itemsize, read.size - 1)] = True
        return found
