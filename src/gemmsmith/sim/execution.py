"""What an instruction executes on: the registers of a wave, its memories, the race detector and the counters."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from gemmsmith.errors import SimulationError
from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.lanes import Lanes, WaveState
from gemmsmith.sim.lowering.operation import Lowered
from gemmsmith.sim.lowering.read_back import ReadBack
from gemmsmith.sim.lowering.traits import Space
from gemmsmith.sim.memory.access_faults import Unwritten
from gemmsmith.sim.memory.global_memory import GlobalMemory, resolve_generic
from gemmsmith.sim.memory.window_memory import WindowMemory
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.clocks import Clocks
from gemmsmith.sim.races.global_shadow import Look
from gemmsmith.sim.races.hazards import HazardLog
from gemmsmith.sim.races.memory_order import shared_between_threads
from gemmsmith.sim.races.shadow import Shadow
from gemmsmith.sim.recorder import Recorder
from gemmsmith.sim.special import RESERVED, RESERVED_BYTES
from gemmsmith.sim.wave import Wave

U = TypeVar("U")


class Execution(WaveState):
    """A wave's lanes, the memories they reach, and what watches them.

    ``late_copies`` makes asynchronous copies land as late as the program allows. ``shadow`` finds races on shared
    memory, ``look`` on global memory, ``counters`` counts and ``recorder`` traces; each is None if nobody asked for it.
    """

    def __init__(
        self,
        lowered: Lowered,
        wave: Wave,
        memory: GlobalMemory,
        late_copies: bool = False,
        log: HazardLog | None = None,
        counters: Counters | None = None,
        look: Look | None = None,
    ) -> None:
        super().__init__(lowered, wave)
        self.memory, self.late_copies, self.counters, self.log = memory, late_copies, counters, log
        self.between = lowered.fact(shared_between_threads)
        self.shared = WindowMemory(Space.SHARED, len(wave.blocks), wave.shared_size)
        self.shared.cluster = wave.cluster_blocks
        if RESERVED in lowered.special:
            self.shared.clear(RESERVED_BYTES)
        self.shared_base = self.block * self.shared.stride
        self.local = WindowMemory(Space.LOCAL, wave.lanes if lowered.local_size else 0, lowered.local_size)
        self.local_base = self.every * self.local.stride
        self.clocks = Clocks(self, math.prod(wave.grid))
        self.shadow = Shadow(self, self.shared, log, self.clocks) if log is not None else None
        self.look = look
        # What lanes of a warp execute as one from several places (``at_warp``): the steps and their lanes.
        self.apart: list[tuple[Bundle[Any], Array]] = []
        # Whether wgmma computes and TMA copies. Without it sums are zero, and so are shared memory and what is stored.
        self.moves_data = True
        self.idle: frozenset[int] = frozenset()  # operations whose results nobody wants
        self.read_back: ReadBack | None = None  # products that something may depend on after they were stored
        self.recorder: Recorder | None = None  # set by who wants a trace
        self.reached: tuple[Space, Array] = Space.GENERIC, np.zeros(0, np.uint64)  # by the bundle that ran last
        self.steps_taken = 0
        # Where each lane goes on after an instruction that jumps.
        self.targets = np.zeros(wave.lanes, np.int64)
        # What the kernel printed, a string for each call of printf by a thread.
        self.prints: list[str] = []
        # Arrivals at barriers, threads that ended, …: as long as this grows, the kernel gets somewhere.
        self.progress = 0
        # What happens by itself, the oldest first: here, when no thread can go on without it.
        self.postponed: deque[Callable[[], None]] = deque()
        # What is still to be done when all threads have ended.
        self.at_end: list[Callable[[], None]] = []
        # Whether an asynchronous operation completes when it is issued.
        self.at_once: Callable[[], bool] = lambda: not late_copies
        # Which of so many operations in flight completes next.
        self.completes: Callable[[int], int] = lambda count: 0 if count else -1
        self._units: dict[Callable[[Execution], Any], Any] = {}

    def unit(self, kind: Callable[[Execution], U]) -> U:
        """The wave's one object of a class that a family of instructions keeps its state in."""
        if kind not in self._units:
            self._units[kind] = kind(self)
        found: U = self._units[kind]
        return found

    def read_unwritten(self, step: Bundle[Any], lanes: Lanes, fault: Unwritten, again: Callable[[], None]) -> None:
        """A bundle reads what no thread has written; ``again`` repeats the read."""
        del step, lanes, again
        raise fault

    def before_the_end(self) -> str:
        """In words: the first race of a launch that cannot go on, more likely the cause than where it stops."""
        if self.shadow is None or self.log is None:
            return ""
        before = ""
        try:
            self.shadow.finish()
        except SimulationError as error:
            before = error.message
        return f"; before that: {self.log.found[0] if self.log.found else before}" if before or self.log.found else ""

    def place_of(self, step: Bundle[Any], lanes: Lanes) -> tuple[Space, Array]:
        """The space that a bundle's first pointer reaches, and the addresses inside it."""
        assert step.access is not None
        addresses = self.addresses(step.pointers[0], lanes, step.count)
        if self.look is not None and any(target.file == step.pointers[0].base.file for target in step.targets):
            addresses = addresses.copy()  # the targets may be the registers that it is a view of
        self.reached = (step.access.space, addresses)
        if step.access.space is Space.GENERIC:
            self.reached = resolve_generic(addresses)
        return self.reached

    def window(self, space: Space, lanes: Lanes) -> tuple[WindowMemory, Array]:
        """Shared or local memory, and where the window of each of these lanes starts in it."""
        if space is Space.SHARED:
            return self.shared, self.shared_base[lanes]
        return self.local, self.local_base[lanes]

    def spread(self, values: Any, lanes: Lanes) -> Array:
        """A value for each of these lanes, from values or a constant."""
        shape = self.indices(lanes).shape
        if isinstance(values, np.ndarray) and values.shape == shape:  # most often; broadcast_to takes microseconds
            return values
        return np.broadcast_to(values, shape)
