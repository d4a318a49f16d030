"""Lines of L1: what is looked up at once gives what looking at every line gives, before and after lines have gone."""

from __future__ import annotations

import random

import pytest

from gemmsmith.sim.timing.l1_lines import L1Lines, Lines


class OneByOne:
    """Least recently used first, by the order of a dictionary."""

    def __init__(self, room: int) -> None:
        self.room, self.lines = room, dict[int, tuple[int, float]]()

    def access(self, lines: Lines, arrival: float, fetched: list[tuple[int, int]]) -> float:
        latest = 0.0
        for line, mask in lines:
            sectors, ready = self.lines.pop(line, (0, 0.0))
            if not sectors and len(self.lines) >= self.room:
                del self.lines[next(iter(self.lines))]
            if missing := mask & ~sectors:
                fetched.append((line, missing))
                sectors, ready = sectors | missing, max(ready, arrival)
            self.lines[line] = sectors, ready
            latest = max(latest, ready)
        return latest


def accesses(count: int, lines: int, seed: int) -> list[Lines]:
    """Some of many lines, some of few; each object comes several times, as those of several warps do."""
    rng = random.Random(seed)
    kinds = []
    for _ in range(count):
        first, size = rng.randrange(lines), rng.choice((1, 3, 8, 12))
        kinds.append(tuple((first + n, rng.choice((1, 2, 5, 15))) for n in range(size)))
    return [rng.choice(kinds) for _ in range(6 * count)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("room", [4, 20, 60, 1000])  # never full, full at once, full after a while
def test_the_same_fetches_in_the_same_order(room: int, seed: int) -> None:
    fast, plain = L1Lines(room), OneByOne(room)
    whole = 0
    for time, lines in enumerate(accesses(25, 70, seed)):
        fetched: list[tuple[int, int]] = []
        expected: list[tuple[int, int]] = []

        def fetch(line: int, missing: int, time: int = time, into: list[tuple[int, int]] = fetched) -> float:
            into.append((line, missing))
            return time + 0.5

        found = fast.ready(lines)
        whole += found >= 0
        if found < 0:
            found = fast.access(lines, fetch, keep=True)
        assert found == plain.access(lines, time + 0.5, expected)
        assert fetched == expected
    assert whole > 0 or room < 1000


def test_lines_that_do_not_live_on_are_not_remembered() -> None:
    lines = tuple((n, 15) for n in range(8))
    l1 = L1Lines(100)
    for _ in range(2):
        l1.access(lines, lambda *_: 1.0, keep=False)
    assert l1.ready(lines) < 0
