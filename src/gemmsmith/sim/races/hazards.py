"""Races as they are reported: two accesses that nothing orders, and what would order them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gemmsmith.errors import SimulationError
from gemmsmith.sim.lowering.shared_arrays import SharedArray
from gemmsmith.sim.races.spots import Spot

_MOST_REPORTED = 20
_MOST_KEPT = 400
EXITED = "of the block had returned before it"  # in notes on barriers that not all threads of a block reached


class HazardKind(StrEnum):
    """Which two accesses clash."""

    READ_AFTER_WRITE = "read-after-write"
    WRITE_AFTER_READ = "write-after-read"
    WRITE_AFTER_WRITE = "write-after-write"
    IN_FLIGHT_COPY = "in-flight-copy"  # any access to the destination of an asynchronous copy that is not done
    UNFENCED = "missing-proxy-fence"  # TMA or wgmma reads what a thread wrote, with no proxy fence between
    UNFENCED_INIT = "missing-init-fence"  # TMA counts at an mbarrier whose initialisation no fence follows: advice
    STILL_READ = "overwritten-while-read"  # by TMA or wgmma, in flight
    BEFORE_WAIT = "register-before-wait"  # of wgmma, used before its group was waited for
    NO_WGMMA_FENCE = "missing-wgmma-fence"  # a register of wgmma was changed
    ENDED_BLOCK = "access-of-ended-block"
    UNREAD_AT_END = "store-at-end-of-block"  # TMA may still read its source when the block ends: advice
    BARRIER_REUSED = "reuse"  # of a named barrier, before its last use is known to be complete
    UNEQUAL_BARRIERS = "unequal-barriers"  # threads of a block come to __syncthreads() more often than others
    BEFORE_GRID_WAIT = "before-griddepcontrol-wait"  # global memory that the launch before may still write
    STALE_MAP = "missing-tensormap-fence"  # TMA uses a tensor map that was changed, with no fence between
    OTHER_ELEMENT = "descriptor-mismatch"  # wgmma reads its operand in another layout than TMA wrote it


@dataclass(frozen=True)
class Side:
    """One of the two accesses of a hazard: what, which source line, which thread. ``text`` is the PTX."""

    verb: str
    where: str
    text: str
    thread: str
    spot: Spot | None = None

    def __str__(self) -> str:
        return f"{self.verb} at {self.where} by {self.thread}"


# Of a read that is ordered by a loop that waited, but by no fence (release_acquire.py).
FENCE_REMEDY = ("a barrier is no fence: put __threadfence() after the loop that waits for the flag, or an acquire load "
                "into it; else this read may get old data from L1")  # fmt: skip

# Of atomics that count for the threads of one block, at a place that another block uses as well.
SCOPE_REMEDY = "an atomic of block scope is none for other blocks: use device scope (atomicAdd for atomicAdd_block)"

WAIT_PHASE = "a wait for the mbarrier's phase (mbarrier.try_wait) must come between them"


@dataclass(frozen=True)
class Hazard:
    """Two accesses that nothing orders, where, and what would order them.

    ``address`` is in shared memory of ``block``, or in global memory; then ``memory`` says what lies there. With
    ``across_blocks`` the threads are of two blocks, and name them. ``array`` is the shared array at the address.
    ``remedy`` is what must come between, if the kind does not say so. ``place`` stands for the address where that is
    not memory.
    """

    kind: HazardKind
    address: int
    block: str
    first: Side
    second: Side
    across_warps: bool
    memory: str = ""
    across_blocks: bool = False
    array: SharedArray | None = None
    remedy: str = ""
    place: str = ""

    @property
    def is_global(self) -> bool:
        return bool(self.memory)

    @property
    def is_of_units(self) -> bool:
        """Whether TMA or wgmma makes one of the accesses: kernels that use them often have roles for their warps."""
        return any(side.verb.endswith(("TMA", "wgmma")) for side in (self.first, self.second))

    @property
    def needed(self) -> str:
        if self.remedy:
            return self.remedy
        if self.kind is HazardKind.IN_FLIGHT_COPY and self.first.verb.endswith("TMA"):
            return WAIT_PHASE
        if self.kind is HazardKind.IN_FLIGHT_COPY:
            return "cp.async.wait_group by the copying thread, then a barrier, must come between them"
        if self.across_blocks:
            return "blocks of one launch run at the same time: use atomics, a fence and a flag, or a second launch"
        if self.across_warps and self.is_of_units:
            return ("a barrier of both threads, or an mbarrier that one arrives at and the other waits for, must come "
                    "between them")  # fmt: skip
        if self.across_warps:
            return "a __syncthreads() must come between them"
        return "__syncwarp() or a barrier must come between them"

    @property
    def is_advice(self) -> bool:
        """Whether the kernel is legal, and only lacks what NVIDIA's own kernels have there."""
        return self.kind in (HazardKind.UNFENCED_INIT, HazardKind.UNREAD_AT_END)

    def __str__(self) -> str:
        if self.is_advice:
            return f"{self.kind}: {self.first}, then {self.second}; {self.needed}"
        place = f"shared address {self.address:#x}"
        if self.is_global:
            place = f"global address {self.address:#x} ({self.memory})"
        if self.place:
            return f"{self.kind} of {self.place} in block {self.block}: {self.first}, then {self.second}; {self.needed}"
        if not self.across_blocks:
            place += f" of block {self.block}" if not self.is_global else f" in block {self.block}"
        return f"{self.kind} race on {place}: {self.first}, then {self.second}; {self.needed}"


class HazardError(SimulationError):
    """A kernel whose result depends on the order of its threads."""

    def __init__(self, message: str, hint: str, hazards: tuple[Hazard, ...]) -> None:
        super().__init__(message, hint)
        self.hazards = hazards


class HazardLog:
    """Distinct hazards of a launch: one for each pair of source lines, preferably between two warps."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str, bool], tuple[tuple[int, ...], Hazard]] = {}
        self._notes: dict[str, None] = {}

    @property
    def found(self) -> tuple[Hazard, ...]:
        """Those that come first in the kernel, first; without advice."""
        ranked = sorted([item for item in self._found.values() if not item[1].is_advice], key=lambda item: item[0][1:])
        return tuple([hazard for _, hazard in ranked[:_MOST_REPORTED]])

    @property
    def advice(self) -> tuple[Hazard, ...]:
        return tuple([hazard for _, hazard in self._found.values() if hazard.is_advice])

    def add(self, rank: tuple[int, ...], hazard: Hazard) -> None:
        """Keep the hazard, unless its lines have one of a lower rank."""
        key = (hazard.kind, hazard.first.where, hazard.second.where, hazard.is_global)
        kept = self._found.get(key)
        if (kept is None and len(self._found) < _MOST_KEPT) or (kept is not None and rank < kept[0]):
            self._found[key] = rank, hazard

    def merge(self, other: HazardLog) -> None:
        """Take over the hazards and notes of another launch, after those found before."""
        for rank, hazard in other._found.values():
            self.add((rank[0], *rank[1:]), hazard)
        self._notes.update(other._notes)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is legal but worth knowing, each once."""
        return (*self._notes, *map(str, self.advice))

    def note(self, text: str) -> None:
        self._notes[text] = None
