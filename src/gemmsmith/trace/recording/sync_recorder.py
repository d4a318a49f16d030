"""Waiting for one another: barriers, mbarriers, groups of asynchronous operations, and copies by TMA."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.instructions.mbarrier import places
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.lowering.traits import Wait
from gemmsmith.sim.memory.access_faults import AccessFault
from gemmsmith.sim.ptx.types import Array as Numbers
from gemmsmith.sim.waits.mbarriers import MBarriers, phase_number
from gemmsmith.sim.wave import WARP
from gemmsmith.trace.launch_trace import Kind, Phase
from gemmsmith.trace.recording.access_recorder import PEERS, AccessRecorder
from gemmsmith.trace.recording.fed import places as places_in
from gemmsmith.trace.recording.kinds import group_family
from gemmsmith.trace.recording.traced_lanes import TracedLanes
from gemmsmith.trace.recording.warp_log import Item

_MOST_PHASES = 4_000
_CHUNK = 16


class SyncRecorder(AccessRecorder):
    """Adds what synchronises, with the slots at which warps go on."""

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

    def completes(self, machine: Any, place: int, phase: int) -> None:
        slot = self.times.completed(place, phase)
        if place // machine.shared.stride == self._block(machine) and len(self.phases) < _MOST_PHASES:
            self.phases.append(Phase(place % machine.shared.stride, phase, slot))

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

    def bulk_load(self, machine: Any, operation: Operation[Any], lane: int, targets: list[Numbers], barriers: Numbers,
                  nbytes: int, source: Any) -> None:  # fmt: skip
        block = self._block(machine)
        own, stride = int(machine.block[lane]), machine.shared.stride
        found = source.elements()
        if found is not None and found[1].any():
            inside = found[0][found[1]].astype(np.int64)
            receivers = [int(machine.wave.blocks[int(chunks[0]) // stride]) for chunks in targets if chunks.size]
            self.outlines.copied(int(machine.wave.blocks[own]), receivers, inside)
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
