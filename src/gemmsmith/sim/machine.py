"""Execute a lowered kernel for a wave of blocks: divergence, barriers, the order of warps.

A *group* is a set of lanes at one position in the program. A branch that lanes disagree on splits it, and groups that
meet again merge. Groups wait at barriers until every live thread of their block has arrived, and at other instructions
until what these wait for has happened. Groups that only poll give way to others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle, Program
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.faults import (
    Waiting,
    describe_fault,
    divergent_barrier,
    endless,
    left_out_of_its_mask,
    short_warp,
    stuck,
)
from gemmsmith.sim.hazards import HazardLog
from gemmsmith.sim.lanes import ALL, Lanes, compact
from gemmsmith.sim.memory import AccessFault, GlobalMemory
from gemmsmith.sim.operation import Lowered
from gemmsmith.sim.schedule import Schedule
from gemmsmith.sim.traits import Executed, Flow, Wait
from gemmsmith.sim.types import Array
from gemmsmith.sim.wave import WARP, Wave

_EVERY_LANE = np.uint32(0xFFFFFFFF)
_STEPS_BETWEEN_CLOCKS = 256
# So many polls of everybody who can only poll, with no progress, and the kernel hangs.
_POLLS = 1000
# After so many choices with no progress a thread may be spinning on memory that a group not chosen must write. From
# then on, one choice in four is the group that has waited longest.
_PATIENCE = 2048
_FAIR_TURN = 4


@dataclass(frozen=True)
class Group:
    """Lanes that stand at one position. ``team`` is the schedule's: warps of different teams can drift apart."""

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
        self.live = np.full(len(wave.blocks), wave.threads)
        # Groups that wait at the instruction at their position.
        self.at_barrier: list[Group] = []
        self.at_warp_barrier: list[Group] = []
        self.at_event: list[Group] = []
        self._released_at = 0  # progress when groups at events were last looked at
        self._polled_at, self._polls = -1, 0
        self._stalled_at, self._choices = -1, 0

    def run(self) -> None:
        """Run every group to its end."""
        ready = self._start()
        while ready or self.at_barrier or self.at_warp_barrier or self.at_event:
            if not ready:
                ready = self._resume()
            group = ready.pop(self._choose(ready))
            ready, group = self._merge(ready, group)
            meet = {g.position for g in ready if g.team == group.team}
            waiting = self.at_barrier or self.at_warp_barrier or self.at_event
            ready += self._advance(group, meet, alone=not (ready or waiting))
            if self.at_event and self.progress != self._released_at:
                ready += self._release_events()

    def _choose(self, ready: list[Group]) -> int:
        """The index of the group that runs next: the schedule's choice, unless that gets nowhere."""
        if self.progress != self._stalled_at:
            self._stalled_at, self._choices = self.progress, 0
        self._choices += 1
        if self._choices > _PATIENCE and self._choices % _FAIR_TURN == 0:
            return 0  # groups that have run are appended: the first has waited longest
        return self.schedule.choose([g.team for g in ready], [g.position for g in ready])

    def _resume(self) -> list[Group]:
        """Groups that can go on although all have been waiting; raises if there are none."""
        while True:
            found = self._release_warps() or self._release_events() or self._release_blocks()
            if found or not self.postponed:
                break
            self.postponed.popleft()()
        found = found or self._poll()
        if not found:
            waiting = self.at_event or self.at_barrier or self.at_warp_barrier
            raise stuck(self, self.live, self._waiting(waiting))
        return found

    def _start(self) -> list[Group]:
        if self.schedule.lockstep:
            return [Group(0, ALL, 0)]
        warp = self.thread // WARP
        return [Group(0, compact(np.flatnonzero(warp == w)), w) for w in range(int(warp.max()) + 1)]

    def _merge(self, ready: list[Group], group: Group) -> tuple[list[Group], Group]:
        """``group`` with all others of its team at its position, and the rest."""
        same = [g for g in ready if g.position == group.position and g.team == group.team]
        if not same:
            return ready, group
        rest = [g for g in ready if g.position != group.position or g.team != group.team]
        return rest, Group(group.position, self._union([g.lanes for g in (*same, group)]), group.team)

    def _union(self, sets: Sequence[Lanes]) -> Lanes:
        return self.compact(np.sort(np.concatenate([self.indices(lanes) for lanes in sets])))

    # -- one group --------------------------------------------------------------------------------

    def _advance(self, group: Group, meet: set[int], alone: bool) -> list[Group]:
        """Run one group until it waits, ends, splits, meets another of its team, or has used up its quantum."""
        bundles, position, lanes = self.program.bundles, group.position, group.lanes
        quantum = self.schedule.quantum()
        taken = 0
        while position < self.program.end:
            step = bundles[position] or self.program.step(position)
            self.steps_taken += 1
            if self.steps_taken % _STEPS_BETWEEN_CLOCKS == 0 and time.monotonic() > self.deadline:
                raise endless(self, step, lanes)
            if position in meet and position != group.position:
                return [Group(position, lanes, group.team)]
            if not step.waits:
                self._step(step, lanes)
                position = step.following
            else:
                groups = self._wait_or_jump(step, Group(position, lanes, group.team), alone)
                if len(groups) != 1 or groups[0].lanes is not lanes:
                    return groups
                if not alone and step.traits.flow is Flow.BRANCH:
                    return groups
                position = groups[0].position
            taken += 1
            if taken == quantum:
                return [Group(position, lanes, group.team)]
        self._exit(lanes)
        return []

    def _step(self, step: Bundle[Any], lanes: Lanes) -> None:
        """Execute a bundle for the lanes whose guard holds."""
        active = self._guarded(step, lanes)
        if active is None:
            return
        if self.counters is not None and step.traits.counts.executed is Executed.GUARDED:
            self.counters.executed(self, step, active)
        try:
            step.execute(self, step, active)
        except AccessFault as fault:
            raise describe_fault(self, step, active, fault) from None

    def _guarded(self, step: Bundle[Any], lanes: Lanes) -> Lanes | None:
        """The lanes whose guard holds, or None if there are none."""
        if step.guard is None:
            return lanes
        values = self.files["p"][step.guard][lanes]
        if step.negated:
            values = ~values
        if values.all():
            return lanes
        if not values.any():
            return None
        return compact(self.indices(lanes)[values])

    def _others(self, lanes: Lanes, some: Lanes) -> Lanes:
        """The lanes that are not among ``some``."""
        chosen = np.zeros(self.wave.lanes, bool)
        chosen[some] = True
        mine = self.indices(lanes)
        return compact(mine[~chosen[mine]])

    # -- instructions at which lanes wait or part -------------------------------------------------

    def _wait_or_jump(self, step: Bundle[Any], group: Group, alone: bool) -> list[Group]:
        """The groups that can go on from an instruction that waits, branches or ends threads."""
        traits = step.traits
        if self.counters is not None and traits.counts.executed is Executed.ARRIVED:
            self.counters.executed(self, step, group.lanes)
        if traits.flow is Flow.BRANCH:
            return self._branch(step, group)
        if traits.flow is Flow.EXIT:
            return self._leave(step, group)
        if traits.waits_on is Wait.BLOCK:
            return self._arrive_at_block(step, group, alone)
        if traits.waits_on is Wait.MEMBERS:
            return self._arrive_at_members(step, group)
        if traits.waits_on is Wait.EVENT:
            return self._arrive_at_event(step, group)
        if not self.whole_warps(group.lanes):
            return self._await_warps(step, group)
        self._step(step, group.lanes)
        return [Group(step.following, group.lanes, group.team)]

    def _branch(self, step: Bundle[Any], group: Group) -> list[Group]:
        target = self.program.labels[step.detail.label]
        taken = self._guarded(step, group.lanes)
        if taken is None:
            return [Group(step.following, group.lanes, group.team)]
        if taken is group.lanes:
            return [Group(target, group.lanes, group.team)]
        stay = self._others(group.lanes, taken)
        if self.counters is not None:
            self.counters.diverged(self, step, stay, taken)
        return [Group(step.following, stay, group.team), Group(target, taken, group.team)]

    def _leave(self, step: Bundle[Any], group: Group) -> list[Group]:
        """Ends the guarded lanes; the others go on."""
        leaving = self._guarded(step, group.lanes)
        if leaving is None:
            return [Group(step.following, group.lanes, group.team)]
        self._exit(leaving)
        if leaving is group.lanes:
            return []
        return [Group(step.following, self._others(group.lanes, leaving), group.team)]

    def _exit(self, lanes: Lanes) -> None:
        self.alive[lanes] = False
        self.progress += 1
        self.live = np.bincount(self.block[self.alive], minlength=len(self.wave.blocks))

    def _arrive_at_block(self, step: Bundle[Any], group: Group, alone: bool) -> list[Group]:
        """A barrier of the block: lanes whose guard does not hold go on."""
        arriving = self._guarded(step, group.lanes)
        after = Group(step.following, group.lanes, group.team)
        if arriving is None:
            return [after]
        if arriving is group.lanes and alone and isinstance(arriving, slice) and arriving == ALL:
            step.execute(self, step, arriving)
            return [after]
        self.at_barrier.append(Group(group.position, arriving, group.team))
        return (
            [] if arriving is group.lanes else [Group(after.position, self._others(group.lanes, arriving), group.team)]
        )

    def _arrive_at_members(self, step: Bundle[Any], group: Group) -> list[Group]:
        """An instruction that waits for the lanes of its member mask."""
        arriving = self._guarded(step, group.lanes)
        if arriving is None:
            return [Group(step.following, group.lanes, group.team)]
        mine = self.indices(arriving)
        outside = self.fetch(step.sources[-1], arriving) >> (self.thread[mine] % WARP).astype(np.uint32) & 1 == 0
        if outside.any():
            raise describe_fault(self, step, arriving, left_out_of_its_mask(step, int(np.argmax(outside))))
        self.at_warp_barrier.append(Group(group.position, arriving, group.team))
        rest = [] if arriving is group.lanes else [self._others(group.lanes, arriving)]
        return self._release_warps() + [Group(step.following, lanes, group.team) for lanes in rest]

    def _arrive_at_event(self, step: Bundle[Any], group: Group) -> list[Group]:
        """An instruction that waits for something of its own; most often that has happened already."""
        arriving = self._guarded(step, group.lanes)
        if arriving is None:
            return [Group(step.following, group.lanes, group.team)]
        try:
            step.detail.arrive(self, step, arriving)
        except AccessFault as fault:
            raise describe_fault(self, step, arriving, fault) from None
        self.at_event.append(Group(group.position, arriving, group.team))
        rest = [] if arriving is group.lanes else [self._others(group.lanes, arriving)]
        return self._release_events() + [Group(step.following, lanes, group.team) for lanes in rest]

    def _await_warps(self, step: Bundle[Any], group: Group) -> list[Group]:
        """An instruction for whole warps, and the rest of a warp is elsewhere: these lanes wait for it."""
        warps = self.warp[self.indices(group.lanes)]
        short = np.bincount(self.warp[self.alive], minlength=int(self.warp[-1]) + 1)[warps] < WARP
        if short.any():
            raise describe_fault(self, step, group.lanes, short_warp(step, int(np.argmax(short))))
        self.at_warp_barrier.append(group)
        return self._release_warps()

    # -- the end of waiting -----------------------------------------------------------------------

    def _release_blocks(self) -> list[Group]:
        """Release every block whose live threads have all arrived at one barrier."""
        blocks = len(self.wave.blocks)
        arrived = np.zeros(blocks, np.int64)
        at = np.full(blocks, -1)
        for group in self.at_barrier:
            counts = np.bincount(self.block[group.lanes], minlength=blocks)
            here = counts > 0
            clash = here & (at >= 0) & (at != group.position)
            if clash.any():
                raise divergent_barrier(self, int(np.flatnonzero(clash)[0]), self._waiting(self.at_barrier))
            at[here] = group.position
            arrived += counts
        free = (arrived == self.live) & (arrived > 0)
        if not free.any():
            return []
        self.progress += 1
        waiting, self.at_barrier = self.at_barrier, []
        released: list[Group] = []
        passed: dict[int, list[Lanes]] = {}
        for group in waiting:
            lanes = self.indices(group.lanes)
            go = free[self.block[lanes]]
            if go.any():
                after = self.program.step(group.position).following
                released.append(Group(after, self.compact(lanes[go]), group.team))
                passed.setdefault(group.position, []).append(lanes[go])
            if not go.all():
                self.at_barrier.append(Group(group.position, compact(lanes[~go]), group.team))
        for position, sets in passed.items():
            step = self.program.step(position)
            step.execute(self, step, self._union(sets))
        return released

    def _release_warps(self) -> list[Group]:
        """Release the lanes that wait for others of their warp, if all of those have arrived at the same place."""
        released: list[Group] = []
        for position in sorted({group.position for group in self.at_warp_barrier}):
            step = self.program.step(position)
            here = [g for g in self.at_warp_barrier if g.position == position]
            self.at_warp_barrier = [g for g in self.at_warp_barrier if g.position != position]
            missing = self._missing(here)
            members_only = step.traits.waits_on is Wait.MEMBERS
            free: list[Group] = []
            for group in here:
                mine = self.indices(group.lanes)
                members = self.fetch(step.sources[-1], group.lanes) if members_only else _EVERY_LANE
                go = (missing[self.warp[mine]] & members) == 0
                if go.any():
                    free.append(group if go.all() else Group(position, compact(mine[go]), group.team))
                if not go.all():
                    self.at_warp_barrier.append(Group(position, compact(mine[~go]), group.team))
            if free and members_only:
                self._step(step, self._union([group.lanes for group in free]))
                free = [Group(step.following, group.lanes, group.team) for group in free]
            released += free
        return released

    def _release_events(self) -> list[Group]:
        """Release the lanes for which what they wait for has happened."""
        released: list[Group] = []
        while self.at_event:
            self._released_at = self.progress
            waiting, self.at_event = self.at_event, []
            found = [group for each in waiting for group in self._release_event(each)]
            released += found
            if not found or self.progress == self._released_at:
                break
        return released

    def _release_event(self, group: Group) -> list[Group]:
        step = self.program.step(group.position)
        try:
            go = step.detail.ready(self, step, group.lanes)
        except AccessFault as fault:
            raise describe_fault(self, step, group.lanes, fault) from None
        if not go.any():
            self.at_event.append(group)
            return []
        lanes = group.lanes
        if not go.all():
            mine = self.indices(lanes)
            lanes = compact(mine[go])
            self.at_event.append(Group(group.position, compact(mine[~go]), group.team))
        self._step(step, lanes)
        return [Group(step.following, lanes, group.team)]

    def _poll(self) -> list[Group]:
        """Let groups that poll find out that they must go on waiting: what they do next may be what others wait for."""
        if self.progress != self._polled_at:
            self._polled_at, self._polls = self.progress, 0
        self._polls += 1
        if self._polls > _POLLS:
            return []
        waiting, self.at_event = self.at_event, []
        released: list[Group] = []
        for group in waiting:
            step = self.program.step(group.position)
            if step.detail.polls:
                self._step(step, group.lanes)
                released.append(Group(step.following, group.lanes, group.team))
            else:
                self.at_event.append(group)
        return released

    def _missing(self, groups: list[Group]) -> Array:
        """For each warp, a mask of its live lanes that are in none of these groups."""
        live, arrived = (np.zeros((len(self.wave.blocks) * self.warps_per_block, WARP), bool) for _ in range(2))
        live[self.warp[self.alive], self.thread[self.alive] % WARP] = True
        for group in groups:
            arrived[self.warp[group.lanes], self.thread[group.lanes] % WARP] = True
        missing: Array = (live & ~arrived) @ (np.uint32(1) << np.arange(WARP, dtype=np.uint32))
        return missing

    def _waiting(self, groups: list[Group]) -> list[Waiting]:
        return [(group.lanes, self.program.step(group.position)) for group in groups]
