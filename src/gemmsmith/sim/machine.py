"""Execute a lowered kernel for a wave of blocks: divergence, barriers, the order of warps.

A *group* is a set of lanes at one position in the program. A branch that lanes disagree on splits it, and groups that
meet again merge. Groups wait at barriers until every live thread of their block has arrived, and at other instructions
until what these wait for has happened. A group that spins on memory lets every other one go first, so that what it
waits for happens under any schedule.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gemmsmith.errors import SimulationError
from gemmsmith.sim.bundle import Bundle, Operand, Program, single
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
from gemmsmith.sim.global_shadow import Look, touches, watched
from gemmsmith.sim.hazards import HazardLog
from gemmsmith.sim.lanes import ALL, Lanes, compact
from gemmsmith.sim.memory import AccessFault, GlobalMemory, MixedSpaces, Unwritten, space_of
from gemmsmith.sim.operation import FILES, Lowered
from gemmsmith.sim.schedule import Schedule
from gemmsmith.sim.spots import BackEdge
from gemmsmith.sim.traits import Executed, Flow, Space, Wait
from gemmsmith.sim.types import Array
from gemmsmith.sim.wave import WARP, Wave

_STEPS_BETWEEN_CLOCKS = 256
_MOST_TEAMS = 256
# So many polls of everybody who can only poll, with no progress, and the kernel hangs.
_POLLS = 1000


@dataclass(frozen=True)
class Group:
    """Lanes that stand at one position. ``team`` is the schedule's: warps of different teams can drift apart.

    ``time`` counts the steps since the kernel began, alike for all warps at each barrier. ``laps`` counts rounds of a
    loop that waits for other threads.
    """

    position: int
    lanes: Lanes
    team: int
    time: int = 0
    laps: int = 0


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
        look: Look | None = None,
    ) -> None:
        super().__init__(lowered, wave, memory, schedule.late_copies, log, counters, look)
        if look is not None:
            look.attach(self.clocks)
        self.watched = lowered.fact(watched) if look is not None else frozenset()
        self.program, self.schedule, self.deadline = program, schedule, deadline
        self.latest = 0  # the time of the group that has come furthest
        self.live = np.full(len(wave.blocks), wave.threads)
        # Groups that wait at the instruction at their position.
        self.at_barrier: list[Group] = []
        self.at_warp_barrier: list[Group] = []
        self.at_event: list[Group] = []
        self._released_at = 0  # progress when groups at events were last looked at
        self._polled_at, self._polls = -1, 0

    def run(self) -> None:
        """Run every group to its end."""
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
            if self.at_event and self.progress != self._released_at:
                ready += self._release_events()
        if self.shadow is not None:
            self.shadow.finish()
        self.files = {}  # what is written down of this wave needs its numbering, not its registers

    def _anyone_waits(self) -> bool:
        return bool(self.at_barrier or self.at_warp_barrier or self.at_event)

    def _resume(self, spinning: bool) -> list[Group]:
        """Groups that can go on although all have been waiting, or ``spinning``; raises if there can be none."""
        while True:
            found = self._release_warps() or self._release_events() or self._release_blocks()
            if found or not self.postponed:
                break
            self.postponed.popleft()()
        found = found or self._poll()
        if not found and not spinning:
            raise self._deadlock()
        return found

    def _deadlock(self) -> SimulationError:
        """Nobody can go on."""
        _, mixed = self._arrivals()
        if mixed.any():
            return divergent_barrier(self, int(np.argmax(mixed)), self._waiting(self.at_barrier))
        return stuck(self, self.live, self._waiting(self.at_event or self.at_barrier or self.at_warp_barrier))

    def _start(self) -> list[Group]:
        if self.schedule.lockstep:
            return [Group(self.program.start, ALL, 0)]
        # Warps of one number in all blocks advance together, unless blocks wait for one another.
        apart = self.between.polls_global and int(self.warp[-1]) < _MOST_TEAMS
        warp, start = self.warp if apart else self.thread // WARP, self.program.start
        return [Group(start, compact(np.flatnonzero(warp == w)), w) for w in range(int(warp.max()) + 1)]

    def _merge(self, ready: list[Group], group: Group) -> tuple[list[Group], Group]:
        """``group`` with all others of its team at its position, and the rest."""
        same = [g for g in ready if g.position == group.position and g.team == group.team]
        if not same:
            return ready, group
        rest = [g for g in ready if g.position != group.position or g.team != group.team]
        everyone = (*same, group)
        return rest, replace(group, lanes=self._union([g.lanes for g in everyone]), time=max(g.time for g in everyone),
                             laps=min(g.laps for g in everyone))  # fmt: skip

    def _union(self, sets: Sequence[Lanes]) -> Lanes:
        return self.compact(np.sort(np.concatenate([self.indices(lanes) for lanes in sets])))

    # -- one group --------------------------------------------------------------------------------

    def _advance(self, group: Group, meet: set[int], alone: bool) -> list[Group]:
        """Run one group until it waits, ends, splits, meets another of its team, or has used up its quantum."""
        bundles, position, lanes = self.program.bundles, group.position, group.lanes
        quantum = self.schedule.quantum()
        taken, laps, self.time = 0, group.laps, group.time
        while position < self.program.end:
            step = bundles[position] or self.program.step(position)
            self.steps_taken += 1
            self.time += 1
            self.latest = max(self.latest, self.time)
            if self.steps_taken % _STEPS_BETWEEN_CLOCKS == 0 and time.monotonic() > self.deadline:
                raise endless(self, step, lanes)
            if position in meet and position != group.position:
                return [Group(position, lanes, group.team, self.time, laps)]
            if not step.waits:
                self._step(step, lanes)
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
        except MixedSpaces:
            self._by_space(step, active)
            return
        except Unwritten as fault:
            self._read_unwritten(step, active, fault)
        except AccessFault as fault:
            raise describe_fault(self, step, active, fault) from None
        if step.first.position in self.watched:
            self._look_at(step, active)

    def _read_unwritten(self, step: Bundle[Any], lanes: Lanes, fault: Unwritten) -> None:
        """Read what was never written all the same, if another thread may still write it: then it is a race."""
        described = describe_fault(self, step, lanes, fault)
        if self.shadow is None or fault.space is not Space.SHARED or step.access is None:
            raise described from None
        mine = self.indices(lanes)
        self.shadow.read_unwritten(int(mine[fault.position % mine.size]), fault.index, step.access.width, described)
        self.shared.check = False
        try:
            step.execute(self, step, lanes)
        finally:
            self.shared.check = True

    def _look_at(self, step: Bundle[Any], lanes: Lanes) -> None:
        """Show what a bundle did to memory to who watches global memory."""
        assert self.look is not None
        if step.access is None:
            self.look.fence(self, self.clocks, step.first, lanes)
            return
        if self.look.read(self, self.clocks, step, lanes, self.reached[1]):
            return
        for touch in touches(self, step, lanes, *self.reached):
            self.look.accessed(self, self.clocks, step, touch)

    def _by_space(self, step: Bundle[Any], lanes: Lanes) -> None:
        """Execute generic accesses that reach several memories: one operation and one memory after the other."""
        mine = self.indices(lanes)
        for operation in step.operations:
            alone = single(operation, step.following)
            spaces = space_of(self.addresses(alone.pointers[0], lanes, 1))
            for space in np.unique(spaces):
                self._step(replace(alone, guard=None), compact(mine[spaces == space]))

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
        if traits.flow is Flow.JUMP:
            return self._jump(step, group)
        if traits.waits_on is Wait.BLOCK:
            return self._arrive_at_block(step, group, alone)
        if traits.waits_on is Wait.MEMBERS:
            return self._arrive_at_members(step, group)
        if traits.waits_on is Wait.EVENT:
            return self._arrive_at_event(step, group)
        if not self.whole_warps(group.lanes):
            return self._await_warps(step, group)
        self._step(step, group.lanes)
        return [replace(group, position=step.following)]

    def _branch(self, step: Bundle[Any], group: Group) -> list[Group]:
        target = self.program.labels[step.detail.label]
        spins = group.position in self.between.spins
        on, back = replace(group, position=step.following), replace(group, position=target)
        if spins:
            # Rounds of waiting take no time: how many there are is the schedule's choice.
            time = group.time - self._steps_between(target, group.position)
            on, back = replace(on, laps=0, time=self.latest), replace(back, laps=group.laps + 1, time=time)
        taken = self._guarded(step, group.lanes)
        stay = None if taken is group.lanes else group.lanes if taken is None else self._others(group.lanes, taken)
        if target <= group.position and not spins:
            self.trail.append(BackEdge(target, taken, stay))
        if taken is None:
            return [on]
        if stay is None:
            return [back]
        if self.counters is not None:
            self.counters.diverged(self, step, stay, taken)
        return [replace(on, lanes=stay), replace(back, lanes=taken)]

    def _steps_between(self, start: int, stop: int) -> int:
        """How many steps lead from one position to and past another; 0 if the way is not straight."""
        steps = 1
        while start < stop:
            step = self.program.step(start)
            if step.waits and step.traits.waits_on is not Wait.EVENT:
                return 0
            start, steps = step.following, steps + 1
        return steps

    def _jump(self, step: Bundle[Any], group: Group) -> list[Group]:
        """Calls, returns and branches by index: the instruction itself says where each lane goes on."""
        jumping = self._guarded(step, group.lanes)
        after = replace(group, position=step.following)
        if jumping is None:
            return [after]
        stay = [] if jumping is group.lanes else [replace(after, lanes=self._others(group.lanes, jumping))]
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
        leaving = self._guarded(step, group.lanes)
        if leaving is None:
            return [replace(group, position=step.following)]
        self._exit(leaving)
        if leaving is group.lanes:
            return []
        return [replace(group, position=step.following, lanes=self._others(group.lanes, leaving))]

    def _exit(self, lanes: Lanes) -> None:
        self.alive[lanes] = False
        self.progress += 1
        self.live = np.bincount(self.block[self.alive], minlength=len(self.wave.blocks))

    def _arrive_at_block(self, step: Bundle[Any], group: Group, alone: bool) -> list[Group]:
        """A barrier of the block: lanes whose guard does not hold go on."""
        arriving = self._guarded(step, group.lanes)
        after = replace(group, position=step.following)
        if arriving is None:
            return [after]
        self._arrive(step, arriving)
        if arriving is group.lanes and alone and isinstance(arriving, slice) and arriving == ALL:
            step.execute(self, step, arriving)
            return [after]
        self.at_barrier.append(replace(group, lanes=arriving))
        return [] if arriving is group.lanes else [replace(after, lanes=self._others(group.lanes, arriving))]

    def _arrive(self, step: Bundle[Any], lanes: Lanes) -> None:
        try:
            step.detail.arrive(self, step, lanes)
        except AccessFault as fault:
            raise describe_fault(self, step, lanes, fault) from None

    def _arrive_at_event(self, step: Bundle[Any], group: Group) -> list[Group]:
        """An instruction that waits for something of its own; most often that has happened already."""
        arriving = self._guarded(step, group.lanes)
        after = replace(group, position=step.following)
        if arriving is None:
            return [after]
        self._arrive(step, arriving)
        self.at_event.append(replace(group, lanes=arriving))
        rest = [] if arriving is group.lanes else [self._others(group.lanes, arriving)]
        return self._release_events() + [replace(after, lanes=lanes) for lanes in rest]

    def _arrive_at_members(self, step: Bundle[Any], group: Group) -> list[Group]:
        """An instruction that waits for the lanes of its member mask."""
        arriving = self._guarded(step, group.lanes)
        if arriving is None:
            return [replace(group, position=step.following)]
        mine = self.indices(arriving)
        outside = self.fetch(step.sources[-1], arriving) >> (self.thread[mine] % WARP).astype(np.uint32) & 1 == 0
        if outside.any():
            raise describe_fault(self, step, arriving, left_out_of_its_mask(step, int(np.argmax(outside))))
        self.at_warp_barrier.append(replace(group, lanes=arriving))
        rest = [] if arriving is group.lanes else [self._others(group.lanes, arriving)]
        after = replace(group, position=step.following)
        return self._release_warps() + [replace(after, lanes=lanes) for lanes in rest]

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
        """Release every block whose live threads have all arrived at one barrier, whole warps at any place of it."""
        arrived, mixed = self._arrivals()
        free = (arrived == self.live) & (arrived > 0) & ~mixed
        if not free.any():
            return []
        self.progress += 1
        self._note_exited(free)
        waiting, self.at_barrier = self.at_barrier, []
        latest = max(group.time for group in waiting)
        released: list[Group] = []
        passed: dict[int, list[Lanes]] = {}
        for group in waiting:
            lanes = self.indices(group.lanes)
            go = free[self.block[lanes]]
            if go.any():
                after = self.program.step(group.position).following
                released.append(Group(after, self.compact(lanes[go]), group.team, latest))
                passed.setdefault(group.position, []).append(lanes[go])
            if not go.all():
                self.at_barrier.append(replace(group, lanes=compact(lanes[~go])))
        for position, sets in passed.items():
            step = self.program.step(position)
            step.execute(self, step, self._union(sets))
        return released

    def _arrivals(self) -> tuple[Array, Array]:
        """For each block, how many threads wait at a barrier, and whether they wait at different ones."""
        blocks = len(self.wave.blocks)
        arrived = np.zeros(blocks, np.int64)
        low, high = np.full(blocks, np.iinfo(np.int64).max), np.full(blocks, -1)
        kinds: dict[str, int] = {}
        place = np.full(blocks * self.warps_per_block, -1)
        for group in self.at_barrier:
            step, lanes = self.program.step(group.position), self.indices(group.lanes)
            counts = np.bincount(self.block[lanes], minlength=blocks)
            arrived += counts
            numbers = self.spread(self.fetch(step.sources[0], group.lanes), group.lanes).astype(np.int64)
            numbers = numbers | kinds.setdefault(step.detail.reduction, len(kinds)) << 32
            np.minimum.at(low, self.block[lanes], numbers)
            np.maximum.at(high, self.block[lanes], numbers)
            if step.traits.aligned:
                warps = np.unique(self.warp[lanes])
                split = warps[(place[warps] >= 0) & (place[warps] != group.position)]
                if split.size:
                    block = int(split[0]) // self.warps_per_block
                    raise divergent_barrier(self, block, self._waiting(self.at_barrier))
                place[warps] = group.position
        return arrived, low < high

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
            self.at_event.append(replace(group, lanes=compact(mine[~go])))
        self._step(step, lanes)
        return [replace(group, position=step.following, lanes=lanes)]

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
                released.append(replace(group, position=step.following))
            else:
                self.at_event.append(group)
        return released

    def _note_exited(self, free: Array) -> None:
        """A barrier that some threads of the block never reached, because they had ended: legal, but worth a note."""
        short = free & (self.live < self.wave.threads)
        if self.log is None or not short.any():
            return
        lanes = next(lanes for g in self.at_barrier if short[self.block[lanes := self.indices(g.lanes)]].any())
        lane = int(lanes[short[self.block[lanes]]][0])
        group = next(g for g in self.at_barrier if lane in self.indices(g.lanes))
        step, gone = self.program.step(group.position), self.wave.threads - int(self.live[self.block[lane]])
        self.log.note(f"{step.traits.called} at {step.first.instruction.where}: {gone} of {self.wave.threads} threads "
                      "of the block had returned before it and are not waited for")  # fmt: skip

    def _release_warps(self) -> list[Group]:
        """Release the lanes that wait for others of their warp, if all of those have arrived."""
        waiting, self.at_warp_barrier = self.at_warp_barrier, []
        released: list[Group] = []
        kinds: dict[tuple[Any, ...], list[Group]] = {}
        for group in waiting:
            step = self.program.step(group.position)
            members = step.traits.waits_on is Wait.MEMBERS
            # Lanes of a member mask may meet at different places, if they execute the same instruction.
            kinds.setdefault((members, step.first.instruction.name if members else group.position), []).append(group)
        for (members, _), groups in sorted(kinds.items(), key=lambda item: item[1][0].position):
            released += self._release_members(groups) if members else self._release_whole(groups)
        return released

    def _release_whole(self, groups: list[Group]) -> list[Group]:
        """Lanes that wait for all others of their warp at one place."""
        lanes = np.concatenate([self.indices(g.lanes) for g in groups])
        full = np.bincount(self.warp[lanes], minlength=self.warp[-1] + 1) == WARP
        return self._set_free(groups, [full[self.warp[self.indices(g.lanes)]] for g in groups])

    def _release_members(self, groups: list[Group]) -> list[Group]:
        """Lanes that wait for those of their member masks, wherever these execute the same instruction."""
        steps = [self.program.step(g.position) for g in groups]
        lanes = [self.indices(g.lanes) for g in groups]
        masks = [np.broadcast_to(self.fetch(step.sources[-1], g.lanes), mine.shape)
                 for step, g, mine in zip(steps, groups, lanes, strict=True)]  # fmt: skip
        everyone, mask = np.concatenate(lanes), np.concatenate(masks).astype(np.uint32)
        warp, bit = self.warp[everyone], np.left_shift(1, self.thread[everyone] % WARP)
        _, which = np.unique(warp.astype(np.uint64) << np.uint64(32) | mask, return_inverse=True)
        arrived = np.bincount(which, weights=bit).astype(np.int64)  # a sum of different bits: exact
        living = np.flatnonzero(self.alive)
        live = np.bincount(self.warp[living], weights=np.left_shift(1, self.thread[living] % WARP),
                           minlength=int(self.warp[-1]) + 1).astype(np.int64)  # fmt: skip
        go = (live[warp] & mask.astype(np.int64) & ~arrived[which]) == 0
        if not go.any():
            self.at_warp_barrier += groups
            return []
        place = np.repeat(np.arange(len(groups)), [mine.size for mine in lanes])
        for same in np.unique(mask[go]):
            self._execute_members(steps, everyone, place, go & (mask == same))
        free = self._set_free(groups, np.split(go, np.cumsum([mine.size for mine in lanes])[:-1]))
        return [replace(g, position=self.program.step(g.position).following) for g in free]

    def _execute_members(self, steps: list[Bundle[Any]], lanes: Array, place: Array, go: Array) -> None:
        """Execute for the lanes that go, which stand at ``place``; a warp at two places executes as one."""
        places = np.unique(place[go])
        spread = np.zeros(int(self.warp[-1]) + 1, bool)  # warps that stand at more than one place
        first = np.full(spread.size, -1)
        for n in places:
            warps = np.unique(self.warp[lanes[go & (place == n)]])
            spread[warps[first[warps] >= 0]] = True
            first[warps] = n
        apart = spread[self.warp[lanes]]
        for n in places:
            mine = lanes[go & (place == n) & ~apart]
            if mine.size:
                self._step(steps[n], self.compact(np.sort(mine)))
        if spread.any():
            together = [(steps[n], np.sort(lanes[go & (place == n) & apart])) for n in places]
            self._execute_together([(step, mine) for step, mine in together if mine.size])

    def _execute_together(self, parts: list[tuple[Bundle[Any], Array]]) -> None:
        """Execute one instruction for lanes that have its operands in different registers: by way of spare rows."""
        lead = max((step for step, _ in parts), key=lambda step: len(step.targets))
        spare = {f: table.shape[0] for f, table in self.files.items()}
        count = len(lead.sources) + len(lead.targets)
        kept = self.files
        self.files = {f: np.vstack([t, np.zeros((count, self.wave.lanes), t.dtype)]) for f, t in kept.items()}
        operands = []
        for n, operand in enumerate((*lead.sources, *lead.targets)):
            file = "p" if operand.dtype == bool else FILES[operand.dtype.itemsize]
            operands.append(Operand(file, spare[file] + n, operand.dtype, None))
        sources, targets = operands[: len(lead.sources)], operands[len(lead.sources) :]
        for step, lanes in parts:
            for into, source in zip(sources, step.sources, strict=True):
                self.put(into, lanes, self.fetch(source, lanes))
        joint = replace(lead, sources=tuple(sources), targets=tuple(targets), guard=None)
        self._step(joint, self._union([lanes for _, lanes in parts]))
        for step, lanes in parts:
            for target, result in zip(step.targets, targets, strict=False):
                self.put(target, lanes, self.fetch(result, lanes))
        self.files = {f: table[: spare[f]] for f, table in self.files.items()}

    def _set_free(self, groups: list[Group], go: Sequence[Array]) -> list[Group]:
        """The lanes that go, still at their positions; the others wait on."""
        free: list[Group] = []
        for group, mask in zip(groups, go, strict=True):
            lanes = self.indices(group.lanes)
            if mask.all():
                free.append(group)
            elif mask.any():
                free.append(replace(group, lanes=compact(lanes[mask])))
            if not mask.all():
                self.at_warp_barrier.append(replace(group, lanes=compact(lanes[~mask])))
        return free

    def _waiting(self, groups: list[Group]) -> list[Waiting]:
        return [(group.lanes, self.program.step(group.position)) for group in groups]
