"""Execute a lowered kernel for a wave of blocks: divergence, barriers, the order of warps.

A *group* is a set of lanes at one position in the program; a branch that lanes disagree on splits it, and groups that
meet again merge. Groups wait at barriers until every live thread of their block has arrived.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import ALIGNED, Bundle, Program
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.execute import Execution
from gemmsmith.sim.faults import describe_fault, divergent_barrier, endless, stuck_barrier
from gemmsmith.sim.hazards import HazardLog
from gemmsmith.sim.lanes import ALL, Lanes, Wave, compact
from gemmsmith.sim.lower import Lowered
from gemmsmith.sim.memory import AccessFault, GlobalMemory, LaneFault
from gemmsmith.sim.schedule import Schedule
from gemmsmith.sim.wavefronts import WARP

_EVERY_LANE = np.uint32(0xFFFFFFFF)


@dataclass
class Group:
    """Lanes that stand at one position; ``team`` is the schedule's, so that warps can drift apart."""

    position: int
    lanes: Lanes
    team: int


class Machine(Execution):
    """Runs one wave to its end."""

    def __init__(
        self,
        lowered: Lowered,
        program: Program,
        wave: Wave,
        memory: GlobalMemory,
        schedule: Schedule,
        log: HazardLog | None = None,
        counters: Counters | None = None,
        deadline: float = math.inf,
    ) -> None:
        super().__init__(lowered, wave, memory, schedule.late_copies, log, counters)
        self.program, self.schedule, self.deadline = program, schedule, deadline
        self.steps_taken = 0
        self.alive = np.ones(wave.lanes, bool)
        self.live = np.full(len(wave.blocks), wave.threads)
        self.at_warp_barrier: list[tuple[Group, Bundle]] = []

    def run(self) -> None:
        """Run every group to its end."""
        ready = self._start()
        waiting: list[tuple[Group, Bundle]] = []
        while ready or waiting or self.at_warp_barrier:
            if not ready:
                ready = self._release_warps() or self._release(waiting)
            group = ready.pop(self.schedule.choose([g.team for g in ready], [g.position for g in ready]))
            ready, group = self._merge(ready, group)
            meet = {g.position for g in ready if g.team == group.team}
            ready += self._advance(group, waiting, meet, alone=not (ready or waiting or self.at_warp_barrier))

    def _start(self) -> list[Group]:
        if self.schedule.lockstep:
            return [Group(0, ALL, 0)]
        warp = self.thread // WARP
        return [Group(0, compact(np.flatnonzero(warp == w)), w) for w in range(int(warp.max()) + 1)]

    def _merge(self, ready: list[Group], group: Group) -> tuple[list[Group], Group]:
        same = [g for g in ready if g.position == group.position and g.team == group.team]
        if not same:
            return ready, group
        lanes = np.sort(np.concatenate([self.indices(g.lanes) for g in (*same, group)]))
        rest = [g for g in ready if g.position != group.position or g.team != group.team]
        return rest, Group(group.position, self._compact(lanes), group.team)

    def _advance(self, group: Group, waiting: list[tuple[Group, Bundle]], meet: set[int], alone: bool) -> list[Group]:
        """Run one group until it waits, ends, splits, meets another of its team, or its turn is over."""
        steps, position, lanes = self.program.steps, group.position, group.lanes
        turn = self.schedule.quantum()
        taken = 0
        while position < len(steps):
            step = steps[position]
            kind = step.first.kind
            self.steps_taken += 1
            if self.steps_taken % 256 == 0 and time.monotonic() > self.deadline:
                raise endless(self, step, lanes)
            if position in meet and position != group.position:
                return [Group(position, lanes, group.team)]
            if self.counters is not None and kind in ("branch", "barrier"):
                self.counters.executed(self, step, lanes)
            if kind in ALIGNED and not self.whole_warps(lanes):
                return self._await_warps(step, position, lanes, group.team)
            if (run := self.execute.get(kind)) is not None:
                self._step(run, step, lanes)
                position += 1
            elif kind == "branch":
                groups = self._branch(step, position, lanes, group.team)
                if len(groups) > 1 or not alone:
                    return groups
                position = groups[0].position
            elif kind == "barrier":
                arriving = self._guarded(step, lanes)
                if arriving is not lanes:
                    return self._arrive_in_part(step, position, lanes, arriving, group.team, waiting)
                if not (alone and isinstance(lanes, slice) and lanes == ALL):
                    waiting.append((Group(position + 1, lanes, group.team), step))
                    return []
                self._passed(lanes)
                position += 1
            elif kind in ("warp_barrier", "shuffle"):
                groups = self._arrive_at_warp(step, position, lanes, group.team)
                if len(groups) != 1 or groups[0].lanes is not lanes:
                    return groups
                position += 1
            elif kind == "exit":
                left = self._exit(step, lanes)
                if left is None:
                    return []
                lanes, position = left, position + 1
            else:
                if (active := self._guarded(step, lanes)) is not None:
                    self._ordering(step, active)
                position += 1
            taken += 1
            if taken == turn:
                return [Group(position, lanes, group.team)]
        self._exit_all(lanes)
        return []

    def _step(self, run: Any, step: Bundle, lanes: Lanes) -> None:
        active = self._guarded(step, lanes)
        if active is None:
            return
        if self.counters is not None:
            self.counters.executed(self, step, active)
        try:
            run(step, active)
        except AccessFault as fault:
            raise describe_fault(self, step, active, fault) from None

    def _guarded(self, step: Bundle, lanes: Lanes) -> Lanes | None:
        """The lanes whose guard holds, or None if there are none."""
        guard = step.first.guard
        if guard is None:
            return lanes
        values = self.files["p"][guard.row][lanes]
        if step.first.negated:
            values = ~values
        if values.all():
            return lanes
        if not values.any():
            return None
        return compact(self.indices(lanes)[values])

    def _branch(self, step: Bundle, position: int, lanes: Lanes, team: int) -> list[Group]:
        target = self.program.labels[step.first.label]
        taken = self._guarded(step, lanes)
        if taken is None:
            return [Group(position + 1, lanes, team)]
        if taken is lanes:
            return [Group(target, lanes, team)]
        chosen = np.zeros(self.wave.lanes, bool)
        chosen[taken] = True
        mine = self.indices(lanes)
        stay = compact(mine[~chosen[mine]])
        if self.counters is not None:
            self.counters.diverged(self, step, stay, taken)
        return [Group(position + 1, stay, team), Group(target, taken, team)]

    def _arrive_in_part(self, step: Bundle, position: int, lanes: Lanes, arriving: Lanes | None, team: int,
                        waiting: list[tuple[Group, Bundle]]) -> list[Group]:  # fmt: skip
        """A predicated barrier: the lanes whose guard holds wait at it, the others go on."""
        if arriving is None:
            return [Group(position + 1, lanes, team)]
        waiting.append((Group(position + 1, arriving, team), step))
        return [Group(position + 1, self._others(lanes, arriving), team)]

    def _others(self, lanes: Lanes, some: Lanes) -> Lanes:
        mine = self.indices(lanes)
        return compact(mine[~np.isin(mine, self.indices(some))])

    def _arrive_at_warp(self, step: Bundle, position: int, lanes: Lanes, team: int) -> list[Group]:
        """A warp-wide barrier, or a shuffle, which waits as one does: the groups that can go on."""
        arriving = self._guarded(step, lanes)
        if arriving is None:
            return [Group(position + 1, lanes, team)]
        if step.first.kind == "shuffle":
            outside = (
                self.fetch(step.sources[-1], arriving) >> (self.thread[arriving] % WARP).astype(np.uint32) & 1 == 0
            )
            if outside.any():
                fault = LaneFault(int(np.argmax(outside)), "shfl.sync by a lane that its own member mask leaves out")
                raise describe_fault(self, step, arriving, fault)
        self.at_warp_barrier.append((Group(position + 1, arriving, team), step))
        others = [] if arriving is lanes else [Group(position + 1, self._others(lanes, arriving), team)]
        return self._release_warps() + others

    def _await_warps(self, step: Bundle, position: int, lanes: Lanes, team: int) -> list[Group]:
        """Lanes at an instruction that only whole warps execute, without the rest of theirs: they wait for it."""
        mine = self.indices(lanes)
        short = np.bincount(self.warp[self.alive], minlength=int(self.warp[-1]) + 1)[self.warp[mine]] < WARP
        if short.any():
            name = f"{step.first.instruction.opcode}.sync.aligned"
            fault = LaneFault(int(np.argmax(short)), f"{name} needs all 32 lanes of a warp, and this warp has fewer")
            raise describe_fault(self, step, lanes, fault)
        self.at_warp_barrier.append((Group(position, lanes, team), step))
        return self._release_warps()

    def _exit(self, step: Bundle, lanes: Lanes) -> Lanes | None:
        """Ends the guarded lanes; the lanes that go on, or None."""
        leaving = self._guarded(step, lanes)
        if leaving is None:
            return lanes
        self._exit_all(leaving)
        mine = self.indices(lanes)
        left = mine[self.alive[mine]]
        return compact(left) if left.size else None

    def _exit_all(self, lanes: Lanes) -> None:
        self.alive[lanes] = False
        self.live = np.bincount(self.block[self.alive], minlength=len(self.wave.blocks))

    def _release(self, waiting: list[tuple[Group, Bundle]]) -> list[Group]:
        """Let go every block whose live threads have all arrived at one barrier."""
        blocks = len(self.wave.blocks)
        arrived = np.zeros(blocks, np.int64)
        at = np.full(blocks, -1)
        for group, step in waiting:
            counts = np.bincount(self.block[group.lanes], minlength=blocks)
            here = counts > 0
            clash = here & (at >= 0) & (at != group.position)
            if clash.any():
                raise divergent_barrier(self, int(np.flatnonzero(clash)[0]), waiting)
            at[here] = group.position
            arrived += counts
            del step
        free = (arrived == self.live) & (arrived > 0)
        if not free.any():
            raise stuck_barrier(self, waiting or self.at_warp_barrier)
        released, passed = [], []
        for entry in list(waiting):
            group, step = entry
            lanes = self.indices(group.lanes)
            go = free[self.block[lanes]]
            waiting.remove(entry)
            if go.any():
                released.append(Group(group.position, self._compact(lanes[go]), group.team))
                passed.append(lanes[go])
            if not go.all():
                waiting.append((Group(group.position, compact(lanes[~go]), group.team), step))
        self._passed(np.concatenate(passed))
        return released

    def _release_warps(self) -> list[Group]:
        """Let go the lanes at a warp-wide barrier for which every live lane of their mask has arrived there, too."""
        released: list[Group] = []
        for at, kind in sorted({(group.position, step.first.kind) for group, step in self.at_warp_barrier}):
            here = [e for e in self.at_warp_barrier if e[0].position == at and e[1].first.kind == kind]
            live, arrived = (np.zeros((len(self.wave.blocks) * self.warps_per_block, WARP), bool) for _ in range(2))
            live[self.warp[self.alive], self.thread[self.alive] % WARP] = True
            for group, _ in here:
                arrived[self.warp[group.lanes], self.thread[group.lanes] % WARP] = True
            before = len(released)
            missing = (live & ~arrived) @ (np.uint32(1) << np.arange(WARP, dtype=np.uint32))
            for group, step in here:
                self.at_warp_barrier.remove((group, step))
                mine = self.indices(group.lanes)
                members = _EVERY_LANE if kind in ALIGNED else self.fetch(step.sources[-1], group.lanes)
                go = (missing[self.warp[mine]] & members) == 0
                if go.any():
                    released.append(group if go.all() else Group(at, compact(mine[go]), group.team))
                if not go.all():
                    self.at_warp_barrier.append((Group(at, compact(mine[~go]), group.team), step))
            free = [self.indices(group.lanes) for group in released[before:]]
            if free and kind == "shuffle":
                self._step(self._shuffle, here[0][1], self._compact(np.sort(np.concatenate(free))))
            elif free and kind == "warp_barrier" and self.shadow is not None:  # nothing else orders memory
                self.shadow.warp_barrier(np.concatenate(free))
        return released

    def _passed(self, lanes: Lanes) -> None:
        """All threads of these lanes' blocks have passed a barrier."""
        if self.shadow is not None:
            self.shadow.barrier(lanes)

    def _ordering(self, step: Bundle, lanes: Lanes) -> None:
        if step.first.kind == "commit":
            self.copies.commit(lanes)
        elif step.first.kind == "wait":
            try:
                self.copies.wait(lanes, step.first.number)
            except AccessFault as fault:
                raise describe_fault(self, step, lanes, fault) from None
