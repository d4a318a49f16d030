"""Execute one bundle for some lanes: guards, faults, what watches memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle, Program, single
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.faults import Waiting, describe_fault
from gemmsmith.sim.lanes import Lanes, compact
from gemmsmith.sim.lowering.operation import Lowered
from gemmsmith.sim.lowering.traits import Effect, Executed, Space
from gemmsmith.sim.memory.access_faults import AccessFault, MixedSpaces, Unwritten
from gemmsmith.sim.memory.bulk_copies import BulkCopies
from gemmsmith.sim.memory.global_memory import GlobalMemory, space_of
from gemmsmith.sim.memory.remote_accesses import RemoteAccesses
from gemmsmith.sim.races.async_hazards import ProxyFences, WgmmaRegisters
from gemmsmith.sim.races.global_shadow import Look, touches, watched
from gemmsmith.sim.races.hazards import HazardLog
from gemmsmith.sim.waits.grid_dependency import GridDependency
from gemmsmith.sim.wave import Wave


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


_BY_TMA = ("cp.async.bulk.tensor", "cp.reduce.async.bulk")


class Stepper(Execution):
    """A wave and its program: executes bundles, and ends threads."""

    def __init__(
        self,
        lowered: Lowered,
        program: Program,
        wave: Wave,
        memory: GlobalMemory,
        late_copies: bool = False,
        log: HazardLog | None = None,
        counters: Counters | None = None,
        look: Look | None = None,
    ) -> None:
        super().__init__(lowered, wave, memory, late_copies, log, counters, look)
        if look is not None:
            look.attach(self.clocks)
        self.watched = lowered.fact(watched) if look is not None else frozenset()
        self.program, self.idle, self.read_back = program, program.idle, program.read_back
        if log is not None:
            self.unit(ProxyFences)
        watched_registers = self.unit(WgmmaRegisters)
        self.registers = watched_registers if watched_registers.cells else None
        dependency = self.unit(GridDependency)
        self.dependency = dependency if dependency.active else None
        if self.shadow is not None and wave.cluster_blocks > 1:
            self.unit(RemoteAccesses)
        self.live = np.full(len(wave.blocks), wave.threads)  # threads of each block that have not ended

    def step(self, step: Bundle[Any], lanes: Lanes) -> None:
        """Execute a bundle for the lanes whose guard holds."""
        active = self.guarded(step, lanes)
        if self.counters is not None and step.traits.counts.executed is Executed.ISSUED and not step.waits:
            self.counters.issued(self, step, lanes, active)
        if active is None:
            return
        if self.counters is not None and step.traits.counts.executed is Executed.GUARDED:
            self.counters.executed(self, step, active)
        if self.recorder is not None:
            self.recorder.executes(self, step, active)
        if self.registers is not None and not step.traits.called.startswith("wgmma"):
            self.registers.watch(step, active)
        try:
            step.execute(self, step, active)
        except MixedSpaces:
            self._by_space(step, active)
            return
        except Unwritten as fault:
            self.read_unwritten(step, active, fault, lambda: step.execute(self, step, active))
        except AccessFault as fault:
            raise describe_fault(self, step, active, fault) from None
        if self.dependency is not None and step.access is not None:
            self._check_dependency(step, active)
        if self.watched and step.first.position in self.watched:
            self._look_at(step, active)

    def _check_dependency(self, step: Bundle[Any], lanes: Lanes) -> None:
        """A kernel that waits for the launch before it must do so before it accesses global memory."""
        assert self.dependency is not None
        assert step.access is not None
        space = self.reached[0] if step.access.space is Space.GENERIC else step.access.space
        if space is Space.GLOBAL or step.access.effect is Effect.COPY or step.traits.called.startswith(_BY_TMA):
            self.dependency.touched(step.first, self.indices(lanes))

    def read_unwritten(self, step: Bundle[Any], lanes: Lanes, fault: Unwritten, again: Callable[[], None]) -> None:
        """Read what was never written all the same, if another thread may still write it: then it is a race."""
        described = describe_fault(self, step, lanes, fault)
        if fault.space is Space.SHARED and (flying := self.unit(BulkCopies).flying_to(fault.index)):
            described.message += f": {flying}"
        if self.shadow is None or fault.space is not Space.SHARED:
            raise described from None
        mine = self.indices(lanes)
        width = 1 if step.access is None else step.access.width
        self.shadow.read_unwritten(int(mine[fault.position % mine.size]), fault.index, width, described)
        self.shared.check = False
        try:
            again()
        except AccessFault as other:  # beyond its array, too
            raise describe_fault(self, step, lanes, other) from None
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
                self.step(replace(alone, guard=None), compact(mine[spaces == space]))

    def guarded(self, step: Bundle[Any], lanes: Lanes) -> Lanes | None:
        """The lanes whose guard holds, or None if there are none."""
        if step.guard is None:
            return lanes
        values = self.predicate(step.guard, lanes)
        held = int(np.count_nonzero(values))  # a fifth of the time of all() and any()
        if step.negated:
            held = values.size - held
        if held == values.size:
            return lanes
        if not held:
            return None
        return compact(self.indices(lanes)[~values if step.negated else values])

    def others(self, lanes: Lanes, some: Lanes) -> Lanes:
        """The lanes that are not among ``some``."""
        chosen = np.zeros(self.wave.lanes, bool)
        chosen[some] = True
        mine = self.indices(lanes)
        return compact(mine[~chosen[mine]])

    def union(self, sets: Sequence[Lanes]) -> Lanes:
        chosen = np.zeros(self.wave.lanes, bool)
        for lanes in sets:
            chosen[lanes] = True
        return self.compact(np.flatnonzero(chosen))

    def converged(self, released: list[Group]) -> list[Group]:
        """Groups that have been released; those that an instruction brings together again are one."""
        if len(released) < 2 or not self.lowered.machine_code:
            return released
        places: dict[tuple[int, int], list[Group]] = {}
        for group in released:
            places.setdefault((group.position, group.team), []).append(group)
        return [replace(same[0], lanes=self.union([g.lanes for g in same])) if len(same) > 1 else same[0]
                for same in places.values()]  # fmt: skip

    def end(self, lanes: Lanes) -> None:
        self.alive[lanes] = False
        self.progress += 1
        self.live = np.bincount(self.block[self.alive], minlength=len(self.wave.blocks))

    def waiting(self, groups: Sequence[Group]) -> list[Waiting]:
        """What messages say about groups that wait: their lanes, and the instruction they stand at."""
        return [(group.lanes, self.program.step(group.position)) for group in groups]

    def arrive(self, step: Bundle[Any], lanes: Lanes) -> None:
        """Lanes reach an instruction at which they wait."""
        if self.recorder is not None:
            self.recorder.arrives(self, step, lanes)
        try:
            step.detail.arrive(self, step, lanes)
        except AccessFault as fault:
            raise describe_fault(self, step, lanes, fault) from None
