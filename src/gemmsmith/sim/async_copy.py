"""cp.async: copies from global to shared memory that land some time before their group is waited for.

If they are ``late`` a copy lands at the last moment that the program allows, which is when its thread
waits for its group; otherwise at once. A kernel that waits correctly cannot tell the difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.memory import RAW, check_alignment

if TYPE_CHECKING:
    from gemmsmith.sim.execute import Execution
    from gemmsmith.sim.lanes import Lanes

Array = NDArray[Any]


@dataclass
class Pending:
    """Copies in flight: for each, the lane, its commit group, and where from and to."""

    lanes: Array
    group: Array
    index: Array
    source: Array
    size: Array
    width: int
    landed: bool


class AsyncCopies:
    """The copies in flight of one wave, and each lane's count of committed groups."""

    def __init__(self, machine: Execution, lanes: int, late: bool) -> None:
        self.machine, self.late = machine, late
        self.committed = np.zeros(lanes, np.int64)
        self.pending: list[Pending] = []

    def issue(self, step: Bundle, lanes: Lanes) -> None:
        machine, width = self.machine, step.first.width
        target = machine.addresses(step.sources[0], step.offsets[0], lanes, step.count)
        # A copy of its own: addresses may be a view of registers, which change before a late copy lands.
        source = machine.addresses(step.sources[1], step.offsets[1], lanes, step.count).copy()
        size = np.broadcast_to(machine.fetch(step.sources[2], lanes), target.shape)
        index = machine.shared.index(target, machine.shared_base[lanes], width)
        check_alignment(source, width)
        used = size > 0
        if used.any():  # a fault belongs to the instruction that asks for the copy
            machine.memory.gather(np.where(used, source, source[used][0]), width if (size[used] == width).all() else 1)
        each = np.broadcast_to(machine.indices(lanes), target.shape)
        copy = Pending(each.reshape(-1), self.committed[each].reshape(-1), index.reshape(-1), source.reshape(-1),
                       np.array(size).reshape(-1), width, landed=not self.late)  # fmt: skip
        if copy.landed:
            self._land(copy)
        if machine.counters is not None:
            rows = (x.reshape(step.count, -1) for x in (target, source, np.array(size)))
            for operation, to, start, used in zip(step.operations, *rows, strict=True):
                machine.counters.copy(machine, operation, lanes, to, start, used)
        if machine.shadow is not None:
            for operation, row in zip(step.operations, index.reshape(step.count, -1), strict=True):
                machine.shadow.copy_issued(operation, machine.indices(lanes), row)
        if machine.shadow is not None or not copy.landed:
            self.pending.append(copy)

    def commit(self, lanes: Lanes) -> None:
        self.committed[lanes] += 1

    def wait(self, lanes: Lanes, allowed: int) -> None:
        """Land what these lanes committed, except their last ``allowed`` groups; −1 lands everything."""
        if not self.pending:
            return
        waits = np.zeros(self.committed.size, bool)
        waits[lanes] = True
        left = []
        for copy in self.pending:
            done = waits[copy.lanes]
            if allowed >= 0:
                done &= copy.group < self.committed[copy.lanes] - allowed
            self._finish(_part(copy, done))
            if not done.all():
                left.append(_part(copy, ~done))
        self.pending = left

    def _finish(self, copy: Pending) -> None:
        """The copies' own threads have waited for them."""
        if copy.lanes.size == 0:
            return
        if not copy.landed:
            self._land(copy)
        if self.machine.shadow is not None:
            self.machine.shadow.copy_waited(copy.lanes, copy.index, copy.width)

    def _land(self, copy: Pending) -> None:
        memory, width = self.machine.memory, copy.width
        full = copy.size == width
        if full.all():
            self.machine.shared.scatter(copy.index, width, memory.gather(copy.source, width))
            return
        rows = np.zeros((copy.lanes.size, width), np.uint8)
        for byte in range(width):
            take = copy.size > byte
            if take.any():
                rows[take, byte] = memory.gather(copy.source[take] + np.uint64(byte), 1)
        self.machine.shared.scatter(copy.index, width, rows.reshape(-1).view(RAW[width]))


def _part(copy: Pending, mask: Array) -> Pending:
    if mask.all():
        return copy
    return Pending(copy.lanes[mask], copy.group[mask], copy.index[mask], copy.source[mask], copy.size[mask], copy.width,
                   copy.landed)  # fmt: skip
