"""A wave: the blocks of a launch that are simulated together, in whole clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.ptx.types import Array

WARP = 32  # lanes of a warp

Size = tuple[int, int, int]


@dataclass(frozen=True)
class Wave:
    """Which blocks run together, by their linear numbers, and the launch they belong to.

    ``workspace`` is the address of the grid's barrier in a cooperative launch, else 0. The blocks of a cluster follow
    one another, in the order of their ranks. ``explicit``: the launch has clusters.
    """

    grid: Size
    block: Size
    blocks: Array
    shared_size: int
    parameters: bytes
    workspace: int = 0
    cluster: Size = (1, 1, 1)
    explicit: bool = False
    registers: int = 0  # of a thread at launch; 0 if not known
    dry: bool = False  # data do not move, and what decides nothing is not computed

    @property
    def cluster_blocks(self) -> int:
        return math.prod(self.cluster)

    @property
    def threads(self) -> int:
        """Threads of one block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def lanes(self) -> int:
        return self.threads * len(self.blocks)


def by_cluster(blocks: Array, grid: Size, cluster: Size) -> Array:
    """All blocks of the clusters that have one of these: cluster after cluster, each in the order of ranks."""
    if math.prod(cluster) == 1:
        return blocks
    at = coordinates(blocks, grid)
    wide = (grid[0] // cluster[0], grid[1] // cluster[1], grid[2] // cluster[2])
    clusters = np.unique(linear(tuple(x // c for x, c in zip(at, cluster, strict=True)), wide))
    ranks = np.arange(math.prod(cluster))
    first, inside = coordinates(clusters[:, None], wide), coordinates(ranks[None], cluster)
    places = tuple(x * c + y for x, c, y in zip(first, cluster, inside, strict=True))
    result: Array = np.asarray(linear(places, grid)).reshape(-1)
    return result


def linear(at: tuple[int | Array, ...], size: tuple[int, ...]) -> int | Array:
    """The linear number of (x, y, z); x is fastest."""
    return at[0] + size[0] * (at[1] + size[1] * at[2])


def triple(linear: int, size: Size) -> Size:
    """(x, y, z) of one linear number."""
    return linear % size[0], linear // size[0] % size[1], linear // (size[0] * size[1])


def coordinates(linear: int | Array, size: Size) -> tuple[int | Array, int | Array, int | Array]:
    """(x, y, z) of a linear number; x is fastest."""
    return linear % size[0], linear // size[0] % size[1], linear // (size[0] * size[1])
