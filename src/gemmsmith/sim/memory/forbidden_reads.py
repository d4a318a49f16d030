"""An allocation whose contents kernels must not read, such as C where beta is 0; what they wrote there they may."""

from __future__ import annotations

import numpy as np

from gemmsmith.sim.memory.lazy_zeros import lazy_zeros
from gemmsmith.sim.ptx.types import Array


class ForbiddenReads:
    """Which bytes of an allocation kernels have written since, and why no others may be read."""

    def __init__(self, why: str, nbytes: int) -> None:
        self.why = why
        self._written = lazy_zeros(nbytes)

    def write(self, elements: Array, width: int) -> None:
        """Note a write of elements of ``width`` bytes, by their indices."""
        self._written.reshape(-1, width)[elements] = 1

    def first(self, elements: Array, width: int) -> int | None:
        """The position of the first element that must not be read; None if all may be."""
        written = self._written.reshape(-1, width)[elements.reshape(-1)].all(axis=1)
        return None if written.all() else int(np.argmin(written))
