"""Blocks of a grid that have no tile and end at once: grids that are rounded up along an axis.

Kernels that go through C in bands launch whole bands, 16 columns of tiles for example, and blocks beyond the last
column return. They take a place for a moment and do nothing.
"""

from __future__ import annotations

import numpy as np

from gemmsmith.errors import SimulationError
from gemmsmith.explain.timing.sampled import Subject
from gemmsmith.problem import Problem

_AT_ONCE = 0.1  # of the steps of the longest block: one that takes less has no tile
_MOST = 1024  # blocks that are executed; of larger grids, so many that are taken at random


def working_blocks(subject: Subject, problem: Problem) -> tuple[int, list[int]] | None:
    """How many blocks have a tile, and the numbers of those that are known; None if all have one.

    ``problem``: with a short K. A grid that is rounded up has none for its last block. Where that block cannot be
    executed, nothing is known about it.
    """
    blocks = subject.launch.geometry.blocks
    if blocks < 2:
        return None
    try:
        first, last = (int(steps) for steps in subject.steps(problem, [0, blocks - 1]))
    except SimulationError:
        return None
    if last > _AT_ONCE * first:
        return None
    chosen = np.arange(blocks)
    if blocks > _MOST:
        chosen = np.sort(np.random.default_rng(0).choice(blocks, _MOST, replace=False))
    steps = subject.steps(problem, [int(block) for block in chosen])
    working = chosen[steps > _AT_ONCE * steps.max()]
    return max(1, round(blocks * working.size / chosen.size)), [int(block) for block in working]
