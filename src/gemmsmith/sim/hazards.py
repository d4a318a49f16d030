"""Shared-memory races as they are reported: two accesses that nothing orders, and what would order them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gemmsmith.errors import SimulationError

_MOST_REPORTED = 20


class HazardKind(StrEnum):
    """Which two accesses clash."""

    READ_AFTER_WRITE = "read-after-write"
    WRITE_AFTER_READ = "write-after-read"
    WRITE_AFTER_WRITE = "write-after-write"
    IN_FLIGHT_COPY = "in-flight-copy"  # any access to the destination of an asynchronous copy that is not done


@dataclass(frozen=True)
class Side:
    """One of the two accesses of a hazard: what, which source line, which thread."""

    verb: str
    where: str
    text: str
    thread: str

    def __str__(self) -> str:
        return f"{self.verb} at {self.where} by {self.thread} ({self.text})"


@dataclass(frozen=True)
class Hazard:
    """Two accesses that nothing orders, the shared-memory address, and what would order them."""

    kind: HazardKind
    address: int
    block: str
    first: Side
    second: Side
    across_warps: bool

    @property
    def needed(self) -> str:
        if self.kind is HazardKind.IN_FLIGHT_COPY:
            return "cp.async.wait_group by the copying thread, then a barrier, must come between them"
        if self.across_warps:
            return "a __syncthreads() must come between them"
        return "__syncwarp() or a barrier must come between them"

    def __str__(self) -> str:
        return (
            f"{self.kind} race on shared address {self.address:#x} of block {self.block}: "
            f"{self.first}, then {self.second}; {self.needed}"
        )


class HazardError(SimulationError):
    """A kernel whose result depends on the order of its threads."""

    def __init__(self, message: str, hint: str, hazards: tuple[Hazard, ...]) -> None:
        super().__init__(message, hint)
        self.hazards = hazards


class HazardLog:
    """Distinct hazards of a launch: one for each pair of source lines, preferably between two warps."""

    def __init__(self) -> None:
        self._found: dict[tuple[HazardKind, str, str], Hazard] = {}
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What is legal but worth knowing, each once."""
        return tuple(self._notes)

    def note(self, text: str) -> None:
        self._notes[text] = None

    @property
    def found(self) -> tuple[Hazard, ...]:
        return tuple(self._found.values())

    def known(self, kind: HazardKind, first: str, second: str, across_warps: bool) -> bool:
        """Whether another hazard of these lines would add nothing."""
        found = self._found.get((kind, first, second))
        if found is None:
            return len(self._found) >= _MOST_REPORTED
        return found.across_warps or not across_warps

    def add(self, hazard: Hazard) -> None:
        self._found[hazard.kind, hazard.first.where, hazard.second.where] = hazard
