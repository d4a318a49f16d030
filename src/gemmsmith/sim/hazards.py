"""Find shared-memory races: two accesses of one location by different threads with nothing that orders them.

Every location of shared memory has a shadow: who wrote it last and what, who read it (the lowest and the
highest thread), and when. A block's *epoch* grows by one at each barrier. Two accesses, at least one of them
a write, by different threads in one epoch are a race, whatever order this run happened to take, unless a
``__syncwarp()`` that both took part in (or a chain of them) lies between. An asynchronous copy occupies its
destination from the moment it is asked for until its own thread has waited for it; until then any access is
a race, by whomever.

Not a race: two stores of the same bits, which leave the location the same in either order. Not seen: races
on global memory, and flags that one thread writes and another spins on, which count as races like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.errors import SimulationError
from gemmsmith.sim.faults import VERBS, block_text, thread_text
from gemmsmith.sim.lower import Lowered, Operation
from gemmsmith.sim.memory import RAW

if TYPE_CHECKING:
    from gemmsmith.sim.execute import Execution

Array = NDArray[Any]

WARP = 32
_NOBODY = -1
_EVERYBODY = np.iinfo(np.int32).max  # above every lane number
_MOST_REPORTED = 20


@dataclass(frozen=True)
class Access:
    """One side of a hazard: what, which source line, which thread."""

    verb: str
    where: str
    text: str
    thread: str

    def __str__(self) -> str:
        return f"{self.verb} at {self.where} by {self.thread} ({self.text})"


@dataclass(frozen=True)
class Hazard:
    """Two accesses that nothing orders, the shared-memory address, and what would order them."""

    kind: str
    address: int
    block: str
    first: Access
    second: Access
    across_warps: bool

    @property
    def needed(self) -> str:
        if self.kind == "in-flight-copy":
            return "cp.async.wait_group by the copying thread, then a barrier, must come between them"
        if self.across_warps:
            return "a __syncthreads() must come between them"
        return "__syncwarp() or a barrier must come between them"

    def __str__(self) -> str:
        return (
            f"{self.kind} race on shared address {self.address:#x} of block {self.block}: "
            f"{self.first}, then {self.second}; {self.needed}"
        )


class HazardError(SimulationError):
    """A kernel whose result depends on the order of its threads."""

    def __init__(self, message: str, hint: str, hazards: tuple[Hazard, ...]) -> None:
        super().__init__(message, hint)
        self.hazards = hazards


def granule(lowered: Lowered) -> int:
    """The smallest shared access in the program, up to 4 bytes: the size of one shadowed location."""
    widths = [o.width // max(1, len(o.targets) or len(o.sources) - 1) for o in lowered.operations
              if o.kind in ("load", "store", "atomic") and o.space in ("shared", "generic")]  # fmt: skip
    return min([4, *widths])


class HazardLog:
    """Distinct hazards of a launch: one for each pair of source lines, across warps where there is such a one."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], Hazard] = {}

    @property
    def found(self) -> tuple[Hazard, ...]:
        return tuple(self._found.values())

    def known(self, kind: str, first: str, second: str, across_warps: bool) -> bool:
        """Whether another hazard of these lines would tell nothing new."""
        found = self._found.get((kind, first, second))
        if found is None:
            return len(self._found) >= _MOST_REPORTED
        return found.across_warps or not across_warps

    def add(self, hazard: Hazard) -> None:
        self._found[hazard.kind, hazard.first.where, hazard.second.where] = hazard


class Shadow:
    """The shadow of one wave's shared memory."""

    def __init__(self, machine: Execution, log: HazardLog) -> None:
        self.machine, self.log = machine, log
        self.unit = granule(machine.lowered)
        units = machine.shared.data.size // self.unit
        self.warp = machine.block * -(-machine.wave.threads // WARP) + machine.thread // WARP
        self.lane = machine.thread % WARP
        self.block_epoch = np.zeros(len(machine.wave.blocks), np.int32)
        # A vector clock within each warp: known[x, i] counts the warp-wide barriers of lane i that x knows to be past.
        self.known = np.zeros((machine.wave.lanes, WARP), np.int32)
        self.operations: list[Operation] = []
        self._numbers: dict[int, int] = {}
        self.writer, self.low, self.high, self.copier = (np.full(units, _NOBODY, np.int32) for _ in range(4))
        self.write_epoch, self.read_epoch = (np.full(units, -1, np.int32) for _ in range(2))
        self.write_clock, self.low_clock, self.high_clock = (np.zeros(units, np.int32) for _ in range(3))
        self.write_op, self.low_op, self.high_op, self.copy_op = (np.zeros(units, np.int32) for _ in range(4))
        self.value = np.zeros(units, RAW[self.unit])
        self.updated = np.zeros(units, bool)  # the last write was an atomic update

    # -- what orders accesses ---------------------------------------------------------------------

    def barrier(self, lanes: Any) -> None:
        """A block-wide barrier was passed by these lanes."""
        self.block_epoch[np.unique(self.machine.block[lanes])] += 1

    def warp_barrier(self, lanes: Any) -> None:
        """These lanes passed a warp-wide barrier together: those of a warp now know what each of them did before."""
        mine = self.machine.indices(lanes)
        mine = mine[np.argsort(self.warp[mine], kind="stable")]
        self.known[mine, self.lane[mine]] += 1
        _, starts, counts = np.unique(self.warp[mine], return_index=True, return_counts=True)
        self.known[mine] = np.repeat(np.maximum.reduceat(self.known[mine], starts), counts, axis=0)

    # -- accesses ---------------------------------------------------------------------------------

    def read(self, operation: Operation, lanes: Array, index: Array) -> None:
        """``lanes`` read ``operation.width`` bytes at byte positions ``index``."""
        lanes, units = self._spread(lanes, index, operation.width)
        self._check_copies(operation, lanes, units)
        self._report("read-after-write", self._unordered_write(lanes, units), self.write_op, units, self.writer[units],
                     operation, lanes)  # fmt: skip
        self._note_readers(self._number(operation), lanes, units)

    def write(self, operation: Operation, lanes: Array, index: Array, values: Array) -> None:
        """``lanes`` write ``values``; the same bits written by two threads are not a race."""
        lanes, units = self._spread(lanes, index, operation.width)
        values = np.ascontiguousarray(values).reshape(-1).view(RAW[self.unit])
        self._check_copies(operation, lanes, units)
        self._check_write(operation, lanes, units, values)
        self._mark_written(self._number(operation), lanes, units, values)
        lost = (self.writer[units] != lanes) & (self.value[units] != values)  # to another lane of this very instruction
        self._report("write-after-write", lost, self.write_op, units, self.writer[units], operation, lanes)

    def atomic(self, operation: Operation, lanes: Array, index: Array) -> None:
        """Atomic updates, which order themselves against each other but not against other accesses."""
        lanes, units = self._spread(lanes, index, operation.width)
        self._check_copies(operation, lanes, units)
        self._check_write(operation, lanes, units, None, atomic=True)
        # A plain write of this epoch stays on record: every update by another thread races with it.
        new = self.updated[units] | (self.write_epoch[units] != self.block_epoch[self.machine.block[lanes]])
        lanes, units = lanes[new], units[new]
        self._mark_written(self._number(operation), lanes, units, self.value[units])
        self.updated[units] = True

    def copy_issued(self, operation: Operation, lanes: Array, index: Array) -> None:
        """An asynchronous copy to these positions begins: it must not overtake earlier readers or writers."""
        lanes, units = self._spread(lanes, index, operation.width)
        self._check_copies(operation, lanes, units)
        self._check_write(operation, lanes, units, None)
        self.copier[units], self.copy_op[units] = lanes, self._number(operation)
        lost = self.copier[units] != lanes
        self._report("in-flight-copy", lost, self.copy_op, units, self.copier[units], operation, lanes)

    def copy_waited(self, lanes: Array, index: Array, width: int) -> None:
        """The copies' own threads have waited: from now on they are writes of those threads."""
        lanes, units = self._spread(lanes, index, width)
        self._mark_written(self.copy_op[units], lanes, units, self.machine.shared.data.view(RAW[self.unit])[units])
        self.copier[units] = _NOBODY

    # -- the rules --------------------------------------------------------------------------------

    def _spread(self, lanes: Array, index: Array, width: int) -> tuple[Array, Array]:
        """One entry a shadowed location: an access of 16 bytes covers four of 4."""
        count = max(1, width // self.unit)
        units = (index.reshape(-1, 1) // self.unit + np.arange(count)).reshape(-1)
        return np.repeat(lanes.reshape(-1), count).astype(np.int32), units

    def _number(self, operation: Operation) -> int:
        number = self._numbers.get(id(operation))
        if number is None:
            number = self._numbers[id(operation)] = len(self.operations)
            self.operations.append(operation)
        return number

    def _unordered(self, lanes: Array, units: Array, other: Array, epochs: Array, clocks: Array) -> Array:
        """Whether ``other``, another thread, accessed ``units`` with nothing that orders it before ``lanes`` now."""
        same_epoch = epochs[units] == self.block_epoch[self.machine.block[lanes]]
        synced = (self.warp[lanes] == self.warp[other]) & (self.known[lanes, self.lane[other]] > clocks[units])
        result: Array = (other != _NOBODY) & (other != lanes) & same_epoch & ~synced
        return result

    def _unordered_write(self, lanes: Array, units: Array) -> Array:
        return self._unordered(lanes, units, self.writer[units], self.write_epoch, self.write_clock)

    def _check_write(
        self, operation: Operation, lanes: Array, units: Array, values: Array | None, atomic: bool = False
    ) -> None:
        clash = self._unordered_write(lanes, units)
        if values is not None:
            clash &= self.updated[units] | (self.value[units] != values)
        if atomic:
            clash &= ~self.updated[units]
        self._report("write-after-write", clash, self.write_op, units, self.writer[units], operation, lanes)
        for reader, ops, clocks in (
            (self.low, self.low_op, self.low_clock),
            (self.high, self.high_op, self.high_clock),
        ):
            clash = self._unordered(lanes, units, reader[units], self.read_epoch, clocks)
            self._report("write-after-read", clash, ops, units, reader[units], operation, lanes)

    def _check_copies(self, operation: Operation, lanes: Array, units: Array) -> None:
        copier = self.copier[units]
        self._report("in-flight-copy", copier != _NOBODY, self.copy_op, units, copier, operation, lanes)

    def _mark_written(self, number: int | Array, lanes: Array, units: Array, values: Array) -> None:
        self.writer[units], self.write_op[units], self.value[units] = lanes, number, values
        self.updated[units] = False
        self.write_epoch[units] = self.block_epoch[self.machine.block[lanes]]
        self.write_clock[units] = self.known[lanes, self.lane[lanes]]

    def _note_readers(self, number: int, lanes: Array, units: Array) -> None:
        """Keep two readers a location: enough to find one that is not the writer, whoever writes next.

        They are of two warps where two warps read. Where one does, they are of its latest warp-wide barrier: who read
        before it is either ordered before that warp's next write, or caught by the later reader, too.
        """
        epochs = self.block_epoch[self.machine.block[lanes]]
        clocks = self.known[lanes, self.lane[lanes]]
        warp = self.warp[lanes]
        low, high = self.low[units], self.high[units]
        outdated = (warp == self.warp[low]) & (warp == self.warp[high])
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
            ops[units[mine]] = number
            recorded[units[mine]] = clocks[mine]

    # -- reports ----------------------------------------------------------------------------------

    def _report(self, kind: str, clash: Array, ops: Array, units: Array, other: Array, operation: Operation,
                lanes: Array) -> None:  # fmt: skip
        if not clash.any():
            return
        at = np.flatnonzero(clash)
        across = self.warp[other[at]] != self.warp[lanes[at]]
        order = np.argsort(~across, kind="stable")  # a pair in two warps says more: __syncwarp() would not do
        _, firsts = np.unique(ops[units[at[order]]], return_index=True)
        for i, apart in zip(at[order][firsts], across[order][firsts], strict=True):
            earlier, lane = self.operations[int(ops[units[i]])], int(lanes[i])
            if not self.log.known(kind, earlier.instruction.where, operation.instruction.where, bool(apart)):
                address = int(units[i]) * self.unit % self.machine.shared.stride
                self.log.add(Hazard(kind, address, block_text(self.machine, lane), self._access(earlier, int(other[i])),
                                    self._access(operation, lane), bool(apart)))  # fmt: skip

    def _access(self, operation: Operation, lane: int) -> Access:
        i = operation.instruction
        return Access(
            VERBS.get(operation.kind, operation.kind), i.where, i.text, f"thread {thread_text(self.machine, lane)}"
        )
