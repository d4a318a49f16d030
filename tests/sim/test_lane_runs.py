"""Registers of lanes that are equal runs: read and written as by the lanes' numbers."""

from __future__ import annotations

import numpy as np
import pytest

from gemmsmith.sim.races.lane_runs import RunsOfLanes, runs_of

_THREADS, _BLOCKS = 384, 20
_TOTAL = _THREADS * _BLOCKS


def _of_blocks(blocks: list[int], first: int, last: int) -> np.ndarray:
    return np.concatenate([np.arange(b * _THREADS + first, b * _THREADS + last) for b in blocks])


_SETS = {
    "consumers of all blocks": _of_blocks(list(range(_BLOCKS)), 128, 384),
    "consumers of some blocks": _of_blocks([0, 1, 3, 4, 7, 8, 19], 128, 384),
    "half of every warp": np.flatnonzero(np.arange(_TOTAL) % 32 < 16),
    "the other half of some": np.flatnonzero(np.arange(_TOTAL) % 32 >= 16)[160:-160],
    "every fourth lane": np.flatnonzero(np.arange(_TOTAL) % 4 == 0),
    "one thread of every block": _of_blocks(list(range(_BLOCKS)), 7, 8),
    "the last warps": _of_blocks([2, 5, 6, 11, 12, 13, 14, 15, 16, 17, 18], 288, 384),
}


@pytest.mark.parametrize("name", _SETS)
@pytest.mark.parametrize("rows", [3, slice(2, 5), np.array([7, 1, 4])], ids=["one", "slice", "several"])
def test_registers_are_those_of_the_lanes(name: str, rows: object) -> None:
    lanes = _SETS[name]
    runs = runs_of(lanes, _TOTAL, _THREADS)
    assert runs is not None
    table = np.random.default_rng(0).integers(0, 1 << 32, (9, _TOTAL), np.uint32)
    of_rows = table[rows]
    assert np.array_equal(runs.get(table, rows), of_rows[..., lanes])
    written, expected = table.copy(), table.copy()
    values = np.arange(of_rows[..., lanes].size, dtype=np.uint32).reshape(of_rows[..., lanes].shape)
    assert runs.put(written, rows, values)
    at = (rows[:, None], lanes) if isinstance(rows, np.ndarray) else (rows, lanes)
    expected[at] = values
    assert np.array_equal(written, expected)
    assert runs.put(written, rows, np.uint32(5))
    expected[at] = 5
    assert np.array_equal(written, expected)
    assert not runs.put(written, rows, np.zeros(1, np.uint32))  # of another form: the caller writes by numbers


@pytest.mark.parametrize(
    "lanes",
    [
        np.arange(100, 1400),  # consecutive
        np.concatenate([_of_blocks([0, 1, 2], 0, 256), _of_blocks([4, 5, 6], 128, 384)]),  # at two places
        np.concatenate([_of_blocks([0, 1], 0, 256), _of_blocks([3, 4], 0, 128)]),  # of two lengths
        np.delete(_SETS["consumers of all blocks"], 700),
        _of_blocks([0, 1, 3, 4], 7, 8),  # single lanes of some blocks
        np.concatenate([np.arange(b * 768 + 300, b * 768 + 500) for b in range(6)]),  # over the end of a block
    ],
)
def test_other_sets_have_none(lanes: np.ndarray) -> None:
    found = runs_of(lanes, _TOTAL, _THREADS)
    table = np.arange(2 * _TOTAL, dtype=np.uint32).reshape(2, _TOTAL)
    assert found is None or np.array_equal(found.get(table, 1), table[1][lanes])
    assert found is None or found.period % _THREADS == 0


def test_a_set_is_looked_at_once_and_few_are_kept() -> None:
    known = RunsOfLanes(_TOTAL, _THREADS)
    lanes = _SETS["consumers of all blocks"]
    first = known.of(lanes)
    assert first is not None
    assert known.of(lanes) is first
    others = [lanes.copy() for _ in range(20)]
    assert all(known.of(each) == first for each in others)
    assert len(known._known) < 20


def test_few_lanes_must_come_often() -> None:
    known, lanes = RunsOfLanes(_TOTAL, _THREADS), _SETS["one thread of every block"]
    found = [known.of(lanes) for _ in range(20)]
    assert found[0] is None
    assert found[-1] is not None
    assert found[-1] is found[-2]
