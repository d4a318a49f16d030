"""A wave: the blocks of a launch that are simulated together."""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.sim.types import Array

WARP = 32  # lanes of a warp

Size = tuple[int, int, int]


@dataclass(frozen=True)
class Wave:
    """Which blocks run together, by their linear numbers, and the launch they belong to.

    ``workspace`` is the address of the grid's barrier in a cooperative launch, else 0.
    """

    grid: Size
    block: Size
    blocks: Array
    shared_size: int
    parameters: bytes
    workspace: int = 0

    @property
    def threads(self) -> int:
        """Threads of one block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def lanes(self) -> int:
        return self.threads * len(self.blocks)


def coordinates(linear: int | Array, size: Size) -> tuple[int | Array, int | Array, int | Array]:
    """(x, y, z) of a linear number; x is fastest."""
    return linear % size[0], linear // size[0] % size[1], linear // (size[0] * size[1])
