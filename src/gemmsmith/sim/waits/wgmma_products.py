"""The wgmma instructions in flight of a wave, and the groups that each warp has committed.

The four warps of a warpgroup execute a wgmma together: each computes its own 16 rows of the 64, and waiting for a group
means that all four have issued it and that all of it is done. With ``late_copies`` a product happens when a warp first
waits for its group, otherwise at once. A kernel that fences and waits correctly cannot tell the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gemmsmith.sim.execution import Execution
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.async_hazards import WgmmaRegisters
from gemmsmith.sim.races.clocks import Clock
from gemmsmith.sim.wave import WARP

WARPS = 4  # of a warpgroup


@dataclass(frozen=True)
class Flying:
    """A product of some warps: ``compute`` does it for some of their lanes, given by their places among ``lanes``.

    ``touch`` shows the race detector what it reads, as a read of the lane it is given. ``late``: it is not computed
    yet.
    """

    operation: Operation[Any]
    lanes: Array
    group: Array
    compute: Callable[[Array], None]
    touch: Callable[[Array, int | None], None]
    late: bool


class WgmmaProducts:
    """Products by the lanes that issued them; ``committed`` counts each lane's groups."""

    def __init__(self, machine: Execution) -> None:
        self.machine = machine
        self.committed = np.zeros(machine.wave.lanes, np.int64)
        groups = -(-machine.warps_per_block // WARPS)
        self.warpgroup = machine.block * groups + machine.thread // (WARPS * WARP)
        self.flying: list[Flying] = []
        self._unwaited: list[tuple[Operation[Any], Array, Array]] = []
        # By warpgroup and group: what all warps had done before they committed, and what the first had that waited.
        self._released: dict[tuple[int, int], Clock] = {}
        self._done: dict[tuple[int, int], Clock] = {}
        machine.unit(WgmmaRegisters).force = self.force

    def issue(self, operation: Operation[Any], lanes: Lanes, compute: Callable[[Array], None],
              touch: Callable[[Array, int | None], None]) -> None:  # fmt: skip
        mine, late = self.machine.indices(lanes), not self.machine.at_once()
        everyone = np.arange(mine.size)
        if not late:
            self.force(lanes)  # what was issued before comes first
            compute(everyone)
        if self.machine.shadow is not None:
            touch(everyone, None)
        if self.machine.late_copies or self.machine.shadow is not None:
            self._unwaited.append((operation, mine, self.committed[mine]))
        if self.machine.late_copies or self.machine.shadow is not None:
            self.flying.append(Flying(operation, mine, self.committed[mine], compute, touch, late))

    def force(self, lanes: Lanes) -> None:
        """Compute what the warps of these lanes have in flight: the compiler copies their registers from one wgmma to
        the next. A product is one of whole warps, even where only some of their lanes copy a register."""
        warp = self.machine.warp
        theirs = np.zeros(int(warp[-1]) + 1, bool)
        theirs[warp[lanes]] = True
        mine = theirs[warp]
        left: list[Flying] = []
        for product in self.flying:
            now = mine[product.lanes] & product.late
            if now.any():
                product.compute(np.flatnonzero(now))
                left.append(replace(_rest(product, now), late=False))
            if not now.all():
                left.append(_rest(product, ~now) if now.any() else product)
        self.flying = left

    def commit(self, lanes: Lanes) -> None:
        machine, mine = self.machine, self.machine.indices(lanes)
        if machine.shadow is not None:
            moment = machine.shadow.arrive(mine)
            for warpgroup in np.unique(self.warpgroup[mine]).tolist():
                these = mine[self.warpgroup[mine] == warpgroup]
                clock = machine.clocks.known(moment, these)
                key = warpgroup, int(self.committed[these[0]])
                self._released[key] = clock.joined(self._released.get(key, clock))
        self.committed[mine] += 1
        machine.progress += 1

    def ready(self, lanes: Lanes, allowed: int) -> Array:
        """Whether all warps of each lane's warpgroup have committed what the lane waits for."""
        least = np.full(int(self.warpgroup[-1]) + 1, np.iinfo(np.int64).max)
        np.minimum.at(least, self.warpgroup, self.committed)
        found: Array = least[self.warpgroup[lanes]] >= self.committed[lanes] - allowed
        return found

    def wait(self, lanes: Lanes, allowed: int) -> None:
        """Do what the warpgroups of these lanes committed, except their last ``allowed`` groups, in order."""
        mine = self.machine.indices(lanes)
        bound = np.zeros(int(self.warpgroup[-1]) + 1, np.int64)
        by = np.zeros(bound.size, np.int64)
        by[self.warpgroup[mine][::-1]] = mine[::-1]
        np.maximum.at(bound, self.warpgroup[mine], self.committed[mine] - allowed)
        self._acquire(mine, bound)
        left = []
        for product in self.flying:
            done = product.group < bound[self.warpgroup[product.lanes]]
            if done.any():
                self._finish(product, np.flatnonzero(done), by)
            if not done.all():
                left.append(_rest(product, ~done))
        self.flying = left
        self._tell_done(mine, bound, by)
        waits = np.zeros(self.committed.size, bool)
        waits[mine] = True
        self._unwaited = [
            (operation, theirs[keep], group[keep]) for operation, theirs, group in self._unwaited
            if (keep := ~waits[theirs] | (group >= self.committed[theirs] - allowed)).any()
        ]  # fmt: skip

    @property
    def unwaited(self) -> list[tuple[Operation[Any], Array]]:
        """Products and the lanes that have not waited for them, if races are looked for."""
        return [(operation, lanes) for operation, lanes, _ in self._unwaited]

    def _acquire(self, lanes: Array, bound: Array) -> None:
        """The lanes learn what all warps of their warpgroups had done before they committed."""
        if self.machine.shadow is None:
            return
        for warpgroup in np.unique(self.warpgroup[lanes]).tolist():
            if (clock := self._released.get((warpgroup, int(bound[warpgroup]) - 1))) is not None:
                self.machine.shadow.acquire(lanes[self.warpgroup[lanes] == warpgroup], clock)

    def _tell_done(self, lanes: Array, bound: Array, by: Array) -> None:
        """What a group reads was read when a lane first waited for it: all lanes that wait learn this."""
        machine = self.machine
        if machine.shadow is None:
            return
        for warpgroup in np.unique(self.warpgroup[lanes]).tolist():
            key = warpgroup, int(bound[warpgroup]) - 1
            if key[1] < 0:
                continue
            if key not in self._done:
                first = np.array([by[warpgroup]])
                self._done[key] = machine.clocks.known(machine.shadow.arrive(first), first)
            machine.shadow.acquire(lanes[self.warpgroup[lanes] == warpgroup], self._done[key])

    def _finish(self, product: Flying, places: Array, by: Array) -> None:
        if product.late:
            product.compute(places)
        if self.machine.shadow is not None:
            warpgroups = self.warpgroup[product.lanes[places]]
            for warpgroup in np.unique(warpgroups).tolist():
                product.touch(places[warpgroups == warpgroup], int(by[warpgroup]))


def _rest(product: Flying, kept: Array) -> Flying:
    places = np.flatnonzero(kept)
    compute, touch = product.compute, product.touch
    return replace(
        product, lanes=product.lanes[kept], group=product.group[kept],
        compute=lambda chosen: compute(places[chosen]), touch=lambda chosen, by: touch(places[chosen], by),
    )  # fmt: skip
