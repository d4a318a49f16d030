"""What a launch has written over: pages of an allocation as they were before."""

from __future__ import annotations

import numpy as np

from gemmsmith.sim.ptx.types import Array

_PAGE_SHIFT = 12
_PAGE = 1 << _PAGE_SHIFT


class SavedPages:
    """The pages of an allocation, whose bytes are ``data``, that were written to."""

    def __init__(self, data: Array) -> None:
        self.data = data
        self._written = np.zeros(-(-data.size // _PAGE), bool)
        self._pages: dict[int, Array] = {}

    def save(self, offsets: Array) -> None:
        """Keep the pages of these bytes, unless they were written to before."""
        pages = offsets >> _PAGE_SHIFT
        for page in np.unique(pages[~self._written[pages]]):
            self._written[page] = True
            self._pages[int(page)] = self.data[page << _PAGE_SHIFT : (page + 1) << _PAGE_SHIFT].copy()

    def restore(self) -> None:
        """Write back what was there."""
        for page, content in self._pages.items():
            self.data[page << _PAGE_SHIFT : (page << _PAGE_SHIFT) + content.size] = content

    def ranges(self) -> list[tuple[int, int]]:
        """The bytes that may have been written: starts and ends."""
        edges = np.flatnonzero(np.diff(np.concatenate(([False], self._written, [False]))))  # begins and ends of runs
        return [(int(first) << _PAGE_SHIFT, min(int(last) << _PAGE_SHIFT, self.data.size))
                for first, last in edges.reshape(-1, 2)]  # fmt: skip
