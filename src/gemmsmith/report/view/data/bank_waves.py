"""Which lanes shared memory serves in which wavefront: the rules of ``sim/wavefronts.py``, one wavefront at a time."""

from __future__ import annotations

from collections.abc import Sequence

from gemmsmith.sim.wavefronts import BANKS, LINE

WORD = 4
Wave = list[list[int]]  # [lane, word, word, …] of each lane that is served


def bank_waves(lanes: Sequence[int], width: int, *, load: bool, matrix: bool) -> list[Wave]:
    """The wavefronts of one warp's access. ``lanes`` are addresses, −1 where a lane is inactive."""
    found: list[Wave] = []
    for group in _groups(lanes, width, load=load, matrix=matrix):
        found += _waves(group, lanes, width)
    return found


def _groups(lanes: Sequence[int], width: int, *, load: bool, matrix: bool) -> list[range]:
    if matrix:
        return [range(first, first + 8) for first in range(0, 32, 8)]
    size = 32 if width <= WORD else LINE // width
    if load and width > WORD and (_pairs_agree(lanes, 1) or _pairs_agree(lanes, 2)):
        size *= 2
    return [range(first, first + size) for first in range(0, 32, size)]


def _pairs_agree(lanes: Sequence[int], distance: int) -> bool:
    return all(lanes[n] == lanes[n ^ distance] or lanes[n] < 0 or lanes[n ^ distance] < 0 for n in range(32))


def _waves(group: range, lanes: Sequence[int], width: int) -> list[Wave]:
    """A bank serves its different words one after the other."""
    order: dict[int, list[int]] = {}
    for lane in group:
        for word in _words(lanes[lane], width):
            words = order.setdefault(word % BANKS, [])
            if word not in words:
                words.append(word)
    count = max(map(len, order.values()), default=0)
    found: list[Wave] = []
    for n in range(count):
        now = {words[n] for words in order.values() if n < len(words)}
        served = [[lane, *here] for lane in group if (here := [w for w in _words(lanes[lane], width) if w in now])]
        found.append(served)
    return found


def _words(address: int, width: int) -> range:
    return range(0) if address < 0 else range(address // WORD, -(-(address + width) // WORD))
