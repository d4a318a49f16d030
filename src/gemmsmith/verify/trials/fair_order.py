"""The order of trials where seconds are short: one of each group in turn, so that no group takes them all."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, zip_longest

from gemmsmith.verify.trials.trial import DECISIONS, EDGES, TILES, Trial

_DECISIONS = 6  # in each turn


def fair_order(trials: Iterable[Trial]) -> list[Trial]:
    """The trials in turns: in each, those that add most to the decisions that were seen, one edge of the kernel's own
    code along each extent, since they are seen in it, then one of every other group, and of the orders of many tiles
    last, since they cost most. Within a group the order stays."""
    edges: dict[str, list[Trial]] = {"K": []}
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.group == EDGES:
            edges.setdefault(trial.label.partition(" = ")[0], []).append(trial)
        else:
            groups.setdefault(trial.group, []).append(trial)
    tiles, decisions = groups.pop(TILES, []), groups.pop(DECISIONS, [])
    turns = zip_longest(*edges.values(), *groups.values(), tiles)
    first = (decisions[at : at + _DECISIONS] for at in range(0, len(decisions), _DECISIONS))
    both = zip_longest(first, turns, fillvalue=())
    return [trial for turn in both for trial in chain.from_iterable(turn) if trial is not None]


def too_slow(ran: int, seconds: float, waiting: int, left: float) -> bool:
    """Whether as many trials as wait will not fit into the seconds that are left, after ``ran`` took ``seconds``."""
    return ran > 0 and waiting * seconds / ran > left
