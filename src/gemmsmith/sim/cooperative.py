"""Cooperative launches: all blocks run together, and meet at the grid's barrier.

``grid.sync()`` is code of cooperative groups: an atomic add to a counter in a workspace, and a loop that reads it.
The machine runs these instructions like any others, and the race detector sees a release and an acquire.
"""

from __future__ import annotations

from gemmsmith.errors import LaunchError
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.sim.memory import GlobalMemory

_WORKSPACE_BYTES = 64  # the size of the workspace, the counter, and what larger groups of grids would need


def cooperative_workspace(memory: GlobalMemory, geometry: Geometry, at_once: int) -> int:
    """The address of a new workspace; raises if the blocks cannot all run together here."""
    if geometry.blocks > at_once:
        raise LaunchError(
            f"a cooperative launch of {geometry.blocks:,} blocks of {geometry.threads} threads: the simulator can run "
            f"{at_once:,} of them together",
            "launch fewer blocks; a loop over the grid's stride covers the rest",
        )
    address = memory.allocate(_WORKSPACE_BYTES)
    memory.label(address, "the workspace of grid.sync()")
    return address
