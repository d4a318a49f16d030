"""Races within a block of a kernel whose result is not understood, under a launch with made-up arguments.

    sizes ─► arguments ─► run a few blocks ─► races in shared memory ─► the same with other sizes ─► what both have

Only such races count: blocks, and what they do in global memory, may overlap because the sizes are made up. A launch
that faults, waits for ever or stores nothing tells nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.call.any_kernel.arguments import Argument, match_arguments
from gemmsmith.call.any_kernel.kernel import LaunchKernel
from gemmsmith.call.launch import run_kernel
from gemmsmith.compile.cpu_seconds import seconds_used
from gemmsmith.errors import GemmsmithError, UnsupportedError
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.sim.device import Loads, SimDevice
from gemmsmith.sim.races.hazards import Hazard, HazardKind
from gemmsmith.sim.schedule import schedule_named
from gemmsmith.userfile.launches.made_up_launch import MadeUpLaunch
from gemmsmith.verify.made_up.arguments import ArgumentMaker
from gemmsmith.verify.made_up.sizes import Sizes, SizeSets

_SECONDS = 10.0  # of the search
_LAUNCH_S = 3.0
_FEW_BLOCKS = 3  # that are run: all are alike, as sizes are whole tiles
_QUICK_S = 1.5  # of a launch that is run in a second order of warps
_ORDERS = ("lockstep", "reversed")  # of warps, the second where the first shows no race
# What a GPU does to a block, whatever its arguments are.
_WITHIN_A_BLOCK = frozenset({
    HazardKind.READ_AFTER_WRITE, HazardKind.WRITE_AFTER_READ, HazardKind.WRITE_AFTER_WRITE, HazardKind.IN_FLIGHT_COPY,
    HazardKind.UNFENCED, HazardKind.STILL_READ, HazardKind.BARRIER_REUSED, HazardKind.UNEQUAL_BARRIERS,
})  # fmt: skip


@dataclass(frozen=True)
class MadeUpRun:
    """One launch: its sizes, and the races within a block that it shows."""

    sizes: Sizes
    geometry: Geometry
    arguments: tuple[Argument, ...]
    races: tuple[Hazard, ...]
    seconds: float

    def with_those_of(self, other: MadeUpRun) -> MadeUpRun:
        """The races of this run that the other has as well, at the same lines."""
        lines = {_lines(each) for each in other.races}
        return replace(self, races=tuple(each for each in self.races if _lines(each) in lines))

    def __str__(self) -> str:
        alike: dict[int, list[str]] = {}
        for name, size in self.sizes.items():
            alike.setdefault(size, []).append(name)
        return ", ".join(f"{' = '.join(names)} = {size}" for size, names in alike.items()) or "no sizes"


@dataclass
class RaceSearch:
    """Runs ``kernel`` with made-up arguments; ``ran`` are the launches that tell something, in order."""

    kernel: LaunchKernel
    launch: MadeUpLaunch
    arch: str
    ran: list[MadeUpRun] = field(default_factory=list)
    _loads: Loads = field(default_factory=dict)

    def found(self) -> MadeUpRun | None:
        """The launch with races that count; None: there are none."""
        end, sets = seconds_used() + _SECONDS, SizeSets(self.launch, self._maker.integers)
        for sizes, others in sets.pairs():
            first = self._first(sizes, end)
            if first is None:
                continue
            if not first.races or sets.all_told:
                return first if first.races else None
            second = next((run for each in others if (run := self._run(each, _ORDERS[0], end)) is not None), None)
            both = first.with_those_of(second) if second is not None else None
            return both if both is not None and both.races else None
        return None

    def _first(self, sizes: Sizes, end: float) -> MadeUpRun | None:
        """The launch with these sizes under the first order of warps that shows a race; None: it tells nothing."""
        run = self._run(sizes, _ORDERS[0], end)
        if run is None or run.races or run.seconds > _QUICK_S:
            return run
        return self._run(sizes, _ORDERS[1], end) or run

    def _run(self, sizes: Sizes, order: str, end: float) -> MadeUpRun | None:
        limit = min(_LAUNCH_S, end - seconds_used())
        if limit <= 0:
            return None
        try:
            geometry = self.launch.geometry(sizes)
            device = SimDevice(self.arch, schedule_named(order), hazards=True, timeout=limit)
            device.loads = self._loads
            made = match_arguments(self.kernel, self._maker.values(sizes, partial(_placed, device)))
            result = run_kernel(self.kernel, geometry, made, device, self._maker.constants,
                                blocks=_some_blocks(geometry))  # fmt: skip
        except GemmsmithError:
            return None
        races = tuple(hazard for hazard in result.hazards if _counts(hazard))
        if not (result.hazards or device.memory.stored):
            return None
        self.ran.append(MadeUpRun(sizes, result.geometry, made, races, result.seconds))
        return self.ran[-1]

    @cached_property
    def _maker(self) -> ArgumentMaker:
        return ArgumentMaker(self.kernel, self.launch)


def refuse_untold(kernel: LaunchKernel, launch: MadeUpLaunch) -> None:
    """Raise for a launch that cannot be made up: of clusters, or with tensor maps."""
    if kernel.cluster is not None or (launch.site is not None and launch.site.site.cluster):
        raise UnsupportedError(f"{launch.entry} is launched in clusters")


def _placed(device: SimDevice, values: NDArray[Any]) -> int:
    """The address of an array in the device's memory."""
    address = device.allocate(values.nbytes)
    device.write(address, values.view(np.uint8))
    return address


def _some_blocks(geometry: Geometry) -> list[int] | None:
    """The first blocks; None: all, where they wait for each other."""
    return None if geometry.cooperative else list(range(min(_FEW_BLOCKS, geometry.blocks)))


def _counts(hazard: Hazard) -> bool:
    return hazard.kind in _WITHIN_A_BLOCK and not hazard.is_global and not hazard.across_blocks


def _lines(hazard: Hazard) -> frozenset[str]:
    return frozenset((hazard.first.where, hazard.second.where))
