"""What an instruction executes on: the registers of a wave, its memories, the race detector and the counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.hazards import HazardLog
from gemmsmith.sim.lanes import Lanes, WaveState
from gemmsmith.sim.memory import Chosen, GlobalMemory, WindowMemory, resolve_generic, split_generic
from gemmsmith.sim.operation import Lowered
from gemmsmith.sim.shadow import Shadow
from gemmsmith.sim.special import RESERVED, RESERVED_BYTES
from gemmsmith.sim.traits import Space
from gemmsmith.sim.types import Array
from gemmsmith.sim.wave import Wave

U = TypeVar("U")


class Execution(WaveState):
    """A wave's lanes, the memories they reach, and what watches them.

    ``late_copies`` makes asynchronous copies land as late as the program allows. ``shadow`` is the race detector and
    ``counters`` counts; either is None if nobody asked for it.
    """

    def __init__(
        self,
        lowered: Lowered,
        wave: Wave,
        memory: GlobalMemory,
        late_copies: bool = False,
        log: HazardLog | None = None,
        counters: Counters | None = None,
    ) -> None:
        super().__init__(lowered, wave)
        self.memory, self.late_copies, self.counters = memory, late_copies, counters
        self.shared = WindowMemory(Space.SHARED, len(wave.blocks), wave.shared_size)
        if RESERVED in lowered.special:
            self.shared.clear(RESERVED_BYTES)
        self.shared_base = self.block * self.shared.stride
        self.local = WindowMemory(Space.LOCAL, wave.lanes if lowered.local_size else 0, lowered.local_size)
        self.local_base = self.every * self.local.stride
        self.shadow = Shadow(self, self.shared, log) if log is not None and wave.shared_size else None
        self.steps_taken = 0
        # Where each lane goes on after an instruction that jumps.
        self.targets = np.zeros(wave.lanes, np.int64)
        # What the kernel printed, a string for each call of printf by a thread.
        self.prints: list[str] = []
        self._units: dict[Callable[[Execution], Any], Any] = {}

    def unit(self, kind: Callable[[Execution], U]) -> U:
        """The wave's one object of a class that a family of instructions keeps its state in."""
        if kind not in self._units:
            self._units[kind] = kind(self)
        found: U = self._units[kind]
        return found

    def place_of(self, step: Bundle[Any], lanes: Lanes) -> tuple[Space, Array]:
        """The space that a bundle's first pointer reaches, and the addresses inside it."""
        assert step.access is not None
        addresses = self.addresses(step.pointers[0], lanes, step.count)
        if step.access.space is Space.GENERIC:
            return resolve_generic(addresses)
        return step.access.space, addresses

    def places_of(self, step: Bundle[Any], lanes: Lanes) -> list[tuple[Space, Chosen, Array]]:
        """Every space that a bundle's first pointer reaches: which accesses, and their addresses inside it."""
        assert step.access is not None
        addresses = self.addresses(step.pointers[0], lanes, step.count)
        if step.access.space is Space.GENERIC:
            return split_generic(addresses)
        return [(step.access.space, slice(None), addresses)]

    def window(self, space: Space, lanes: Lanes) -> tuple[WindowMemory, Array]:
        """Shared or local memory, and where the window of each of these lanes starts in it."""
        if space is Space.SHARED:
            return self.shared, self.shared_base[lanes]
        return self.local, self.local_base[lanes]

    def spread(self, values: Any, lanes: Lanes) -> Array:
        """A value for each of these lanes, from values or a constant."""
        return np.broadcast_to(values, self.indices(lanes).shape)
