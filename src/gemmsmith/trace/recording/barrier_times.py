"""When a barrier lets warps go on, on their clocks of issue slots: after the last that arrived."""

from __future__ import annotations


class BarrierTimes:
    """The latest arrival at each barrier, and when each phase of an mbarrier was complete."""

    def __init__(self) -> None:
        self._latest: dict[tuple[str, int], int] = {}
        self._complete: dict[tuple[int, int], int] = {}

    def arrived(self, kind: str, number: int, clock: int) -> None:
        key = kind, number
        self._latest[key] = max(self._latest.get(key, 0), clock)

    def release(self, kind: str, number: int, clock: int) -> int:
        """The slot at which somebody who arrived at ``clock`` goes on."""
        return max(self._latest.get((kind, number), 0), clock) + 1

    def completed(self, place: int, phase: int) -> int:
        """A phase of an mbarrier ends with the arrivals so far; returns the slot."""
        found = self._complete[place, phase] = self._latest.get(("mbarrier", place), 0)
        return found

    def phase_release(self, place: int, phase: int, clock: int) -> int:
        """The same for a wait for a phase that is complete."""
        return max(self._complete.get((place, phase), 0), clock) + 1
