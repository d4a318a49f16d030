"""Groups that wait for other lanes of their warps: instructions for whole warps, and those with a member mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import is_
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle, Operand
from gemmsmith.sim.faults import describe_fault, left_out_of_its_mask, short_warp
from gemmsmith.sim.lanes import Lanes, compact
from gemmsmith.sim.lowering.operation import FILES
from gemmsmith.sim.lowering.traits import Wait
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.stepper import Group, Stepper
from gemmsmith.sim.wave import WARP


class AtWarp:
    """Meetings of a warp's lanes: ``groups`` wait at the instruction at their position."""

    def __init__(self, machine: Stepper) -> None:
        self.machine = machine
        self.groups: list[Group] = []
        self._fruitless: tuple[int, list[Group]] = -1, []  # progress, and who waited, when nobody could be released

    def arrive_members(self, step: Bundle[Any], group: Group) -> list[Group]:
        """An instruction that waits for the lanes of its member mask."""
        arriving = self.machine.guarded(step, group.lanes)
        if arriving is None:
            return [replace(group, position=step.following)]
        if arriving is group.lanes and not self.groups and self._has_whole_warps(step, arriving):
            self.machine.step(step, arriving)
            return [replace(group, position=step.following)]
        mine = self.machine.indices(arriving)
        outside = (
            self.machine.fetch(step.sources[-1], arriving) >> (self.machine.thread[mine] % WARP).astype(np.uint32) & 1
            == 0
        )
        if outside.any():
            raise describe_fault(self.machine, step, arriving, left_out_of_its_mask(step, int(np.argmax(outside))))
        self.groups.append(replace(group, lanes=arriving))
        rest = [] if arriving is group.lanes else [self.machine.others(group.lanes, arriving)]
        after = replace(group, position=step.following)
        return self.release() + [replace(after, lanes=lanes) for lanes in rest]

    def _has_whole_warps(self, step: Bundle[Any], lanes: Lanes) -> bool:
        """Whether all lanes of every member mask are here: the usual case, with nobody to wait for."""
        mask = step.sources[-1].constant
        return mask is not None and bool(np.all(mask == 0xFFFFFFFF)) and self.machine.whole_warps(lanes)

    def arrive_whole(self, step: Bundle[Any], group: Group) -> list[Group]:
        """An instruction for whole warps, and the rest of a warp is elsewhere: these lanes wait for it."""
        warps = self.machine.warp[self.machine.indices(group.lanes)]
        short = (
            np.bincount(self.machine.warp[self.machine.alive], minlength=int(self.machine.warp[-1]) + 1)[warps] < WARP
        )
        if short.any():
            raise describe_fault(self.machine, step, group.lanes, short_warp(step, int(np.argmax(short))))
        self.groups.append(group)
        return self.release()

    def release(self) -> list[Group]:
        """Release the lanes that wait for others of their warp, if all of those have arrived."""
        progress, known = self._fruitless
        if progress == self.machine.progress and len(known) == len(self.groups) and all(map(is_, known, self.groups)):
            return []  # nobody has arrived or ended since: threads that spin ask often
        waiting, self.groups = self.groups, []
        released: list[Group] = []
        kinds: dict[tuple[Any, ...], list[Group]] = {}
        for group in waiting:
            step = self.machine.program.step(group.position)
            members = step.traits.waits_on is Wait.MEMBERS
            # Lanes of a member mask may meet at different places, if they execute the same instruction.
            kinds.setdefault((members, step.first.instruction.name if members else group.position), []).append(group)
        for (members, _), groups in sorted(kinds.items(), key=lambda item: item[1][0].position):
            released += self._release_members(groups) if members else self._release_whole(groups)
        if not released:
            self._fruitless = self.machine.progress, self.groups.copy()
        return released

    def _release_whole(self, groups: list[Group]) -> list[Group]:
        """Lanes that wait for all others of their warp at one place."""
        lanes = np.concatenate([self.machine.indices(g.lanes) for g in groups])
        full = np.bincount(self.machine.warp[lanes], minlength=self.machine.warp[-1] + 1) == WARP
        return self._set_free(groups, [full[self.machine.warp[self.machine.indices(g.lanes)]] for g in groups])

    def _release_members(self, groups: list[Group]) -> list[Group]:
        """Lanes that wait for those of their member masks, wherever these execute the same instruction."""
        steps = [self.machine.program.step(g.position) for g in groups]
        lanes = [self.machine.indices(g.lanes) for g in groups]
        masks = [np.broadcast_to(self.machine.fetch(step.sources[-1], g.lanes), mine.shape)
                 for step, g, mine in zip(steps, groups, lanes, strict=True)]  # fmt: skip
        everyone, mask = np.concatenate(lanes), np.concatenate(masks).astype(np.uint32)
        warp, bit = self.machine.warp[everyone], np.left_shift(1, self.machine.thread[everyone] % WARP)
        _, which = np.unique(warp.astype(np.uint64) << np.uint64(32) | mask, return_inverse=True)
        arrived = np.bincount(which, weights=bit).astype(np.int64)  # a sum of different bits: exact
        living = np.flatnonzero(self.machine.alive)
        live = np.bincount(self.machine.warp[living], weights=np.left_shift(1, self.machine.thread[living] % WARP),
                           minlength=int(self.machine.warp[-1]) + 1).astype(np.int64)  # fmt: skip
        go = (live[warp] & mask.astype(np.int64) & ~arrived[which]) == 0
        if not go.any():
            self.groups += groups
            return []
        place = np.repeat(np.arange(len(groups)), [mine.size for mine in lanes])
        for same in np.unique(mask[go]):
            self._execute_members(steps, everyone, place, go & (mask == same))
        free = self._set_free(groups, np.split(go, np.cumsum([mine.size for mine in lanes])[:-1]))
        return self.machine.converged(
            [replace(g, position=self.machine.program.step(g.position).following) for g in free]
        )

    def _execute_members(self, steps: list[Bundle[Any]], lanes: Array, place: Array, go: Array) -> None:
        """Execute for the lanes that go, which stand at ``place``; a warp at two places executes as one."""
        places = np.unique(place[go])
        spread = np.zeros(int(self.machine.warp[-1]) + 1, bool)  # warps that stand at more than one place
        first = np.full(spread.size, -1)
        for n in places:
            warps = np.unique(self.machine.warp[lanes[go & (place == n)]])
            spread[warps[first[warps] >= 0]] = True
            first[warps] = n
        apart = spread[self.machine.warp[lanes]]
        for n in places:
            mine = lanes[go & (place == n) & ~apart]
            if mine.size:
                self.machine.step(steps[n], self.machine.compact(np.sort(mine)))
        if spread.any():
            together = [(steps[n], np.sort(lanes[go & (place == n) & apart])) for n in places]
            self._execute_together([(step, mine) for step, mine in together if mine.size])

    def _execute_together(self, parts: list[tuple[Bundle[Any], Array]]) -> None:
        """Execute one instruction for lanes that have its operands in different registers: by way of spare rows."""
        lead = max((step for step, _ in parts), key=lambda step: len(step.targets))
        spare = {f: table.shape[0] for f, table in self.machine.files.items()}
        count = len(lead.sources) + len(lead.targets)
        kept = self.machine.files
        self.machine.replace_files({
            f: np.vstack([t, np.zeros((count, self.machine.wave.lanes), t.dtype)]) for f, t in kept.items()
        })  # fmt: skip
        operands = []
        for n, operand in enumerate((*lead.sources, *lead.targets)):
            file = "p" if operand.dtype == bool else FILES[operand.dtype.itemsize]
            operands.append(Operand(file, spare[file] + n, operand.dtype, None))
        sources, targets = operands[: len(lead.sources)], operands[len(lead.sources) :]
        for step, lanes in parts:
            for into, source in zip(sources, step.sources, strict=True):
                self.machine.put(into, lanes, self.machine.fetch(source, lanes))
        joint = replace(lead, sources=tuple(sources), targets=tuple(targets), guard=None)
        self.machine.apart = parts
        self.machine.step(joint, self.machine.union([lanes for _, lanes in parts]))
        self.machine.apart = []
        for step, lanes in parts:
            for target, result in zip(step.targets, targets, strict=False):
                self.machine.put(target, lanes, self.machine.fetch(result, lanes))
        self.machine.replace_files({f: table[: spare[f]] for f, table in self.machine.files.items()})

    def _set_free(self, groups: list[Group], go: Sequence[Array]) -> list[Group]:
        """The lanes that go, still at their positions; the others wait on."""
        free: list[Group] = []
        for group, mask in zip(groups, go, strict=True):
            lanes = self.machine.indices(group.lanes)
            if mask.all():
                free.append(group)
            elif mask.any():
                free.append(replace(group, lanes=compact(lanes[mask])))
            if not mask.all():
                self.groups.append(replace(group, lanes=compact(lanes[~mask])))
        return free
