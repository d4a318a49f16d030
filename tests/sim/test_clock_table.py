"""A table of clocks knows what each of them knows."""

from __future__ import annotations

import numpy as np
import pytest

from gemmsmith.sim.races.clock_table import ClockTable
from gemmsmith.sim.races.clocks import Clock
from gemmsmith.sim.wave import WARP
from gemmsmith.sim.work import Work

_BLOCKS, _WARPS = 3, 2  # of the grid, and of a block


@pytest.mark.parametrize("seed", range(4))
def test_a_table_says_what_each_clock_says(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def clock() -> Clock:
        known = rng.permutation(_BLOCKS * _WARPS)[: int(rng.integers(4))].tolist()
        return Clock(rng.integers(0, 3, _BLOCKS), {warp: rng.integers(0, 4, WARP) for warp in known})

    clocks, count = [clock() for _ in range(5)], 200
    held, block, epoch = rng.integers(5, size=count), rng.integers(_BLOCKS, size=count), rng.integers(3, size=count)
    thread, own = rng.integers(_WARPS * WARP, size=count), rng.integers(4, size=count)
    warp = block * _WARPS + thread // WARP

    def knows(n: int) -> bool:
        clock = clocks[held[n]]
        counts = clock.warps.get(int(warp[n]))
        return bool(clock.epochs[block[n]] > epoch[n] or (counts is not None and counts[thread[n] % WARP] > own[n]))

    table = ClockTable([each.epochs for each in clocks], [each.warps for each in clocks], _BLOCKS * _WARPS)
    found = table.knows(held, block, epoch, thread, warp, own)
    assert found.tolist() == [knows(n) for n in range(count)]
    assert 0 < found.sum() < count


def test_a_search_for_races_counts_as_work() -> None:
    work = Work()
    work.add_search(1_000_000, 100)
    work.add_acquire()
    assert 0.5 < work.seconds < 1.5
