"""Faults of an access to any memory of the simulator, and of a lane.

``faults.py`` turns them into messages with instruction, source line, block, thread and address.
"""

from __future__ import annotations

from gemmsmith.sim.lowering.traits import Space

ASSERTION_FAILED = "assertion failed"  # how the detail of a failing assert begins


class AccessFault(Exception):  # noqa: N818 - the usual word for it
    """An access that a GPU would fault on, or that reads undefined data.

    ``position`` counts lanes in the order of the access, ``address`` is within ``space``.
    """

    def __init__(self, kind: str, position: int, address: int, detail: str, space: Space = Space.GENERIC) -> None:
        super().__init__(kind)
        self.kind, self.position, self.address, self.detail, self.space = kind, position, address, detail, space


class MixedSpaces(AccessFault):
    """Lanes of one instruction reach several memories through generic pointers: no fault if each is served alone."""

    def __init__(self, address: int) -> None:
        super().__init__("mixed-space", 0, address, "one instruction accesses several state spaces by generic address")


class Unwritten(AccessFault):
    """A read of bytes that were never written; ``index`` is their position in all windows."""

    def __init__(self, position: int, address: int, index: int, space: Space) -> None:
        super().__init__("uninitialised", position, address, f"no thread has written these {space} bytes", space)
        self.index = index


class ArrayFault(AccessFault):
    """An access by ``lane`` to an array that ``operation``, one of a bundle, does not mean."""

    def __init__(self, operation: object, lane: int, address: int, detail: str) -> None:
        super().__init__("out-of-bounds", 0, address, detail, Space.SHARED)
        self.operation, self.lane = operation, lane


class LaneFault(AccessFault):
    """A fault of a lane that does not come from a memory; ``detail`` is the whole message."""

    def __init__(self, position: int, detail: str) -> None:
        super().__init__("lane", position, 0, detail)
