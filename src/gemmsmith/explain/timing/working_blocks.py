"""Blocks of a grid that do less than others, or nothing: grids with more blocks than tiles.

Kernels that go through C in bands launch whole bands, 16 columns of tiles for example, and blocks beyond the last
column return. They take a place for a moment and do nothing. Others count the rows of their blocks wrongly, and launch
four times as many as there are tiles: the rest read one operand, and multiply, and store nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gemmsmith.errors import SimulationError
from gemmsmith.explain.timing.sampled import Subject
from gemmsmith.problem import Problem
from gemmsmith.sim.ptx.types import Array

_AT_ONCE = 0.1  # of the steps of the longest block: one that takes less has no tile
_LESS = 0.9  # of the steps of others: blocks that take less are another kind
_MANY = 0.1  # of all blocks: fewer are the edge of C, and count as others do
_MOST_KINDS = 3
_MOST = 1024  # blocks that are executed; of larger grids so many, spread at random
_PROBES = 5  # blocks, spread over the grid, that tell whether it has several kinds
_SEVERAL = 2  # of them: the last one alone may be the edge of C


class BlockKind(NamedTuple):
    """Blocks that take about as many steps: how many there are, and the numbers of those that are known.

    ``row``: some of them that an SM gets one after the other, where the others are known by a sample.
    """

    blocks: int
    numbers: Sequence[int]
    row: Sequence[int] = ()

    def on_one_sm(self, sms: int, resident: int) -> list[int]:
        """Blocks that stand for those that an SM holds at a time."""
        mine = list(self.row or self.numbers[::sms])[:resident]
        if len(mine) < resident:
            mine = [self.numbers[n * len(self.numbers) // resident] for n in range(resident)]
        return mine


def kinds_of_blocks(subject: Subject, problem: Problem, sms: int) -> list[BlockKind]:
    """The kinds of blocks that work, those with most to do first; empty if all are alike.

    ``problem``: with a short K. Of a grid with blocks that do less the last one does. Where that block cannot be
    executed, nothing is known about it.
    """
    blocks = subject.launch.geometry.blocks
    if blocks < 2:
        return []
    probes = sorted({*(blocks * n // (_PROBES - 1) for n in range(_PROBES - 1)), blocks - 1})
    try:
        steps = subject.steps(problem, probes)
    except SimulationError:
        return []
    less = steps <= _LESS * steps[0]
    if not less[-1] or (steps[-1] > _AT_ONCE * steps[0] and less.sum() < _SEVERAL):
        return []
    chosen = np.arange(blocks)
    if blocks > _MOST:  # one at random of each run of blocks, since kinds are often runs
        starts = np.arange(_MOST + 1) * blocks // _MOST
        chosen = np.random.default_rng(0).integers(starts[:-1], starts[1:])
    steps = subject.steps(problem, chosen.tolist())
    limits = _limits(steps)
    found = []
    for least, below in zip(limits, [np.inf, *limits], strict=False):
        mine = (steps >= least) & (steps < below)
        numbers = chosen[mine].tolist()
        row: list[int] = []
        if blocks > _MOST:
            row = list(range(numbers[len(numbers) // 2], blocks, sms))[: max(1, subject.held.blocks_per_sm)]
            taken = subject.steps(problem, row)
            row = row if bool(((taken >= least) & (taken < below)).all()) else []
        found.append(BlockKind(max(1, round(blocks * float(mine.mean()))), numbers, row))
    return found


def _limits(steps: Array) -> list[float]:
    """From how many steps on a block is of each kind, the first kind first. All that have a tile are of some kind."""
    some = float(np.nextafter(_AT_ONCE * steps.max(), np.inf))
    working = left = steps[steps >= some]
    limits: list[float] = []
    while left.size and len(limits) < _MOST_KINDS:
        least = _LESS * float(left.max())
        if int((left >= least).sum()) >= _MANY * working.size:
            limits.append(least)
        left = left[left < least]
    return [*limits[:-1], some]
