"""Find shared-memory races: two accesses of one location by different threads with nothing that orders them.

Every location of shared memory has a shadow: who wrote it last, who read it (the lowest and the highest
thread), and in which *epoch*. A block's epoch grows by one at each barrier, a warp's at each warp-wide
one. Two accesses, at least one of them a write, by different threads in one epoch are a race, whatever
order this run happened to take. An asynchronous copy occupies its destination from the moment it is asked
for until its own thread has waited for it; until then any access is a race, by whomever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.errors import SimulationError
from gemmsmith.sim.lower import Lowered, Operation

if TYPE_CHECKING:
    from gemmsmith.sim.machine import Machine

Array = NDArray[Any]

_NOBODY = -1
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
    needed: str

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
    """Distinct hazards of a launch: one for each pair of source lines."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], Hazard] = {}

    @property
    def found(self) -> tuple[Hazard, ...]:
        return tuple(self._found.values())

    def known(self, kind: str, first: str, second: str) -> bool:
        return (kind, first, second) in self._found or len(self._found) >= _MOST_REPORTED

    def add(self, hazard: Hazard) -> None:
        self._found[hazard.kind, hazard.first.where, hazard.second.where] = hazard


class Shadow:
    """The shadow of one wave's shared memory."""

    def __init__(self, machine: Machine, log: HazardLog) -> None:
        self.machine, self.log = machine, log
        self.unit = granule(machine.lowered)
        units = machine.shared.data.size // self.unit
        warps = -(-machine.wave.threads // 32)
        self.warp = machine.block * warps + machine.thread // 32
        self.block_epoch = np.zeros(len(machine.wave.blocks), np.int32)
        self.warp_epoch = np.zeros(len(machine.wave.blocks) * warps, np.int32)
        self.operations: list[Operation] = []
        self._numbers: dict[int, int] = {}
        self.writer, self.low, self.high, self.copier = (np.full(units, _NOBODY, np.int32) for _ in range(4))
        self.write_epoch, self.read_epoch = (np.full(units, -1, np.int32) for _ in range(2))
        self.write_warp_epoch, self.low_warp_epoch, self.high_warp_epoch = (np.zeros(units, np.int32) for _ in range(3))
        self.write_op, self.low_op, self.high_op, self.copy_op = (np.zeros(units, np.int32) for _ in range(4))

    # -- what orders accesses ---------------------------------------------------------------------

    def barrier(self, lanes: Any) -> None:
        """A block-wide barrier was passed by these lanes."""
        self.block_epoch[np.unique(self.machine.block[lanes])] += 1

    def warp_barrier(self, lanes: Any) -> None:
        """A warp-wide barrier was passed by these lanes."""
        self.warp_epoch[np.unique(self.warp[lanes])] += 1

    # -- accesses ---------------------------------------------------------------------------------

    def read(self, operation: Operation, lanes: Array, index: Array) -> None:
        """``lanes`` read ``operation.width`` bytes at byte positions ``index``."""
        lanes, units = self._spread(lanes, index, operation.width)
        number = self._number(operation)
        self._check_copies(operation, lanes, units)
        written = self.writer[units]
        clash = (
            (written != _NOBODY) & (written != lanes) & self._same_epoch(lanes, units, written, self.write_warp_epoch)
        )
        self._report("read-after-write", clash, self.write_op, units, written, operation, lanes)
        self._note_readers(number, lanes, units)

    def write(self, operation: Operation, lanes: Array, index: Array, values: Array | None = None) -> None:
        """``lanes`` write; equal values written twice by one instruction are not a race."""
        lanes, units = self._spread(lanes, index, operation.width)
        number = self._number(operation)
        self._check_copies(operation, lanes, units)
        self._check_write(operation, lanes, units)
        self._mark_written(operation, number, lanes, units, values)

    def copy_issued(self, operation: Operation, lanes: Array, index: Array) -> None:
        """An asynchronous copy to these positions begins: it must not overtake earlier readers or writers."""
        lanes, units = self._spread(lanes, index, operation.width)
        number = self._number(operation)
        self._check_copies(operation, lanes, units)
        self._check_write(operation, lanes, units)
        self.copier[units], self.copy_op[units] = lanes, number

    def copy_waited(self, lanes: Array, index: Array, width: int) -> None:
        """The copies' own threads have waited: from now on they are writes of those threads."""
        lanes, units = self._spread(lanes, index, width)
        self.writer[units], self.write_op[units] = lanes, self.copy_op[units]
        self.write_epoch[units] = self.block_epoch[self.machine.block[lanes]]
        self.write_warp_epoch[units] = self.warp_epoch[self.warp[lanes]]
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

    def _same_epoch(self, lanes: Array, units: Array, other: Array, warp_epochs: Array,
                    epochs: Array | None = None) -> Array:  # fmt: skip
        """Whether nothing orders an access by ``lanes`` after the recorded one by ``other``."""
        recorded = (self.write_epoch if epochs is None else epochs)[units]
        unordered = recorded == self.block_epoch[self.machine.block[lanes]]
        same_warp = self.warp[lanes] == self.warp[other]
        synced = same_warp & (warp_epochs[units] < self.warp_epoch[self.warp[lanes]])
        result: Array = unordered & ~synced
        return result

    def _check_write(self, operation: Operation, lanes: Array, units: Array) -> None:
        written = self.writer[units]
        clash = (
            (written != _NOBODY) & (written != lanes) & self._same_epoch(lanes, units, written, self.write_warp_epoch)
        )
        self._report("write-after-write", clash, self.write_op, units, written, operation, lanes)
        for reader, ops, warp_epochs in (
            (self.low, self.low_op, self.low_warp_epoch),
            (self.high, self.high_op, self.high_warp_epoch),
        ):
            read = reader[units]
            clash = (read != _NOBODY) & (read != lanes)
            clash &= self._same_epoch(lanes, units, read, warp_epochs, self.read_epoch)
            self._report("write-after-read", clash, ops, units, read, operation, lanes)

    def _check_copies(self, operation: Operation, lanes: Array, units: Array) -> None:
        copier = self.copier[units]
        self._report("in-flight-copy", copier != _NOBODY, self.copy_op, units, copier, operation, lanes)

    def _mark_written(
        self, operation: Operation, number: int, lanes: Array, units: Array, values: Array | None
    ) -> None:
        self.writer[units] = lanes
        self.write_op[units] = number
        self.write_epoch[units] = self.block_epoch[self.machine.block[lanes]]
        self.write_warp_epoch[units] = self.warp_epoch[self.warp[lanes]]
        lost = self.writer[units] != lanes  # another lane of this very instruction wrote there as well
        if lost.any() and values is not None:
            each = np.repeat(np.arange(values.size), lanes.size // values.size)
            last = np.zeros(self.writer.size, np.int64)
            last[units] = each
            flat = values.reshape(-1)
            lost &= flat[each] != flat[last[units]]
        self._report("write-after-write", lost, self.write_op, units, self.writer[units], operation, lanes)

    def _note_readers(self, number: int, lanes: Array, units: Array) -> None:
        epochs = self.block_epoch[self.machine.block[lanes]]
        fresh = self.read_epoch[units] != epochs
        if fresh.any():
            stale = units[fresh]
            self.low[stale] = self.high[stale] = _NOBODY
            self.read_epoch[stale] = epochs[fresh]
        empty = units[self.low[units] == _NOBODY]
        self.low[empty] = np.iinfo(np.int32).max
        np.minimum.at(self.low, units, lanes)
        np.maximum.at(self.high, units, lanes)
        warp_epochs = self.warp_epoch[self.warp[lanes]]
        for reader, ops, recorded in (
            (self.low, self.low_op, self.low_warp_epoch),
            (self.high, self.high_op, self.high_warp_epoch),
        ):
            mine = reader[units] == lanes
            ops[units[mine]] = number
            recorded[units[mine]] = warp_epochs[mine]

    # -- reports ----------------------------------------------------------------------------------

    def _report(self, kind: str, clash: Array, ops: Array, units: Array, other: Array, operation: Operation,
                lanes: Array) -> None:  # fmt: skip
        if not clash.any():
            return
        at = np.flatnonzero(clash)
        _, firsts = np.unique(ops[units[at]], return_index=True)
        for i in at[firsts]:
            earlier = self.operations[int(ops[units[i]])]
            if not self.log.known(kind, earlier.instruction.where, operation.instruction.where):
                self.log.add(self._hazard(kind, earlier, int(other[i]), operation, int(lanes[i]), int(units[i])))

    def _hazard(
        self, kind: str, earlier: Operation, earlier_lane: int, later: Operation, lane: int, unit: int
    ) -> Hazard:
        from gemmsmith.sim.faults import block_text

        address = unit * self.unit % self.machine.shared.stride
        same_warp = self.warp[lane] == self.warp[earlier_lane]
        if kind == "in-flight-copy":
            needed = "cp.async.wait_group by the copying thread, then a barrier, must come between them"
        elif same_warp:
            needed = "__syncwarp() or a barrier must come between them"
        else:
            needed = "a __syncthreads() must come between them"
        return Hazard(kind, address, block_text(self.machine, lane), self._access(earlier, earlier_lane),
                      self._access(later, lane), needed)  # fmt: skip

    def _access(self, operation: Operation, lane: int) -> Access:
        from gemmsmith.sim.faults import thread_text

        verbs = {"load": "read", "store": "write", "copy": "asynchronous copy", "atomic": "atomic update"}
        i = operation.instruction
        return Access(
            verbs.get(operation.kind, operation.kind), i.where, i.text, f"thread {thread_text(self.machine, lane)}"
        )
