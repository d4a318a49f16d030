"""Execute a lowered kernel for a wave of blocks: divergence, barriers, the order of warps.

A *group* is a set of lanes at one position in the program. A branch that lanes disagree on splits it, and groups that
meet again merge. Groups wait at barriers until every live thread of their block has arrived, and at other instructions
until what these wait for has happened. A group that spins on memory lets every other one go first, so that what it
waits for happens under any schedule.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from gemmsmith.errors import SimulationError
from gemmsmith.sim.bundle import Bundle, Program
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.faults import (
    describe_fault,
    divergent_barrier,
    endless,
    stuck,
)
from gemmsmith.sim.lanes import ALL, compact
from gemmsmith.sim.lowering.operation import Lowered
from gemmsmith.sim.lowering.traits import Executed, Flow, Wait
from gemmsmith.sim.memory.access_faults import AccessFault
from gemmsmith.sim.memory.global_memory import GlobalMemory
from gemmsmith.sim.races.global_shadow import Look
from gemmsmith.sim.races.hazards import HazardLog
from gemmsmith.sim.races.spots import BackEdge
from gemmsmith.sim.schedule import Schedule
from gemmsmith.sim.stepper import Group, Stepper
from gemmsmith.sim.waits.at_block import AtBlock
from gemmsmith.sim.waits.at_event import AtEvent
from gemmsmith.sim.waits.at_warp import AtWarp
from gemmsmith.sim.wave import WARP, Wave
from gemmsmith.sim.work import WORK

_STEPS_BETWEEN_CLOCKS = 256
_MOST_TEAMS = 256
_MOST_COOPERATING_TEAMS = 64  # all teams meet at each grid.sync(), which takes a poll of each


class Machine(Stepper):
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
        look: Look | None = None,
    ) -> None:
        super().__init__(lowered, program, wave, memory, schedule.late_copies, log, counters, look)
        self.schedule, self.deadline = schedule, deadline
        self.at_once, self.completes = schedule.at_once, schedule.completes
        self.latest = 0  # the time of the group that has come furthest
        self.at_block, self.at_warp, self.at_event = AtBlock(self), AtWarp(self), AtEvent(self)

    def run(self) -> None:
        """Run every group to its end."""
        WORK.add_wave()
        ready = self._start()
        while ready or self._anyone_waits():
            if not ready or all(g.laps for g in ready):
                ready += self._resume(spinning=bool(ready))
            fewest = min(g.laps for g in ready)
            first = [i for i, g in enumerate(ready) if g.laps == fewest]
            chosen = self.schedule.choose([ready[i].team for i in first], [ready[i].position for i in first])
            group = ready.pop(first[chosen])
            ready, group = self._merge(ready, group)
            meet = {g.position for g in ready if g.team == group.team}
            ready += self._advance(group, meet, alone=not (ready or self._anyone_waits()))
            WORK.add_turn(self.time - group.time, self.lane_count(group.lanes), self.log is not None)
            if self.at_event.groups and self.progress != self.at_event.released_at:
                ready += self.at_event.release()
        for finish in self.at_end:
            finish()
        if self.shadow is not None:
            self.shadow.finish()
        self.replace_files({})  # what is written down of this wave needs its numbering, not its registers

    def _anyone_waits(self) -> bool:
        return bool(self.at_block.groups or self.at_warp.groups or self.at_event.groups)

    def _resume(self, spinning: bool) -> list[Group]:
        """Groups that can go on although all have been waiting, or ``spinning``; raises if there can be none."""
        while True:
            found = self.at_warp.release() or self.at_event.release() or self.at_block.release()
            if found or not self.postponed:
                break
            which = self.completes(len(self.postponed))
            self.postponed.rotate(-which)
            happens = self.postponed.popleft()
            self.postponed.rotate(which)
            happens()
        found = found or self.at_event.poll()
        if not found and not spinning:
            raise self._deadlock()
        return found

    def _deadlock(self) -> SimulationError:
        """Nobody can go on."""
        _, mixed = self.at_block.arrivals()
        if mixed.any():
            return divergent_barrier(self, int(np.argmax(mixed)), self.waiting(self.at_block.groups))
        hang = stuck(self, self.live, self.waiting(self.at_event.groups or self.at_block.groups or self.at_warp.groups))
        hang.message += self.before_the_end()
        return hang

    def _start(self) -> list[Group]:
        if self.schedule.lockstep:
            return [Group(self.program.start, ALL, 0)]
        # Warps of one number in all blocks advance together, unless blocks wait for one another.
        most = _MOST_COOPERATING_TEAMS if self.wave.workspace else _MOST_TEAMS
        own = self.block if self.schedule.by_block else self.warp
        apart = self.between.polls_global and int(own[-1]) < most
        warp, start = own if apart else self.thread // WARP, self.program.start
        return [Group(start, compact(np.flatnonzero(warp == w)), w) for w in range(int(warp.max()) + 1)]

    def _merge(self, ready: list[Group], group: Group) -> tuple[list[Group], Group]:
        """``group`` with all others of its team at its position, and the rest."""
        same = [g for g in ready if g.position == group.position and g.team == group.team]
        if same and self.lowered.machine_code:
            same = self._of_other_warps(group, same)
        if not same:
            return ready, group
        rest = [g for g in ready if not any(g is merged for merged in same)]
        everyone = (*same, group)
        return rest, replace(group, lanes=self.union([g.lanes for g in everyone]), time=max(g.time for g in everyone),
                             laps=min(g.laps for g in everyone))  # fmt: skip

    def _of_other_warps(self, group: Group, groups: list[Group]) -> list[Group]:
        """Groups with no warp in common: machine code says itself where the lanes of a warp come together again."""
        taken = np.zeros(int(self.warp[-1]) + 1, bool)
        taken[self.warp[group.lanes]] = True
        found = []
        for other in groups:
            warps = self.warp[other.lanes]
            if not taken[warps].any():
                taken[warps] = True
                found.append(other)
        return found

    # -- one group --------------------------------------------------------------------------------

    def _advance(self, group: Group, meet: set[int], alone: bool) -> list[Group]:
        """Run one group until it waits, ends, splits, meets another of its team, or has used up its quantum."""
        bundles, position, lanes = self.program.bundles, group.position, self.same_lanes(group.lanes)
        quantum = self.schedule.quantum()
        taken, laps, self.time = 0, group.laps, group.time
        while position < self.program.end:
            step = bundles[position] or self.program.step(position)
            self.steps_taken += 1
            self.time += step.steps
            if self.time > self.latest:
                self.latest = self.time
            if self.steps_taken % _STEPS_BETWEEN_CLOCKS == 0 and time.thread_time() > self.deadline:
                raise endless(self, step, lanes)
            if position in meet and position != group.position:
                return [Group(position, lanes, group.team, self.time, laps)]
            if not step.waits:
                self.step(step, lanes)
                position = step.following
            else:
                groups = self._wait_or_jump(step, Group(position, lanes, group.team, self.time, laps), alone)
                if len(groups) != 1 or groups[0].lanes is not lanes:
                    return groups
                if not alone and step.traits.flow is Flow.BRANCH:
                    return groups
                position, laps, self.time = groups[0].position, groups[0].laps, groups[0].time
            taken += 1
            if taken == quantum:
                return [Group(position, lanes, group.team, self.time, laps)]
        self.end(lanes)
        return []

    # -- instructions at which lanes wait or part -------------------------------------------------

    def _wait_or_jump(self, step: Bundle[Any], group: Group, alone: bool) -> list[Group]:
        """The groups that can go on from an instruction that waits, branches or ends threads."""
        traits = step.traits
        if self.counters is not None and traits.counts.executed is Executed.ARRIVED:
            self.counters.executed(self, step, group.lanes)
        if self.counters is not None and traits.counts.executed is Executed.ISSUED:
            self.counters.issued(self, step, group.lanes, self.guarded(step, group.lanes))
        if self.recorder is not None and traits.flow in (Flow.BRANCH, Flow.EXIT):
            self.recorder.executes(self, step, group.lanes)
        if traits.flow is Flow.BRANCH:
            return self._branch(step, group)
        if traits.flow is Flow.EXIT:
            return self._leave(step, group)
        if traits.flow is Flow.JUMP:
            return self._jump(step, group)
        if traits.waits_on is Wait.BLOCK:
            return self.at_block.arrive(step, group, alone)
        if traits.waits_on is Wait.MEMBERS:
            return self.at_warp.arrive_members(step, group)
        if traits.waits_on is Wait.EVENT and (not traits.whole or self.whole_warps(group.lanes)):
            return self.at_event.arrive(step, group)
        if not self.whole_warps(group.lanes):
            return self.at_warp.arrive_whole(step, group)
        self.step(step, group.lanes)
        return [replace(group, position=step.following)]

    def _branch(self, step: Bundle[Any], group: Group) -> list[Group]:
        target = self.program.labels[step.detail.label]
        spins = group.position in self.between.spins
        taken = self.guarded(step, group.lanes)
        stay = None if taken is group.lanes else group.lanes if taken is None else self.others(group.lanes, taken)
        if target <= group.position and not spins:
            self.trail.append(BackEdge(target, taken, stay))
        if self.counters is not None and taken is not None and stay is not None:
            self.counters.diverged(self, step, stay, taken)
        on_time = back_time = group.time
        on_laps = back_laps = group.laps
        if spins:
            # Rounds of waiting take no time: how many there are is the schedule's choice.
            on_laps, on_time = 0, self.latest
            back_laps, back_time = group.laps + 1, group.time - self._steps_between(target, group.position)
        groups = []
        if stay is not None:
            groups.append(Group(step.following, stay, group.team, on_time, on_laps))
        if taken is not None:
            groups.append(Group(target, taken, group.team, back_time, back_laps))
        return groups

    def _steps_between(self, start: int, stop: int) -> int:
        """How many steps lead from one position to and past another; 0 if the way is not straight."""
        steps = 1
        while start < stop:
            step = self.program.step(start)
            if step.waits and step.traits.waits_on is not Wait.EVENT:
                return 0
            start, steps = step.following, steps + step.steps
        return steps

    def _jump(self, step: Bundle[Any], group: Group) -> list[Group]:
        """Calls, returns and branches by index: the instruction itself says where each lane goes on."""
        jumping = self.guarded(step, group.lanes)
        after = replace(group, position=step.following)
        if jumping is None:
            return [after]
        stay = [] if jumping is group.lanes else [replace(after, lanes=self.others(group.lanes, jumping))]
        if self.counters is not None and step.traits.counts.executed is Executed.GUARDED:
            self.counters.executed(self, step, jumping)
        try:
            step.execute(self, step, jumping)
        except AccessFault as fault:
            raise describe_fault(self, step, jumping, fault) from None
        mine = self.indices(jumping)
        targets = self.targets[mine]
        return stay + [replace(group, position=int(t), lanes=self.compact(mine[targets == t]))
                       for t in np.unique(targets)]  # fmt: skip

    def _leave(self, step: Bundle[Any], group: Group) -> list[Group]:
        """Ends the guarded lanes; the others go on."""
        leaving = self.guarded(step, group.lanes)
        if leaving is None:
            return [replace(group, position=step.following)]
        self.end(leaving)
        if leaving is group.lanes:
            return []
        return [replace(group, position=step.following, lanes=self.others(group.lanes, leaving))]
