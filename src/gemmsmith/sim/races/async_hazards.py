"""What goes wrong between threads and the asynchronous proxy: TMA and wgmma read and write past the threads.

Races of asynchronous copies and reads with threads are found like all others (``shadow.py``): a copy by TMA is a write
of its thread that ends when its mbarrier's phase is waited for; a read by wgmma or by a store of TMA happens at any
time from its issue until its group is waited for. Here is what vector clocks do not see:

* a thread's write to shared memory, or of an mbarrier, that no proxy fence makes visible to what reads it;
* shared memory that its own thread overwrites while an instruction in flight still reads it;
* registers that wgmma reads or writes: used before the wait, or changed without wgmma.fence;
* a copy into a block that has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import Cell, Lowered, Operation, Slot
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.clocks import Moment, ordered
from gemmsmith.sim.races.hazards import Hazard, HazardKind, Side
from gemmsmith.sim.wave import WARP

FENCE = "fence.proxy.async by the writing thread, then a barrier, must come between them"
# PTX does not say in which proxy TMA counts at an mbarrier. What it says fits the generic proxy: the copy ends with an
# implicit proxy fence before it counts, and fence.mbarrier_init, which CUTLASS has between the two, is no proxy fence.
# So a barrier after the initialisation is enough, as in the kernels of Triton; CUDA's guide has a fence as well.
INIT_FENCE = (
    "CUTLASS has fence.mbarrier_init there and CUDA's guide fence.proxy.async; within a block a barrier alone is enough"
)
INIT = "mbarrier.init"
WAIT_READ = "cp.async.bulk.wait_group.read by the thread that issued the store must come between them"
WAIT_GROUP = "wgmma.wait_group must come between them"
WGMMA_FENCE = "wgmma.fence must come between them"
FIRST_FENCE = "wgmma.fence must come between the last write of its registers and the first wgmma"


def reads_past_threads(lowered: Lowered) -> bool:
    """Whether the program has instructions that read shared memory through the asynchronous proxy."""
    return any(o.instruction.name.startswith(("wgmma.mma_async", "cp.async.bulk", "cp.reduce.async.bulk"))
               for o in lowered.operations)  # fmt: skip


@dataclass(frozen=True)
class _Written:
    """Writes by threads that no proxy fence has followed."""

    operation: Operation[Any]
    moment: Moment
    lanes: Array
    index: Array
    width: int

    @property
    def is_init(self) -> bool:
        return self.operation.instruction.name.startswith(INIT)


class ProxyFences:
    """Writes to shared memory that the asynchronous proxy does not see yet. Locations are 8 bytes."""

    UNIT = 8

    def __init__(self, machine: Execution) -> None:
        self.machine = machine
        self.active = machine.shadow is not None and machine.lowered.fact(reads_past_threads)
        self._unfenced = np.zeros(-(-machine.shared.data.size // self.UNIT), bool)
        self._records: list[_Written] = []
        # What an instruction in flight reads, by the number of the instructions that do.
        self._read: dict[int, tuple[Operation[Any], int, Array]] = {}
        self._reading = np.zeros(self._unfenced.size, np.int32)
        self.written: list[Callable[[Array, int], None]] = []  # who else wants to know of writes by threads
        if self.active and machine.shadow is not None:
            machine.shadow.on_write = self.wrote

    @property
    def pending(self) -> bool:
        """Whether there is anything that the asynchronous proxy does not see."""
        return bool(self._records)

    def _units(self, index: Array, width: int) -> Array:
        steps = np.arange(0, max(width, 1), self.UNIT)
        units: Array = ((index.reshape(-1, 1) + steps) // self.UNIT).reshape(-1)
        return units

    # -- writes by threads ------------------------------------------------------------------------

    def wrote(self, operation: Operation[Any], lanes: Array, index: Array) -> None:
        assert operation.access is not None
        if not self.active or lanes.size == 0:
            return
        width = operation.access.width
        for told in self.written:
            told(index, width)
        units = self._units(index, width)
        if self._reading[units].any():
            self._overwrote(operation, lanes, index, width)
        self._unfenced[units] = True
        self._records.append(
            _Written(operation, self.machine.clocks.now(), lanes.reshape(-1), index.reshape(-1), width)
        )

    def fence(self, lanes: Array, only_inits: bool = False) -> None:
        """These lanes execute a proxy fence: what they know of is visible from now on.

        ``only_inits``: it is fence.mbarrier_init, which does so for initialisations alone.
        """
        if not self.active or not self._records:
            return
        now, left = self.machine.clocks.now(), []
        lead = lanes[::WARP] if lanes.size > WARP else lanes
        for written in self._records:
            if only_inits and not written.is_init:
                left.append(written)
                continue
            seen = np.isin(written.lanes, lanes)
            for lane in lead.tolist():
                rest = np.flatnonzero(~seen)
                if rest.size == 0:
                    break
                seen[rest] = ordered(written.moment, written.lanes[rest], now, np.full(rest.size, lane))
            if not seen.all():
                keep = ~seen
                left.append(replace(written, lanes=written.lanes[keep], index=written.index[keep]))
        self._keep(left)

    def _keep(self, records: list[_Written]) -> None:
        self._records = records
        self._unfenced[:] = False
        for written in records:
            self._unfenced[self._units(written.index, written.width)] = True

    def copied(self, index: Array, width: int) -> None:
        """cp.async overwrites these bytes: what reads them later does not read what threads wrote before.

        Nothing is asked of cp.async itself, whose copies wgmma reads after a wait and a barrier.
        """
        if not self.active or not self._records or width < self.UNIT:
            return
        covered = np.zeros_like(self._unfenced)
        covered[self._units(index, width)] = True
        if not (covered & self._unfenced).any():
            return
        left = []
        for written in self._records:
            count = len(range(0, max(written.width, 1), self.UNIT))
            keep = ~covered[self._units(written.index, written.width)].reshape(-1, count).all(axis=1)
            if keep.any():
                left.append(replace(written, lanes=written.lanes[keep], index=written.index[keep]))
        self._keep(left)

    # -- reads past the threads -------------------------------------------------------------------

    def look(self, operation: Operation[Any], lane: int, index: Array, width: int, remedy: str = FENCE) -> None:
        """An instruction of ``lane`` reads these bytes through the asynchronous proxy."""
        if not self.active:
            return
        units = self._units(index, width)
        if not self._unfenced[units].any():
            return
        for written in reversed(self._records):
            places = np.repeat(np.arange(written.lanes.size), len(range(0, max(written.width, 1), self.UNIT)))
            hit = np.isin(self._units(written.index, written.width), units)
            if hit.any():
                i = int(places[np.argmax(hit)])
                kind = HazardKind.UNFENCED_INIT if remedy == INIT_FENCE else HazardKind.UNFENCED
                self._report(kind, int(written.index[i]), (written.operation, int(written.lanes[i])),
                             (operation, lane), remedy)  # fmt: skip
                return

    def overwritten(self, operation: Operation[Any], lanes: Array, index: Array, width: int) -> None:
        """A copy into shared memory by these lanes is to write these bytes: nothing in flight may still read them, not
        even for the thread that issued both."""
        if self.active and self._reading[self._units(index, width)].any():
            self._overwrote(operation, lanes, index, width)

    def begin(self, key: int, operation: Operation[Any], lane: int, index: Array) -> None:
        """An instruction in flight reads these 16-byte chunks until ``end``."""
        if self.active:
            units = np.unique(self._units(index, 16))
            self._read[key] = operation, lane, units
            self._reading[units] += 1

    def end(self, key: int) -> None:
        if (found := self._read.pop(key, None)) is not None:
            self._reading[found[2]] -= 1

    def _overwrote(self, operation: Operation[Any], lanes: Array, index: Array, width: int) -> None:
        lanes, index = lanes.reshape(-1), index.reshape(-1)
        places = np.repeat(np.arange(lanes.size), len(range(0, max(width, 1), self.UNIT)))
        for reader, lane, units in self._read.values():
            hit = np.isin(self._units(index, width), units)
            if hit.any():
                i = int(places[np.argmax(hit)])
                wgmma = reader.instruction.name.startswith("wgmma")
                self._report(HazardKind.STILL_READ, int(index[i]), (reader, lane), (operation, int(lanes[i])),
                             WAIT_GROUP if wgmma else WAIT_READ)  # fmt: skip
                return

    def _report(self, kind: HazardKind, index: int, first: tuple[Operation[Any], int],
                second: tuple[Operation[Any], int], remedy: str) -> None:  # fmt: skip
        machine = self.machine
        assert machine.log is not None
        address = index % machine.shared.stride
        machine.log.add((0, first[0].position, second[0].position), Hazard(
            kind, address, machine.block_name(first[1]), side(machine, *first), side(machine, *second),
            across_warps=True, remedy=remedy))  # fmt: skip


def side(machine: Execution, operation: Operation[Any], lane: int) -> Side:
    i = operation.instruction
    return Side(operation.traits.verb or operation.traits.called or i.opcode, i.where, i.text,
                f"thread {machine.thread_name(lane)}")  # fmt: skip


# -- registers of wgmma -------------------------------------------------------------------------------


def wgmma_cells(lowered: Lowered) -> dict[Cell, int]:
    """A number for each register that a wgmma of the program reads or writes, other than descriptors and predicates.

    The compiler copies such registers by mov between one wgmma and the next; ptxas makes one register of all. So the
    copies belong to them.
    """
    cells: dict[Cell, int] = {}
    for operation in lowered.operations:
        if operation.instruction.name.startswith("wgmma.mma_async"):
            for cell in _own(operation):
                cells.setdefault(cell, len(cells))
    copies = [pair for operation in lowered.operations if (pair := _copied(operation)) is not None] if cells else []
    size = 0
    while size != len(cells):
        size = len(cells)
        for source, target in copies:
            if source in cells or target in cells:
                cells.setdefault(source, len(cells))
                cells.setdefault(target, len(cells))
    return cells


def _copied(operation: Operation[Any]) -> tuple[Cell, Cell] | None:
    """(source, target) of a mov from one 32-bit register to another."""
    if operation.instruction.opcode != "mov" or len(operation.targets) != 1 or len(operation.sources) != 1:
        return None
    source, target = operation.sources[0], operation.targets[0]
    if not isinstance(source, Slot) or source.file != "w" or target.file != "w":
        return None
    return source.cell, target.cell


def _own(operation: Operation[Any]) -> list[Cell]:
    """The accumulators and the registers of A."""
    of_a = [cell for cell in operation.reads() if cell[0] == "w"]
    return [*operation.writes(), *of_a]


class WgmmaRegisters:
    """Which registers of which warps a wgmma in flight uses, and which were changed since the last wgmma.fence."""

    def __init__(self, machine: Execution) -> None:
        self.machine = machine
        watched = machine.log is not None or machine.late_copies
        self.cells = machine.lowered.fact(wgmma_cells) if watched else {}
        self.force: Callable[[Lanes], None] = lambda _: None  # computes what these lanes have in flight
        warps = int(machine.warp[-1]) + 1
        self._written = np.zeros((len(self.cells), warps), bool)  # by a wgmma in flight
        self._read = np.zeros((len(self.cells), warps), bool)
        self._changed = np.ones((len(self.cells), warps), bool)  # since the last wgmma.fence
        self._by = np.full((len(self.cells), warps), -1, np.int64)  # who changed it: a position
        self._touched: dict[int, tuple[Array, Array]] = {}

    def _rows(self, cells: list[Cell]) -> Array:
        return np.array([self.cells[cell] for cell in cells if cell in self.cells], np.int64)

    def watch(self, step: Bundle[Any], lanes: Lanes) -> None:
        """Lanes execute something else than wgmma."""
        key = step.first.position
        if step.first.instruction.opcode == "mov":
            self._copy(step, lanes)
            return
        if key not in self._touched:
            reads = self._rows([cell for o in step.operations for cell in o.reads()])
            writes = self._rows([cell for o in step.operations for cell in o.writes()])
            self._touched[key] = reads, writes
        reads, writes = self._touched[key]
        if not reads.size and not writes.size:
            return
        warps = np.unique(self.machine.warp[lanes])
        early = self._written[np.ix_(reads, warps)].any() or self._written[np.ix_(writes, warps)].any()
        if early or self._read[np.ix_(writes, warps)].any():
            self._report(HazardKind.BEFORE_WAIT, self._flying_operation, step.first, lanes, WAIT_GROUP)
        if writes.size:
            self._changed[np.ix_(writes, warps)] = True
            self._by[np.ix_(writes, warps)] = step.first.position

    def _copy(self, step: Bundle[Any], lanes: Lanes) -> None:
        """A copy is as far as what it is copied from; a constant may be set at any time."""
        warps = np.unique(self.machine.warp[lanes])
        for operation in step.operations:
            pair = _copied(operation)
            if pair is None or pair[0] not in self.cells:
                continue
            source, target = self.cells[pair[0]], self.cells[pair[1]]
            if self._written[source, warps].any():
                self.force(lanes)
            for state in (self._written, self._read, self._changed, self._by):
                state[target, warps] = state[source, warps]

    def issue(self, step: Bundle[Any], lanes: Lanes) -> None:
        if not self.cells:
            return
        operation, warps = step.first, np.unique(self.machine.warp[lanes])
        rows = self._rows(_own(operation))
        changed = self._changed[np.ix_(rows, warps)]
        if changed.any():
            by = int(self._by[np.ix_(rows, warps)][changed].max())
            first = self.machine.lowered.operations[by] if by >= 0 else operation
            self._report(HazardKind.NO_WGMMA_FENCE, first, operation, lanes, WGMMA_FENCE if by >= 0 else FIRST_FENCE)
            self._changed[np.ix_(rows, warps)] = False
        self._flying_operation = operation
        self._written[np.ix_(self._rows(operation.writes()), warps)] = True
        self._read[np.ix_(self._rows([c for c in operation.reads() if c[0] == "w"]), warps)] = True

    def fence(self, lanes: Lanes) -> None:
        self._changed[:, np.unique(self.machine.warp[lanes])] = False

    def waited(self, lanes: Lanes, still: list[tuple[Operation[Any], Array]]) -> None:
        """These lanes waited; ``still`` are the products in flight, with their lanes."""
        warps = np.unique(self.machine.warp[lanes])
        self._written[:, warps] = self._read[:, warps] = False
        for operation, flying in still:
            theirs = np.intersect1d(np.unique(self.machine.warp[flying]), warps)
            self._written[np.ix_(self._rows(operation.writes()), theirs)] = True
            self._read[np.ix_(self._rows([c for c in operation.reads() if c[0] == "w"]), theirs)] = True

    def _report(self, kind: HazardKind, first: Operation[Any], second: Operation[Any], lanes: Lanes,
                remedy: str) -> None:  # fmt: skip
        machine = self.machine
        if machine.log is None:
            return
        lane = int(machine.indices(lanes)[0])
        machine.log.add((0, first.position, second.position), Hazard(
            kind, 0, machine.block_name(lane), side(machine, first, lane), side(machine, second, lane),
            across_warps=False, remedy=remedy, place="registers"))  # fmt: skip
