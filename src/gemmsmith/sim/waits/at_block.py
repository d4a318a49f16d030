"""Groups that wait at barriers of their block, until every live thread of it has arrived."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.faults import divergent_barrier
from gemmsmith.sim.lanes import ALL, Lanes, compact
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.async_hazards import side
from gemmsmith.sim.races.hazards import EXITED, Hazard, HazardKind
from gemmsmith.sim.races.spots import spot
from gemmsmith.sim.stepper import Group, Stepper

_LAST = 9  # after races
_REMEDY = ("all threads of a block must come to __syncthreads() equally often: give the loop around it the same number "
           "of rounds for all of them, and let those without work of their own do nothing in it")  # fmt: skip


class AtBlock:
    """Barriers of blocks: ``groups`` wait at the instruction at their position."""

    def __init__(self, machine: Stepper) -> None:
        self.machine = machine
        self.groups: list[Group] = []
        self._last = np.full(machine.wave.lanes, -1)  # the position of the last barrier that each lane passed
        self._apart = np.zeros(machine.wave.lanes, bool)  # those of its block passed it at other positions
        self._arrivals = 0
        self._fruitless = (-1, -1)  # arrivals and progress when no block could be released

    def arrive(self, step: Bundle[Any], group: Group, alone: bool) -> list[Group]:
        """A barrier of the block: lanes whose guard does not hold go on."""
        arriving = self.machine.guarded(step, group.lanes)
        after = replace(group, position=step.following)
        if arriving is None:
            return [after]
        self.machine.arrive(step, arriving)
        if arriving is group.lanes and alone and isinstance(arriving, slice) and arriving == ALL:
            self._last[:], self._apart[:] = group.position, False
            self._pass(step, arriving)
            return [after]
        self.groups.append(replace(group, lanes=arriving))
        self._arrivals += 1
        return [] if arriving is group.lanes else [replace(after, lanes=self.machine.others(group.lanes, arriving))]

    def release(self) -> list[Group]:
        """Release every block whose live threads have all arrived at one barrier, whole warps at any place of it."""
        if self._fruitless == (self._arrivals, self.machine.progress):
            return []  # nobody has arrived or ended since: threads that spin ask often
        arrived, mixed = self.arrivals()
        free = (arrived == self.machine.live) & (arrived > 0) & ~mixed
        if not free.any():
            self._fruitless = self._arrivals, self.machine.progress
            return []
        self.machine.progress += 1
        self._note_exited(free)
        waiting, self.groups = self.groups, []
        latest = max(group.time for group in waiting)
        released: list[Group] = []
        passed: dict[int, list[Lanes]] = {}
        sets = [self.machine.indices(group.lanes) for group in waiting]
        ends = np.cumsum([lanes.size for lanes in sets])[:-1]
        for group, lanes, go in zip(
            waiting, sets, np.split(free[self.machine.block[np.concatenate(sets)]], ends), strict=True
        ):
            if not go.any():
                self.groups.append(group)
                continue
            after = self.machine.program.step(group.position).following
            released.append(Group(after, self.machine.compact(lanes[go]), group.team, latest))
            passed.setdefault(group.position, []).append(lanes[go])
            if not go.all():
                self.groups.append(replace(group, lanes=compact(lanes[~go])))
        self._note_places(passed)
        for position, some in passed.items():
            self._pass(self.machine.program.step(position), self.machine.union(some))
        return released

    def _note_places(self, passed: dict[int, list[Lanes]]) -> None:
        """Remember where each lane passed, and whether others of its block did so elsewhere."""
        lowest = np.full(len(self.machine.wave.blocks), np.iinfo(np.int64).max)
        highest = np.full(lowest.size, -1)
        for position, some in passed.items():
            for lanes in some:
                self._last[lanes] = position
                np.minimum.at(lowest, self.machine.block[lanes], position)
                np.maximum.at(highest, self.machine.block[lanes], position)
        through = highest >= 0
        self._apart = np.where(through[self.machine.block], (lowest < highest)[self.machine.block], self._apart)

    def _pass(self, step: Bundle[Any], lanes: Lanes) -> None:
        if self.machine.recorder is not None:
            self.machine.recorder.passes(self.machine, step, lanes)
        step.execute(self.machine, step, lanes)

    def arrivals(self) -> tuple[Array, Array]:
        """For each block, how many threads wait at a barrier, and whether they wait at different ones."""
        blocks = len(self.machine.wave.blocks)
        arrived = np.zeros(blocks, np.int64)
        low, high = np.full(blocks, np.iinfo(np.int64).max), np.full(blocks, -1)
        kinds: dict[str, int] = {}
        place = np.full(blocks * self.machine.warps_per_block, -1)
        positions: dict[int, list[Array]] = {}
        for group in self.groups:
            positions.setdefault(group.position, []).append(self.machine.indices(group.lanes))
        for position, sets in positions.items():
            step, lanes = self.machine.program.step(position), np.concatenate(sets)
            block = self.machine.block[lanes]
            arrived += np.bincount(block, minlength=blocks)
            numbers = self.machine.spread(self.machine.fetch(step.sources[0], lanes), lanes).astype(np.int64)
            numbers = numbers | kinds.setdefault(step.detail.reduction, len(kinds)) << 32
            np.minimum.at(low, block, numbers)
            np.maximum.at(high, block, numbers)
            if step.traits.aligned:
                warps = np.unique(self.machine.warp[lanes])
                split = warps[place[warps] >= 0]  # already at another position
                if split.size:
                    first = int(split[0]) // self.machine.warps_per_block
                    raise divergent_barrier(self.machine, first, self.machine.waiting(self.groups))
                place[warps] = position
        return arrived, low < high

    def _note_exited(self, free: Array) -> None:
        """A barrier that some threads of the block never reached, because they had ended: legal, but worth a note."""
        machine = self.machine
        short = free & (machine.live < machine.wave.threads)
        if machine.log is None or not short.any():
            return
        group, lanes = next(
            (g, lanes) for g in self.groups if short[machine.block[lanes := machine.indices(g.lanes)]].any()
        )
        lane = int(lanes[short[machine.block[lanes]]][0])
        step, gone = machine.program.step(group.position), machine.wave.threads - int(machine.live[machine.block[lane]])
        self._report_left(step.first, lane)
        machine.log.note(f"{step.traits.called} at {step.first.instruction.where}: {gone} of {machine.wave.threads} "
                         f"threads {EXITED} and are not waited for; "
                         "if others need what they load, let them reach it and guard their stores instead")  # fmt: skip

    def _report_left(self, operation: Operation[Any], waiting: int) -> None:
        """Threads that have ended, after they passed a barrier while others were at another one: these wait once more
        than they did. CUDA does not say what happens then."""
        machine, log = self.machine, self.machine.log
        gone = np.flatnonzero(~machine.alive & self._apart & (machine.block == machine.block[waiting]))
        if log is None or not gone.size:
            return
        before = machine.program.step(int(self._last[gone[0]])).first
        first, second = (
            replace(side(machine, each, lane), spot=spot(machine, each, lane))
            for each, lane in ((before, int(gone[0])), (operation, waiting))
        )
        log.add((_LAST, operation.position), Hazard(
            HazardKind.UNEQUAL_BARRIERS, 0, machine.block_name(waiting), first, second, across_warps=True,
            place="__syncthreads()", remedy=_REMEDY))  # fmt: skip
