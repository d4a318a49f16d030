"""Which shared loads ptxas fuses into wider ones.

Scalar loads from one base register at neighbouring offsets, in one stretch of straight-line code, become one access of
8 or 16 bytes where the addresses are aligned for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gemmsmith.sim.lowering.operation import Lowered, Operation, Slot
from gemmsmith.sim.lowering.traits import Access, Bundling, Effect, Space

_WIDEST = 16


@dataclass(frozen=True)
class Load:
    """A shared load that may be fused: where it is in the program, its offset from the base, its width."""

    position: int
    offset: int
    width: int


@dataclass(frozen=True)
class Fusion:
    """Loads of one width from one base, by offset."""

    members: tuple[Load, ...]

    def widths(self, alignment: int) -> dict[int, int]:
        """The width at which each load is served, by position, for a base of this alignment.

        The first of several loads that become one gets the wide access; the others get 0.
        """
        result: dict[int, int] = {}
        members, each = self.members, self.members[0].width
        i = 0
        while i < len(members):
            start = members[i].offset
            run = 1
            while i + run < len(members) and members[i + run].offset == start + run * each:
                run += 1
            width = next(
                (w for w in (16, 8) if w > each and w <= alignment and start % w == 0 and run * each >= w), each
            )
            taken = members[i : i + width // each]
            result.update({member.position: width if n == 0 else 0 for n, member in enumerate(taken)})
            i += width // each
        return result


def find_fusions(lowered: Lowered) -> dict[int, Fusion]:
    """The fusion that each load belongs to, by position; a load that has no neighbour is left out."""
    leaders = set(lowered.labels.values())
    found: dict[int, Fusion] = {}
    stretch: dict[tuple[Any, ...], list[Load]] = {}

    def close(groups: Iterable[list[Load]]) -> None:
        for group in groups:
            if len(group) > 1:
                fusion = Fusion(tuple(sorted(group, key=lambda load: load.offset)))
                found.update({load.position: fusion for load in group})

    for operation in lowered.operations:
        access = operation.access
        if operation.position in leaders or _ends_a_stretch(operation):
            close(stretch.values())
            stretch = {}
        if access is not None and operation.guard is None and _can_be_fused(access):
            (pointer,) = operation.pointers
            base = pointer.base.cell if isinstance(pointer.base, Slot) else ()
            load = Load(operation.position, pointer.offset, access.width)
            stretch.setdefault((base, access.width), []).append(load)
    close(stretch.values())
    return found


def _ends_a_stretch(operation: Operation[Any]) -> bool:
    if operation.traits.bundling is Bundling.BOUNDARY:
        return True
    access = operation.access
    return access is not None and access.space is Space.SHARED and access.effect is Effect.WRITE


def _can_be_fused(access: Access) -> bool:
    return access.space is Space.SHARED and access.effect is Effect.READ and access.width < _WIDEST
