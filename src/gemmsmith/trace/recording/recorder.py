"""Records a launch while the simulator runs it: one block in full, the others in outline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.instructions.mbarrier import places
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.mbarriers import MBarriers, phase_number
from gemmsmith.sim.memory import PEER_SHIFT, AccessFault, MixedSpaces, resolve_generic
from gemmsmith.sim.operation import Lowered, Operation
from gemmsmith.sim.recorder import Recorder
from gemmsmith.sim.traits import Bundling, Effect, Space, Wait
from gemmsmith.sim.types import Array as Numbers
from gemmsmith.sim.wave import WARP, Size
from gemmsmith.trace.launch_trace import Access, Array, Kind, Phase, Snapshot
from gemmsmith.trace.recording.barrier_times import BarrierTimes
from gemmsmith.trace.recording.fed import Consumed
from gemmsmith.trace.recording.fed import places as places_in
from gemmsmith.trace.recording.fragment_log import FragmentLog
from gemmsmith.trace.recording.kinds import group_family, kind_of
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
_MOST_PHASES = 4_000
_CHUNK, _ROW = 16, 16
_ELSEWHERE = frozenset({Kind.COPY, Kind.BULK_LOAD, Kind.BULK_STORE, Kind.WGMMA})  # recorded by hooks of their own


class LaunchRecorder(Recorder):
    """``traced`` is the number of the block in full. ``arrays`` are the global arrays whose elements are followed."""

    def __init__(self, lowered: Lowered, grid: Size, threads: int, traced: int, arrays: Sequence[Array],
                 shared_bytes: int, granule: int) -> None:  # fmt: skip
        self.lowered, self.traced, self.arrays = lowered, traced, tuple(arrays)
        warps = -(-threads // WARP)
        element = min((array.itemsize for array in arrays), default=granule)
        most = max(_LEAST_EVENTS, _MOST_EVENTS // warps)
        self.logs = {warp: WarpLog(warp, most) for warp in range(warps)} | {PEERS: WarpLog(PEERS, most)}
        self.patterns, self.times = Patterns(), BarrierTimes()
        self.provenance = Provenance(element_cells(lowered), threads, shared_bytes, granule, element)
        self.consumed = Consumed(arrays, threads)
        self.fragments = FragmentLog(self.provenance, self.consumed)
        self.outlines = Outlines(arrays, grid)
        self.phases: list[Phase] = []
        self.snapshot: Snapshot | None = None
        self._groups: dict[tuple[int, str], int] = {}
        self._kinds: dict[int, tuple[tuple[int, Kind], ...]] = {}
        self._wave: tuple[Any, int] = None, -1

    # -- hooks ------------------------------------------------------------------------------------

    def executes(self, machine: Any, step: Bundle[Any], lanes: Lanes) -> None:
        space, addresses = None, None
        if step.access is not None and step.pointers:
            space = step.access.space
            if step.first.instruction.opcode not in ("cp", "mbarrier", "wgmma"):
                addresses = machine.addresses(step.pointers[0], lanes, step.count)
            if space is Space.GENERIC and addresses is not None:
                try:
                    space, addresses = resolve_generic(addresses)
                except MixedSpaces:
                    return  # comes again, one memory after the other
            if space is Space.GLOBAL and addresses is not None and addresses.size:
                reached, stores = addresses.astype(np.int64), step.access.effect is not Effect.READ
                self._outline(machine, lanes, reached, stores)
                if step.access.width > self.provenance.granule:  # to the last byte of a vector
                    self._outline(machine, lanes, reached + (step.access.width - 1), stores)
        mine = self._mine(machine, lanes)
        if mine is None:
            return
        kinds = self._kinds_of(step, space)
        kind = kinds[0][1]
        if kind in _ELSEWHERE:
            return
        if addresses is not None and space in (Space.GLOBAL, Space.SHARED):
            self._access(step, kind, space, mine, addresses.reshape(step.count, -1)[:, mine.part])
        elif kind in (Kind.ARRIVE, Kind.PHASE_WAIT):
            self._mbarrier(machine, step, kind, lanes, mine)
        elif kind is Kind.BARRIER:
            self._barrier(machine, step, lanes, mine)
        elif kind in (Kind.COMMIT, Kind.WAIT):
            self._group(step, kind, mine)
        else:
            self._compute(step, kind, kinds, mine)

    def arrives(self, machine: Any, step: Bundle[Any], lanes: Lanes) -> None:
        mine = self._mine(machine, lanes)
        if mine is None or step.first.instruction.opcode not in ("bar", "barrier"):
            return
        number = self._barrier_number(machine, step, lanes)
        for warp, _ in mine.masks():
            self.times.arrived("barrier", number, self.logs[warp].end_stretch())

    def passes(self, machine: Any, step: Bundle[Any], lanes: Lanes) -> None:
        mine = self._mine(machine, lanes)
        if mine is not None:
            self._barrier(machine, step, lanes, mine)

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

    def bulk_load(self, machine: Any, operation: Operation[Any], lane: int, targets: list[Numbers], barriers: Numbers,
                  nbytes: int, source: Any) -> None:  # fmt: skip
        block = self._block(machine)
        own, stride = int(machine.block[lane]), machine.shared.stride
        found = source.elements()
        if found is not None and found[1].any():
            inside = found[0][found[1]].astype(np.int64)
            number = int(machine.wave.blocks[own])
            self.outlines.touch(np.full(inside.size, number), inside, stores=False)
        here = next((chunks for chunks in targets if chunks.size and int(chunks[0]) // stride == block), None)
        if block < 0 or (own != block and here is None):
            return
        if here is not None:
            self._tag_box(here - block * stride, found, source, nbytes)
        log = self.logs[int(machine.thread[lane]) // WARP if own == block else PEERS]
        clock = log.end_stretch() if own == block else max(each.clock for each in self.logs.values())
        if own != block:
            log.clock = max(log.clock, clock)
        for place in barriers.tolist():
            self.times.arrived("mbarrier", place, log.clock)
        facts = self._bulk_facts(found, source, nbytes, here if here is not None else targets[0], stride) | {
            "barrier": int(barriers[0]) % stride, "blocks": len(targets), "from_peer": own != block,
        }  # fmt: skip
        log.now(Item(operation.position, Kind.BULK_LOAD, 1 << int(machine.thread[lane]) % WARP, facts=facts))

    def bulk_store(self, machine: Any, operation: Operation[Any], lane: int, chunks: Numbers, nbytes: int,
                   source: Any) -> None:  # fmt: skip
        found = source.elements()
        own, stride = int(machine.block[lane]), machine.shared.stride
        if found is not None and found[1].any():
            inside = found[0][found[1]].astype(np.int64)
            self.outlines.touch(np.full(inside.size, int(machine.wave.blocks[own])), inside, stores=True)
        if own != self._block(machine):
            return
        log = self.logs[int(machine.thread[lane]) // WARP]
        facts = self._bulk_facts(found, source, nbytes, chunks, stride)
        facts["group"] = self._groups.get((log.number, "cp.async.bulk"), 0)
        log.now(Item(operation.position, Kind.BULK_STORE, 1 << int(machine.thread[lane]) % WARP, facts=facts))

    def multiplies(self, machine: Any, step: Bundle[Any], lanes: Lanes, of_a: Numbers | None, of_b: Numbers) -> None:
        mine = self._mine(machine, lanes)
        if mine is None:
            return
        warps = slice(mine.part.start // WARP, mine.part.stop // WARP)
        a, b = None if of_a is None else of_a[warps], of_b[warps]
        clocks = {warp: self.logs[warp].end_stretch() for warp, _ in mine.masks()}
        if self.snapshot is None:
            self._keep_snapshot(mine)
        reads = self.fragments.wgmma(step, mine.threads, a, b, clocks)
        self.provenance.clear(step, mine.threads)
        for n, (warp, mask) in enumerate(mine.masks()):
            facts = {"group": self._groups.get((warp, "wgmma"), 0), "reads": reads[n]}
            self.logs[warp].now(Item(step.first.position, Kind.WGMMA, mask, facts=facts))

    def completes(self, machine: Any, place: int, phase: int) -> None:
        slot = self.times.completed(place, phase)
        if place // machine.shared.stride == self._block(machine) and len(self.phases) < _MOST_PHASES:
            self.phases.append(Phase(place % machine.shared.stride, phase, slot))

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

    # -- what is not an access --------------------------------------------------------------------

    def _compute(self, step: Bundle[Any], kind: Kind, kinds: tuple[tuple[int, Kind], ...], mine: TracedLanes) -> None:
        if kind is Kind.MMA:
            clocks = {warp: self.logs[warp].clock for warp, _ in mine.masks()}
            self.fragments.mma(step, mine.threads, clocks)
            self.provenance.clear(step, mine.threads)
        elif kind is Kind.ARITHMETIC:
            used = [tags for s in step.sources if (tags := self.provenance.distinct(s, mine.threads)) is not None]
            if not self.provenance.move(step, mine.threads):
                self.provenance.clear(step, mine.threads)
            elif used and self.provenance.knows(step.targets[0], mine.threads):
                used = []  # still one element, which others may consume
            for tags in used:
                self.consumed.use(mine.threads, tags)
        elif not self.provenance.move(step, mine.threads):
            self.provenance.clear(step, mine.threads)
        boundary = step.traits.bundling is Bundling.BOUNDARY
        for warp, mask in mine.masks():
            self.logs[warp].add_all(kinds, mask)
            if boundary:
                self.logs[warp].end_stretch()

    def _barrier(self, machine: Any, step: Bundle[Any], lanes: Lanes, mine: TracedLanes) -> None:
        number, waits = self._barrier_number(machine, step, lanes), step.traits.waits_on is not Wait.NOTHING
        for warp, mask in mine.masks():
            clock = self.logs[warp].end_stretch()
            if not waits:
                self.times.arrived("barrier", number, clock)
            slots = self.times.release("barrier", number, clock) - clock if waits else 1
            facts = {"number": number, "waits": waits}
            self.logs[warp].now(Item(step.first.position, Kind.BARRIER, mask, facts=facts, slots=slots))

    def _barrier_number(self, machine: Any, step: Bundle[Any], lanes: Lanes) -> int:
        if ".cluster" in step.first.instruction.name or not step.sources:
            return -1
        return int(np.asarray(machine.fetch(step.sources[0], lanes)).reshape(-1)[0])

    def _mbarrier(self, machine: Any, step: Bundle[Any], kind: Kind, lanes: Lanes, mine: TracedLanes) -> None:
        detail = step.detail
        generic = detail if isinstance(detail, bool) else detail.generic
        try:
            _, index = places(machine, step, lanes, generic)
            phases = phase_number(machine.unit(MBarriers).load(index))
        except AccessFault:
            return  # the instruction itself reports it
        done = detail.complete(machine, step, lanes) if kind is Kind.PHASE_WAIT else np.ones(index.size, bool)
        first = mine.part.start
        stride = machine.shared.stride
        seen = 0
        for warp, mask in mine.masks():
            at = first + seen
            seen += bin(mask).count("1")
            log = self.logs[warp]
            clock, place, phase = log.end_stretch(), int(index[at]), int(phases[at])
            facts: dict[str, Any] = {"barrier": place % stride, "phase": phase, "lanes": seen - (at - first)}
            slots = 1
            if kind is Kind.PHASE_WAIT:
                if not done[at]:
                    continue  # it asks again
                facts["phase"] = phase - 1
                slots = max(1, self.times.phase_release(place, phase - 1, clock) - clock)
            else:
                self.times.arrived("mbarrier", place, clock)
                if "_tx" in step.first.instruction.name and step.sources:
                    facts["bytes"] = int(np.asarray(machine.fetch(step.sources[0], lanes)).reshape(-1)[0])
                if place // stride != self._block(machine):
                    facts["to_peer"] = True
            log.now(Item(step.first.position, kind, mask, facts=facts, slots=slots))

    def _group(self, step: Bundle[Any], kind: Kind, mine: TracedLanes) -> None:
        family = group_family(step.first.instruction.name)
        for warp, mask in mine.masks():
            committed = self._groups.get((warp, family), 0)
            if kind is Kind.COMMIT:
                self._groups[warp, family] = committed + 1
                facts = {"family": family, "group": committed}
            else:
                allowed = step.detail if isinstance(step.detail, int) else getattr(step.detail, "allowed", 0)
                facts = {"family": family, "done": committed if allowed < 0 else max(0, committed - allowed)}
            self.logs[warp].now(Item(step.first.position, kind, mask, facts=facts))

    # -- TMA --------------------------------------------------------------------------------------

    def _tag_box(self, chunks: Numbers, found: tuple[Numbers, Numbers] | None, source: Any, nbytes: int) -> None:
        each = _CHUNK // self.provenance.granule
        if found is None:
            if source.shared:
                self.provenance.set_shared(chunks, np.zeros((chunks.size, each), np.int64))
                return
            start = source.address + np.arange(0, nbytes, _CHUNK)
            self.provenance.set_shared(chunks, self.provenance.at_global(start, _CHUNK))
            return
        itemsize = source.box.itemsize
        tags = np.where(found[1], found[0].astype(np.int64), 0)
        parts = max(1, itemsize // self.provenance.granule)
        tags = np.where(tags[:, None] == 0, 0, tags[:, None] + self.provenance.granule * np.arange(parts))
        self.provenance.set_shared(chunks, tags.reshape(chunks.size, -1)[:, :each])

    def _bulk_facts(self, found: tuple[Numbers, Numbers] | None, source: Any, nbytes: int, chunks: Numbers,
                    stride: int) -> dict[str, Any]:  # fmt: skip
        facts: dict[str, Any] = {"bytes": nbytes, "shared": int(chunks.min()) % stride if chunks.size else 0}
        if source.box is not None:
            facts |= {"box": list(source.box.counts), "at": list(source.at), "swizzle": source.box.map.swizzle}
        wanted = np.array([source.address], np.int64) if found is None else found[0][found[1]].astype(np.int64)
        first = int(wanted[0]) if wanted.size else -1
        array = next((a for a in self.arrays if a.address <= first < a.address + a.nbytes), None)
        if array is not None:
            rows, columns = places_in(array, wanted)
            facts |= {"array": array.name, "rows": [int(rows.min()), int(rows.max())],
                      "columns": [int(columns.min()), int(columns.max())]}  # fmt: skip
        return facts

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

    def _kinds_of(self, step: Bundle[Any], space: Space | None) -> tuple[tuple[int, Kind], ...]:
        found = self._kinds.get(id(step))
        if found is None or step.access is not None:
            kind = kind_of(step.first, space)
            found = self._kinds[id(step)] = tuple((operation.position, kind) for operation in step.operations)
        return found

    def _block(self, machine: Any) -> int:
        """The traced block's number within the wave; −1 if it is in another."""
        if self._wave[0] is not machine:
            at = np.flatnonzero(machine.wave.blocks == self.traced)
            self._wave = machine, int(at[0]) if at.size else -1
        return self._wave[1]

    def _mine(self, machine: Any, lanes: Lanes) -> TracedLanes | None:
        block = self._block(machine)
        return None if block < 0 else traced_lanes(machine, lanes, block)
