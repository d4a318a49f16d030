"""Two runs of the cycle model whose warps begin with the same instructions: what they have in common runs once.

Blocks of a product do the same for the first k-tiles, whatever K is. So the run for a longer K takes over the state of
the run for a shorter one, from just before a warp of the shorter one does something else.
"""

from __future__ import annotations

from copy import deepcopy

from gemmsmith.sim.timing.outcome import SELECTED, Outcome
from gemmsmith.sim.timing.sm import Sm
from gemmsmith.sim.timing.streams import Stream

# What belongs to the instructions of a run, not to how far it has come; and lists of numbers, copied as such.
_OWN = ("rows", "streams", "model", "memory", "code", "ops", "nexts", "tallies", "sms", "parts", "part_of")
_NUMBERS = ("issues", "held")


def run_both(shorter: Sm, longer: Sm, stalls_of_shorter: bool = True) -> tuple[Outcome, Outcome]:
    """What both runs give, as if each had run alone, with the stalls of both or of the longer one alone."""
    stops = _stops(shorter, longer)
    if stops:
        shorter.advance(stops)
        _take_over(longer, shorter)
        shorter.accounts = shorter.accounts and stalls_of_shorter
    return shorter.run(), longer.run()


def _stops(one: Sm, other: Sm) -> list[int]:
    """For each warp the last instruction that both have, after the same ones; empty if there is nothing to share."""
    if one.model != other.model or one.memory != other.memory or len(one.streams) != len(other.streams):
        return []
    pairs = list(zip(one.streams, other.streams, strict=True))
    if any((a.block, a.warp) != (b.block, b.warp) for a, b in pairs) or one.part_of != other.part_of:
        return []
    stops = [_alike(a, b) - 1 for a, b in pairs]
    return stops if stops and min(stops) > 0 else []


def _alike(one: Stream, other: Stream) -> int:
    """How many instructions two streams begin with that are the same and do the same."""
    low, high = 0, min(len(one.positions), len(other.positions))
    while low < high:  # tuples are compared at once, so halving is faster than going through them
        middle = (low + high + 1) // 2
        part = slice(low, middle)
        if one.positions[part] == other.positions[part] and one.payloads[part] == other.payloads[part]:
            low = middle
        else:
            high = middle - 1
    return low


def _take_over(mine: Sm, other: Sm) -> None:
    """Give ``mine`` the state of ``other``."""
    state = {name: value for name, value in vars(other).items() if name not in (*_OWN, *_NUMBERS)}
    memo = {id(fixed): fixed for fixed in (other.model, other.memory)}
    vars(mine).update(deepcopy(state, memo))
    mine.path.sectors.clear()  # of the other's payloads
    for name in _NUMBERS:
        setattr(mine, name, [list(numbers) for numbers in getattr(other, name)])
    for position, tally in other.tallies.items():
        if position in mine.tallies:
            selected = mine.tallies[position][SELECTED]
            mine.tallies[position][:] = tally
            mine.tallies[position][SELECTED] = selected
