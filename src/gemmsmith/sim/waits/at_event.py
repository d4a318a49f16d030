"""Groups that wait for something of their own instruction: an mbarrier's phase, a named barrier."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.faults import describe_fault
from gemmsmith.sim.lanes import compact
from gemmsmith.sim.memory.access_faults import AccessFault
from gemmsmith.sim.stepper import Group, Stepper

# So many polls of everybody who can only poll, with no progress, and the kernel hangs.
_POLLS = 1000


class AtEvent:
    """Instructions of ``Wait.EVENT``: ``groups`` wait at the instruction at their position."""

    def __init__(self, machine: Stepper) -> None:
        self.machine = machine
        self.groups: list[Group] = []
        self.released_at = 0  # progress when they were last looked at
        self._polled_at, self._polls = -1, 0

    def arrive(self, step: Bundle[Any], group: Group) -> list[Group]:
        """An instruction that waits for something of its own; most often that has happened already."""
        arriving = self.machine.guarded(step, group.lanes)
        after = replace(group, position=step.following)
        if arriving is None:
            return [after]
        self.machine.arrive(step, arriving)
        self.groups.append(replace(group, lanes=arriving))
        rest = [] if arriving is group.lanes else [self.machine.others(group.lanes, arriving)]
        return self.release() + [replace(after, lanes=lanes) for lanes in rest]

    def release(self) -> list[Group]:
        """Release the lanes for which what they wait for has happened."""
        released: list[Group] = []
        while self.groups:
            self.released_at = self.machine.progress
            waiting, self.groups = self.groups, []
            found = [group for each in waiting for group in self._release_event(each)]
            released += self.machine.converged(found)
            if not found or self.machine.progress == self.released_at:
                break
        return released

    def _release_event(self, group: Group) -> list[Group]:
        step = self.machine.program.step(group.position)
        try:
            go = step.detail.ready(self.machine, step, group.lanes)
        except AccessFault as fault:
            raise describe_fault(self.machine, step, group.lanes, fault) from None
        if not go.any():
            self.groups.append(group)
            return []
        lanes = group.lanes
        if not go.all():
            mine = self.machine.indices(lanes)
            lanes = compact(mine[go])
            self.groups.append(replace(group, lanes=compact(mine[~go])))
        self.machine.step(step, lanes)
        return [replace(group, position=step.following, lanes=lanes)]

    def poll(self) -> list[Group]:
        """Let groups that poll find out that they must go on waiting: what they do next may be what others wait for."""
        if self.machine.progress != self._polled_at:
            self._polled_at, self._polls = self.machine.progress, 0
        self._polls += 1
        if self._polls > _POLLS:
            return []
        waiting, self.groups = self.groups, []
        released: list[Group] = []
        for group in waiting:
            step = self.machine.program.step(group.position)
            if step.detail.polls:
                self.machine.step(step, group.lanes)
                released.append(replace(group, position=step.following))
            else:
                self.groups.append(group)
        return released
