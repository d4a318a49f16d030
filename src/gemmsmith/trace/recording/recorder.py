"""Records a launch while the simulator runs it: one block in full, the others in outline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import Lowered
from gemmsmith.sim.lowering.traits import Bundling, Effect, Space
from gemmsmith.sim.memory.access_faults import MixedSpaces
from gemmsmith.sim.memory.global_memory import resolve_generic
from gemmsmith.sim.ptx.types import Array as Numbers
from gemmsmith.sim.recorder import Recorder
from gemmsmith.sim.wave import WARP, Size
from gemmsmith.trace.launch_trace import Array, Kind
from gemmsmith.trace.recording.kinds import kind_of
from gemmsmith.trace.recording.sync_recorder import SyncRecorder
from gemmsmith.trace.recording.traced_lanes import TracedLanes
from gemmsmith.trace.recording.warp_log import Item

_ELSEWHERE = frozenset({Kind.COPY, Kind.BULK_LOAD, Kind.BULK_STORE, Kind.WGMMA})  # recorded by hooks of their own


class LaunchRecorder(SyncRecorder, Recorder):
    """The recorder of a launch: sorts what is executed by its kind."""

    def __init__(self, lowered: Lowered, grid: Size, threads: int, traced: int, arrays: Sequence[Array],
                 shared_bytes: int, granule: int) -> None:  # fmt: skip
        super().__init__(lowered, grid, threads, traced, arrays, shared_bytes, granule)
        self._kinds: dict[int, tuple[tuple[int, Kind], ...]] = {}

    @property
    def began(self) -> bool:
        """Whether the block in full has executed anything."""
        return any(log.events() for log in self.logs.values())

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
        elif addresses is not None and space is Space.LOCAL:
            self.provenance.local(step, mine.threads, addresses.reshape(step.count, -1)[:, mine.part])
            self._log_all(step, kinds, mine)
        else:
            self._compute(step, kind, kinds, mine)

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
        self._log_all(step, kinds, mine)

    def _log_all(self, step: Bundle[Any], kinds: tuple[tuple[int, Kind], ...], mine: TracedLanes) -> None:
        boundary = step.traits.bundling is Bundling.BOUNDARY
        for warp, mask in mine.masks():
            self.logs[warp].add_all(kinds, mask)
            if boundary:
                self.logs[warp].end_stretch()

    def _kinds_of(self, step: Bundle[Any], space: Space | None) -> tuple[tuple[int, Kind], ...]:
        found = self._kinds.get(id(step))
        if found is None or step.access is not None:
            kind = kind_of(step.first, space)
            found = self._kinds[id(step)] = tuple((operation.position, kind) for operation in step.operations)
        return found
