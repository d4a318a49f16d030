"""What a recorder keeps of one launch, and the accesses to memory that it writes down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import Lowered, Operation
from gemmsmith.sim.lowering.traits import Bundling, Effect, Space
from gemmsmith.sim.memory.global_memory import PEER_SHIFT, SHARED_WINDOW
from gemmsmith.sim.ptx.types import Array as Numbers
from gemmsmith.sim.wave import WARP, Size
from gemmsmith.trace.launch_trace import Access, Array, Kind, Phase, Snapshot
from gemmsmith.trace.recording.barrier_times import BarrierTimes
from gemmsmith.trace.recording.fed import Consumed
from gemmsmith.trace.recording.fragment_log import FragmentLog
from gemmsmith.trace.recording.matrix_maps import ldmatrix_bytes
from gemmsmith.trace.recording.outlines import Outlines
from gemmsmith.trace.recording.patterns import NOBODY, Patterns
from gemmsmith.trace.recording.provenance import Provenance
from gemmsmith.trace.recording.taint import element_cells
from gemmsmith.trace.recording.traced_lanes import TracedLanes, traced_lanes
from gemmsmith.trace.recording.warp_log import Item, WarpLog

PEERS = -1  # the number of the log for what other blocks of the cluster do to this one
_MOST_EVENTS = 60_000
_LEAST_EVENTS = 1_500
_ROW = 16


class AccessRecorder:
    """``traced`` is the number of the block in full. ``arrays`` are the global arrays whose elements are followed."""

    def __init__(self, lowered: Lowered, grid: Size, threads: int, traced: int, arrays: Sequence[Array],
                 shared_bytes: int, granule: int) -> None:  # fmt: skip
        self.lowered, self.traced, self.arrays = lowered, traced, tuple(arrays)
        warps = -(-threads // WARP)
        element = min((array.itemsize for array in arrays), default=granule)
        most = max(_LEAST_EVENTS, _MOST_EVENTS // warps)
        self.logs = {warp: WarpLog(warp, most) for warp in range(warps)} | {PEERS: WarpLog(PEERS, most)}
        self.patterns, self.times = Patterns(), BarrierTimes()
        self.provenance = Provenance(element_cells(lowered), threads, shared_bytes, granule, element,
                                     lowered.local_size)  # fmt: skip
        self.consumed = Consumed(arrays, threads)
        self.fragments = FragmentLog(self.provenance, self.consumed)
        self.outlines = Outlines(arrays, grid)
        self.phases: list[Phase] = []
        self.snapshot: Snapshot | None = None
        self._groups: dict[tuple[int, str], int] = {}
        self._wave: tuple[Any, int] = None, -1

    def copies(self, machine: Any, operation: Operation[Any], lanes: Lanes, target: Numbers, source: Numbers,
               size: Numbers) -> None:  # fmt: skip
        source, target, size = (x.astype(np.int64) for x in (source, target, size))
        if (size > 0).any():
            blocks = machine.wave.blocks[machine.block[lanes]]
            self.outlines.touch(blocks[size > 0], source[size > 0], stores=False)
            self.outlines.touch(blocks[size > 0], (source + size - 1)[size > 0], stores=False)
        mine = self._mine(machine, lanes)
        if mine is None:
            return
        assert operation.access is not None
        width = operation.access.width
        source, target, size = source[mine.part], target[mine.part], size[mine.part]
        tags = np.where((size > 0)[:, None], self.provenance.at_global(source, width), 0)
        self.provenance.set_shared(target, tags)
        sources = mine.rows(np.where(size > 0, source, NOBODY))
        targets, elements = mine.rows(target), mine.rows(np.where(tags == 0, NOBODY, tags))
        for warp, mask in mine.masks():
            group = self._groups.get((warp, "cp.async"), 0)
            self.logs[warp].add(Item(operation.position, Kind.COPY, mask, self._made("global", width, sources[warp]),
                                     self._made("shared", width, targets[warp], elements[warp]),
                                     {"group": group}))  # fmt: skip

    def _outline(self, machine: Any, lanes: Lanes, addresses: Numbers, stores: bool) -> None:
        wave = machine.wave
        if addresses.shape[-1] == wave.lanes:
            self.outlines.touch_by_block(wave.blocks, addresses.reshape(-1, len(wave.blocks), wave.threads), stores)
            return
        blocks = np.broadcast_to(wave.blocks[machine.block[lanes]], addresses.shape)
        self.outlines.touch(blocks, addresses, stores)

    # -- accesses of memory -----------------------------------------------------------------------

    def _access(self, step: Bundle[Any], kind: Kind, space: Space, mine: TracedLanes, addresses: Numbers) -> None:
        assert step.access is not None
        addresses = addresses.astype(np.int64)
        if self.snapshot is None and kind in (Kind.LOAD_SHARED, Kind.LOAD_MATRIX):
            self._keep_snapshot(mine)
        if kind in (Kind.LOAD_MATRIX, Kind.STORE_MATRIX):
            self._matrix_rows(step, kind, mine, addresses)
            return
        width, tags, facts = step.access.width, None, None
        if space is Space.SHARED and addresses.size and int(addresses.max()) >> PEER_SHIFT:
            facts = {"to_peer": True}  # another block's shared memory
            addresses = addresses & (1 << PEER_SHIFT) - 1
        if facts is not None:
            self.provenance.clear(step, mine.threads)
        elif step.access.effect is Effect.READ:
            at = self.provenance.at_global if space is Space.GLOBAL else self.provenance.at_shared
            small = width < self.provenance.granule
            tags = np.zeros((*addresses.shape, 1), np.int64) if small else at(addresses, width)
            self.provenance.load(step, mine.threads, tags, addresses if space is Space.SHARED else None)
        elif space is Space.SHARED and step.access.effect is Effect.WRITE and width >= self.provenance.granule:
            tags = self.provenance.stored(step, mine.threads)
            for row, some in zip(addresses, tags, strict=True):
                self.provenance.set_shared(row, some)
        elif space is Space.GLOBAL and step.access.effect is Effect.WRITE and width >= self.provenance.granule:
            moved = self.provenance.stored(step, mine.threads)
            if moved.any():  # stored as it was loaded: that is a use as well
                self.consumed.use(mine.threads, moved.swapaxes(1, 2))
        if step.access.effect is Effect.UPDATE:
            self.provenance.clear(step, mine.threads)
        for n, operation in enumerate(step.operations):
            rows, elements = mine.rows(addresses[n]), None
            if tags is not None and space is Space.SHARED:
                elements = mine.rows(np.where(tags[n] == 0, NOBODY, tags[n]))
            for warp, mask in mine.masks():
                access = self._made(space, width, rows[warp], None if elements is None else elements[warp])
                self._log(step, warp, Item(operation.position, kind, mask, access, facts=facts))

    def _matrix_rows(self, step: Bundle[Any], kind: Kind, mine: TracedLanes, addresses: Numbers) -> None:
        """ldmatrix and stmatrix: the first lanes give the addresses of rows of 16 bytes."""
        count, given = step.detail.count, 8 * step.detail.count
        rows = addresses.reshape(step.count, -1, WARP)[:, :, :given]  # (operations, warps, rows)
        if step.detail.generic:
            rows = rows - SHARED_WINDOW
        if rows.min() < 0 or rows.max() >= self.provenance.shared.size * self.provenance.granule:
            return  # the instruction faults
        if kind is Kind.LOAD_MATRIX:
            row, byte = ldmatrix_bytes(step.detail.transposed)
            for j, target in enumerate(step.targets):
                at = rows[:, :, 8 * j : 8 * j + 8][:, :, row] + byte  # (operations, warps, 32, 4 bytes)
                at = at[..., :: self.provenance.granule]
                tags = self.provenance.shared[at // self.provenance.granule]
                both = np.stack([tags, at + 1]).reshape(2, step.count, mine.threads.size, -1)
                self.provenance.put(target, mine.threads, both.swapaxes(2, 3))
        tags = self.provenance.at_shared(rows, _ROW)
        if kind is Kind.STORE_MATRIX:
            tags = np.zeros_like(tags)
            self.provenance.set_shared(rows, tags)
        for n, operation in enumerate(step.operations):
            for w, (warp, mask) in enumerate(mine.masks()):
                lanes = np.full(WARP, NOBODY, np.int64)
                lanes[:given] = rows[n, w]
                of = np.full((WARP, tags.shape[-1]), NOBODY, np.int64)
                of[:given] = np.where(tags[n, w] == 0, NOBODY, tags[n, w])
                access = self._made(Space.SHARED, _ROW, lanes, of)
                self._log(step, warp, Item(operation.position, kind, mask, access, facts={"matrices": count}))

    def _made(self, space: str, width: int, lanes: Numbers, elements: Numbers | None = None) -> Access:
        pattern, at = self.patterns.split(lanes)
        known = (NOBODY, NOBODY) if elements is None else self.patterns.split(elements.reshape(-1))
        return Access(str(space), width, pattern, at, *known)

    def _keep_snapshot(self, mine: TracedLanes) -> None:
        """What shared memory holds now, if it holds elements."""
        tags = self.provenance.shared
        if not tags.any():
            return
        known = np.flatnonzero(tags)
        steps = np.diff(tags[known])
        joined = np.diff(known) == 1
        runs: list[tuple[int, int, int, int]] = []
        start = 0
        while start < known.size:
            stop, step = start, int(steps[start]) if start < steps.size and joined[start] else 0
            while stop < steps.size and joined[stop] and int(steps[stop]) == step:
                stop += 1
            runs.append((int(known[start]), stop - start + 1, int(tags[known[start]]), step))
            start = stop + 1
        slot = max(self.logs[warp].clock for warp, _ in mine.masks())
        self.snapshot = Snapshot(slot, tuple(runs))

    # -- small things -----------------------------------------------------------------------------

    def _log(self, step: Bundle[Any], warp: int, item: Item) -> None:
        if step.traits.bundling is Bundling.BOUNDARY:
            self.logs[warp].now(item)
        else:
            self.logs[warp].add(item)

    def _block(self, machine: Any) -> int:
        """The traced block's number within the wave; −1 if it is in another."""
        if self._wave[0] is not machine:
            at = np.flatnonzero(machine.wave.blocks == self.traced)
            self._wave = machine, int(at[0]) if at.size else -1
            self.outlines.seen[machine.wave.blocks] = True
        return self._wave[1]

    def _mine(self, machine: Any, lanes: Lanes) -> TracedLanes | None:
        block = self._block(machine)
        return None if block < 0 else traced_lanes(machine, lanes, block)
