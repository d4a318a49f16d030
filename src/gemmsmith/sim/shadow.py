"""Find shared-memory races: two accesses of one location by different threads with nothing that orders them.

Every location of shared memory has a shadow: who wrote it last and what, who read it (the lowest and the highest
thread), and when. A block's *epoch* grows by one at each barrier. Two accesses by different threads in one epoch, at
least one of them a write, are a race, whatever order this run happened to take. The exception: a ``__syncwarp()`` that
both threads took part in (or a chain of them) lies between, or the one waited for something that the other arrived at
(an mbarrier, a barrier of some warps). An asynchronous copy occupies its destination from the
moment it is issued until its own thread has waited for it; until then any access by any thread is a race.

Two stores of the same bits are not a race, since they leave the location the same in either order. Not detected: races
on global memory. Reported although it may be intended: a flag that one thread writes and another spins on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.sim.hazards import Hazard, HazardKind, HazardLog, Side
from gemmsmith.sim.lanes import Lanes, WaveState
from gemmsmith.sim.memory import RAW, WindowMemory
from gemmsmith.sim.operation import Lowered, Operation
from gemmsmith.sim.traits import Space
from gemmsmith.sim.types import Array
from gemmsmith.sim.wave import WARP

_NOBODY = -1
_EVERYBODY = np.iinfo(np.int32).max  # above every lane number


def granule(lowered: Lowered) -> int:
    """The smallest element of a shared access in the program, up to 4 bytes: the size of one shadowed location."""
    accesses = [o.access for o in lowered.operations if o.access is not None]
    return min([4, *(a.element for a in accesses if a.space in (Space.SHARED, Space.GENERIC))])


class Shadow:
    """The shadow of one wave's shared memory."""

    def __init__(self, state: WaveState, shared: WindowMemory, log: HazardLog) -> None:
        self.state, self.shared, self.log = state, shared, log
        self.operations = state.lowered.operations
        self.unit = granule(state.lowered)
        units = shared.data.size // self.unit
        self.warp = state.warp
        self.block_epoch = np.zeros(len(state.wave.blocks), np.int32)
        # A vector clock within each warp: known[x, i] counts the warp-wide barriers of lane i that x knows to be past.
        # Where more than these orders threads of different warps, it is one within each block.
        wide = any(operation.traits.partial_order for operation in self.operations)
        self.lane = state.thread if wide else state.thread % WARP
        self.clocked = state.block if wide else state.warp
        self.known = np.zeros((state.wave.lanes, state.wave.threads if wide else WARP), np.int32)
        self.writer, self.low, self.high, self.copier = (np.full(units, _NOBODY, np.int32) for _ in range(4))
        self.write_epoch, self.read_epoch = (np.full(units, -1, np.int32) for _ in range(2))
        self.write_clock, self.low_clock, self.high_clock = (np.zeros(units, np.int32) for _ in range(3))
        # Positions of the operations that did it.
        self.write_op, self.low_op, self.high_op, self.copy_op = (np.zeros(units, np.int32) for _ in range(4))
        self.value = np.zeros(units, RAW[self.unit])
        self.updated = np.zeros(units, bool)  # the last write was an atomic update

    # -- what orders accesses ---------------------------------------------------------------------

    def barrier(self, lanes: Lanes) -> None:
        """All threads of these lanes' blocks have passed a barrier."""
        self.block_epoch[np.unique(self.state.block[lanes])] += 1

    def warp_barrier(self, lanes: Lanes) -> None:
        """These lanes passed a warp-wide barrier: the lanes of a warp now know what each of them did before."""
        mine = self.state.indices(lanes)
        mine = mine[np.argsort(self.warp[mine], kind="stable")]
        self.known[mine, self.lane[mine]] += 1
        _, starts, counts = np.unique(self.warp[mine], return_index=True, return_counts=True)
        self.known[mine] = np.repeat(np.maximum.reduceat(self.known[mine], starts), counts, axis=0)

    def release(self, lanes: Array) -> Array:
        """These lanes arrive somewhere: the clocks of each, which whoever waits for them ``acquire``s."""
        self.known[lanes, self.lane[lanes]] += 1
        return self.known[lanes].copy()

    def acquire(self, lanes: Array, clocks: Array) -> None:
        """These lanes have waited for all that ``clocks`` cover."""
        self.known[lanes] = np.maximum(self.known[lanes], clocks)

    # -- accesses ---------------------------------------------------------------------------------

    def read(self, operation: Operation[Any], lanes: Array, index: Array) -> None:
        """``lanes`` read the operation's width at byte positions ``index``."""
        lanes, units = self._spread(lanes, index, _width(operation))
        self._check_copies(operation, lanes, units)
        self._report(HazardKind.READ_AFTER_WRITE, self._unordered_write(lanes, units), self.write_op, units,
                     self.writer[units], operation, lanes)  # fmt: skip
        self._note_readers(operation.position, lanes, units)

    def write(self, operation: Operation[Any], lanes: Array, index: Array, values: Array) -> None:
        """``lanes`` write ``values``; the same bits written by two threads are not a race."""
        lanes, units = self._spread(lanes, index, _width(operation))
        values = np.ascontiguousarray(values).reshape(-1).view(RAW[self.unit])
        self._check_copies(operation, lanes, units)
        self._check_write(operation, lanes, units, values)
        self._mark_written(operation.position, lanes, units, values)
        lost = (self.writer[units] != lanes) & (self.value[units] != values)  # to another lane of this instruction
        self._report(HazardKind.WRITE_AFTER_WRITE, lost, self.write_op, units, self.writer[units], operation, lanes)

    def atomic(self, operation: Operation[Any], lanes: Array, index: Array) -> None:
        """Atomic updates, which are ordered among themselves but not against other accesses."""
        lanes, units = self._spread(lanes, index, _width(operation))
        self._check_copies(operation, lanes, units)
        self._check_write(operation, lanes, units, None, atomic=True)
        # A plain write of this epoch stays on record: every update by another thread races with it.
        new = self.updated[units] | (self.write_epoch[units] != self.block_epoch[self.state.block[lanes]])
        lanes, units = lanes[new], units[new]
        self._mark_written(operation.position, lanes, units, self.value[units])
        self.updated[units] = True

    def copy_issued(self, operation: Operation[Any], lanes: Array, index: Array) -> None:
        """An asynchronous copy to these positions begins: it must not overtake earlier readers or writers."""
        lanes, units = self._spread(lanes, index, _width(operation))
        self._check_copies(operation, lanes, units)
        self._check_write(operation, lanes, units, None)
        self.copier[units], self.copy_op[units] = lanes, operation.position
        lost = self.copier[units] != lanes
        self._report(HazardKind.IN_FLIGHT_COPY, lost, self.copy_op, units, self.copier[units], operation, lanes)

    def copy_waited(self, lanes: Array, index: Array, width: int, clocks: Array | None = None) -> None:
        """The copies' own threads have waited: from now on the copies are writes of those threads.

        ``clocks``: those of the threads when they arrived at an mbarrier for the copies, if that was waited for.
        """
        count = max(1, width // self.unit)
        lanes, units = self._spread(lanes, index, width)
        self._mark_written(self.copy_op[units], lanes, units, self.shared.data.view(RAW[self.unit])[units])
        if clocks is not None:
            self.write_clock[units] = np.repeat(clocks, count)
        self.copier[units] = _NOBODY

    # -- the rules --------------------------------------------------------------------------------

    def _spread(self, lanes: Array, index: Array, width: int) -> tuple[Array, Array]:
        """One entry for each shadowed location: an access of 16 bytes covers four of 4."""
        count = max(1, width // self.unit)
        units = (index.reshape(-1, 1) // self.unit + np.arange(count)).reshape(-1)
        return np.repeat(lanes.reshape(-1), count).astype(np.int32), units

    def _unordered(self, lanes: Array, units: Array, other: Array, epochs: Array, clocks: Array) -> Array:
        """Whether ``other``, another thread, accessed ``units`` with nothing that orders it before ``lanes`` now."""
        same_epoch = epochs[units] == self.block_epoch[self.state.block[lanes]]
        synced = (self.clocked[lanes] == self.clocked[other]) & (self.known[lanes, self.lane[other]] > clocks[units])
        result: Array = (other != _NOBODY) & (other != lanes) & same_epoch & ~synced
        return result

    def _unordered_write(self, lanes: Array, units: Array) -> Array:
        return self._unordered(lanes, units, self.writer[units], self.write_epoch, self.write_clock)

    def _check_write(
        self, operation: Operation[Any], lanes: Array, units: Array, values: Array | None, atomic: bool = False
    ) -> None:
        clash = self._unordered_write(lanes, units)
        if values is not None:
            clash &= self.updated[units] | (self.value[units] != values)
        if atomic:
            clash &= ~self.updated[units]
        self._report(HazardKind.WRITE_AFTER_WRITE, clash, self.write_op, units, self.writer[units], operation, lanes)
        for reader, ops, clocks in (
            (self.low, self.low_op, self.low_clock),
            (self.high, self.high_op, self.high_clock),
        ):
            clash = self._unordered(lanes, units, reader[units], self.read_epoch, clocks)
            self._report(HazardKind.WRITE_AFTER_READ, clash, ops, units, reader[units], operation, lanes)

    def _check_copies(self, operation: Operation[Any], lanes: Array, units: Array) -> None:
        copier = self.copier[units]
        self._report(HazardKind.IN_FLIGHT_COPY, copier != _NOBODY, self.copy_op, units, copier, operation, lanes)

    def _mark_written(self, position: int | Array, lanes: Array, units: Array, values: Array) -> None:
        self.writer[units], self.write_op[units], self.value[units] = lanes, position, values
        self.updated[units] = False
        self.write_epoch[units] = self.block_epoch[self.state.block[lanes]]
        self.write_clock[units] = self.known[lanes, self.lane[lanes]]

    def _note_readers(self, position: int, lanes: Array, units: Array) -> None:
        """Keep two readers for each location: enough to find one that is not the next writer.

        If two warps read, the two readers are in different warps. Readers that a new one is ordered after are dropped:
        either they are ordered before the next write as well, or the new reader shows the race.
        """
        epochs = self.block_epoch[self.state.block[lanes]]
        clocks = self.known[lanes, self.lane[lanes]]
        group = self.clocked[lanes]
        low, high = self.low[units], self.high[units]
        outdated = (group == self.clocked[low]) & (group == self.clocked[high])
        outdated &= (self.known[lanes, self.lane[low]] > self.low_clock[units]) & (
            self.known[lanes, self.lane[high]] > self.high_clock[units]
        )
        fresh = (low == _NOBODY) | (self.read_epoch[units] != epochs) | outdated
        stale = units[fresh]
        self.low[stale], self.high[stale] = _EVERYBODY, _NOBODY
        self.read_epoch[stale] = epochs[fresh]
        np.minimum.at(self.low, units, lanes)
        np.maximum.at(self.high, units, lanes)
        for reader, ops, recorded in (
            (self.low, self.low_op, self.low_clock),
            (self.high, self.high_op, self.high_clock),
        ):
            mine = reader[units] == lanes
            ops[units[mine]] = position
            recorded[units[mine]] = clocks[mine]

    # -- reports ----------------------------------------------------------------------------------

    def _report(self, kind: HazardKind, clash: Array, ops: Array, units: Array, other: Array,
                operation: Operation[Any], lanes: Array) -> None:  # fmt: skip
        if not clash.any():
            return
        at = np.flatnonzero(clash)
        across = self.warp[other[at]] != self.warp[lanes[at]]
        order = np.argsort(~across, kind="stable")  # prefer a pair in two warps: __syncwarp() would not order it
        _, firsts = np.unique(ops[units[at[order]]], return_index=True)
        for i, apart in zip(at[order][firsts], across[order][firsts], strict=True):
            earlier, lane = self.operations[int(ops[units[i]])], int(lanes[i])
            if not self.log.known(kind, earlier.instruction.where, operation.instruction.where, bool(apart)):
                address = int(units[i]) * self.unit % self.shared.stride
                self.log.add(Hazard(kind, address, self.state.block_name(lane), self._side(earlier, int(other[i])),
                                    self._side(operation, lane), bool(apart)))  # fmt: skip

    def _side(self, operation: Operation[Any], lane: int) -> Side:
        i = operation.instruction
        return Side(operation.traits.verb, i.where, i.text, f"thread {self.state.thread_name(lane)}")


def _width(operation: Operation[Any]) -> int:
    assert operation.access is not None
    return operation.access.width
