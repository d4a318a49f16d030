"""Which threads use each location of global memory, as the first look at a launch remembers them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gemmsmith.sim.memory.lazy_zeros import lazy_zeros
from gemmsmith.sim.ptx.types import Array

MANY = np.int32(-1)  # several threads


@dataclass
class Users:
    """Which threads used each location of an allocation: 0 for none, a thread's number plus one, or several.

    ``readers`` is by the width of the read, in locations of that width. ``updating_blocks``: the blocks with
    atomic updates, of a kernel in which some have block scope.
    """

    writer: Array
    strong_write: Array
    strong_read: Array
    readers: dict[int, Array] = field(default_factory=dict)
    updating_blocks: Array | None = None

    def readers_of(self, width: int, unit: int) -> Array:
        """The readers of accesses of one width."""
        if width not in self.readers:
            self.readers[width] = lazy_zeros(self.writer.size * unit // width * 4).view(np.int32)
        return self.readers[width]

    def update_by_block(self, units: Array, block: Array) -> None:
        """Note which blocks update locations with atomics."""
        if self.updating_blocks is None:
            self.updating_blocks = lazy_zeros(self.writer.size * 4).view(np.int32)
        use(self.updating_blocks, units, block)


def use(users: Array, at: Array, thread: Array) -> None:
    """Note that threads use locations; a location with several users gets ``MANY``."""
    before = users.take(at)
    if not before.any():  # nobody yet
        users[at] = thread
        lost = users.take(at) != thread
        if lost.any():
            users[at[lost]] = MANY
        return
    if (before == MANY).all():
        return
    other = (before != thread) & (before != MANY)
    if not other.any():
        return
    at, thread, before = at[other], np.broadcast_to(thread, at.shape)[other], before[other]
    new = before == 0
    users[at[~new]] = MANY
    at, thread = at[new], thread[new]
    users[at] = thread
    users[at[users.take(at) != thread]] = MANY
