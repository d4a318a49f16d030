"""Which products make a kernel decide as it did in no trial before: its decisions one by one, and in pairs.

    PTX ─► what each decision meets at hundreds of sizes (decision_walk.py) ─► the fewest, cheapest products that meet
    every outcome that occurs, and every pair of outcomes

Most mistakes hang on one condition, or on two at once: a last group of one row of tiles, a slice that is rounded from
nine k-tiles on, a vector path where N is a multiple of four and K is none. No list of usual shapes has them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.kernel.geometry import Dim3, Geometry
from gemmsmith.problem import Problem
from gemmsmith.sim.ptx.syntax import Entry, Immediate
from gemmsmith.verify.code.decision_walk import NEXT_TO, DecisionWalk
from gemmsmith.verify.code.edges import Coverage, Covering
from gemmsmith.verify.code.path_probe import PathProbe, most_steps
from gemmsmith.verify.code.thread_walk import Thread
from gemmsmith.verify.trials.candidate_sizes import CandidateSizes
from gemmsmith.verify.trials.trial_subject import Subject

Array = NDArray[Any]
_CANDIDATES = 700
_MOST_STEPS = 600_000  # of all walks: about half a second
_MOST_COLUMNS = 40  # outcomes that are paired: 780 pairs
_ALONE, _OWN = 6.0, 2.0  # weights of an outcome that was never met, and of one of a thread; a pair has 1
_LEAST_GAIN = 2.0
_MOST = 60  # products in all
_LAUNCH = 2**17  # multiply-adds that take as long as a launch
_A_CORNER = 0.5  # how often the block between is the first of the last row; else the last of the first
_LONG = 16  # k-tiles: fewer blocks of such a product are followed


def coverage(entry: Entry, subject: Subject, seen: Sequence[Problem], usual: Sequence[Problem]) -> Coverage:
    """Products, of ``usual`` and others, that add outcomes to those of ``seen``; ``entry``: the kernel as compiled."""
    walk = DecisionWalk(entry)
    probe = PathProbe(subject.spec, subject.config, entry, walk, subject.base)
    constants = sorted({o.bits for each in walk.decisions for o in each.operands
                        if isinstance(o, Immediate) and o.kind == "int"})  # fmt: skip
    sizes = CandidateSizes(subject, constants, probe.constants)
    problems, rows, of, left = list[Problem](), list[list[int]](), list[int](), _MOST_STEPS
    near = dict.fromkeys((*sizes.around_constants(), *sizes.around_areas()))
    for problem in dict.fromkeys((*seen, *usual, *near, *sizes.drawn(_CANDIDATES))):
        launches = probe.launches(problem) if left > 0 else []
        for geometry, arguments in launches:
            for thread in _sampled(geometry, problem in near or problem.k > _LONG * subject.depth):
                met, steps = walk.outcomes(thread, arguments, most_steps(problem))
                left -= steps
                rows.append(met)
                of.append(len(problems))
        problems += [problem] if launches else []
    if not problems or not rows[0]:
        return Coverage()
    table = _Table(np.array(rows), np.array(of), len(problems), walk.shared_columns)
    known = np.array([problem in set(seen) for problem in problems])
    cost = np.array([_LAUNCH + sizes.work(problem) for problem in problems])
    found = []
    for number, column in table.chosen(known, cost):
        each = walk.where(column)
        found.append(Covering(problems[number], each.where if each else "a loop", each.text if each else ""))
    return Coverage(tuple(found), _unreached(walk, np.bitwise_or.reduce(np.array(rows), axis=0)))


def _unreached(walk: DecisionWalk, met: Array) -> tuple[str, ...]:
    """Lines of the source all of whose branches and selections have gone one way, and were come to."""
    ways: dict[str, set[int]] = {}
    for each, outcome in zip(walk.decisions, met, strict=False):
        if (each.opcode == "selp" or each.guard is not None) and each.line:
            ways.setdefault(each.where, set()).add(int(outcome))
    return tuple(where for where, outcomes in ways.items() if outcomes <= {1, 2})


class _Table:
    """Which outcomes, alone and in pairs, each product has."""

    def __init__(self, rows: Array, of: Array, count: int, shared: int) -> None:
        self.of, self.count = of, count
        self.features: list[Array] = []
        self.weights: list[float] = []
        self.columns: list[int] = []
        paired: dict[bytes, int] = {}
        known = set[bytes]()
        for column in range(rows.shape[1]):
            labels, coarse = _labels(rows[:, column]), _labels(rows[:, column] & ~NEXT_TO)
            if labels.max() == 0 or labels.tobytes() in known:
                continue
            known.add(labels.tobytes())
            if coarse.max() > 0:
                paired.setdefault(coarse.tobytes(), column)
            self._add(labels, _ALONE if column < shared else _OWN, column)
        joint = [(np.frombuffer(key, np.int64), column) for key, column in paired.items() if column < shared]
        for (one, first), (other, _) in combinations(joint[:_MOST_COLUMNS], 2):
            self._add(_labels(one * (int(other.max()) + 1) + other), 1.0, first)

    def _add(self, labels: Array, weight: float, column: int) -> None:
        has = np.zeros((self.count, int(labels.max()) + 1), np.float32)
        has[self.of, labels] = 1.0
        self.features.append(has)
        self.weights += [weight] * has.shape[1]
        self.columns += [column] * has.shape[1]

    def chosen(self, known: Array, cost: Array) -> Iterator[tuple[int, int]]:
        """Products in the order of what they add for their cost, each with the column of its weightiest outcome."""
        if not self.features:
            return
        features, weights = np.concatenate(self.features, axis=1), np.array(self.weights, np.float32)
        columns = np.array(self.columns)
        rest = ~features[known].any(axis=0)
        features, weights, columns = features[:, rest], weights[rest], columns[rest]
        for _ in range(_MOST):
            # What no trial has met comes first, whatever it costs; pairs where they are cheap.
            alone = features @ np.where(weights == _ALONE, weights, 0)
            gain = features @ weights
            best = int(np.argmax(alone / cost if alone.any() else gain / cost))
            if gain[best] < _LEAST_GAIN:
                return
            own = features[best] * weights
            yield best, columns[int(np.argmax(own))]
            rest = features[best] == 0
            features, weights, columns = features[:, rest], weights[rest], columns[rest]


def _labels(values: Array) -> Array:
    """The values by number, in the order in which they occur first."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.empty(len(first), np.int64)
    order[np.argsort(first)] = np.arange(len(first))
    return order[inverse.reshape(-1)].astype(np.int64)


def _sampled(geometry: Geometry, few: bool) -> Iterator[Thread]:
    """Threads of the first block and the last, of another corner of the grid and of one between."""
    x, y, z = geometry.grid
    blocks: list[Dim3] = [(0, 0, 0), (x - 1, y - 1, z - 1)]
    if not few:
        rng = np.random.Generator(np.random.PCG64(x + 7 * y + 31 * z))
        other = (0, y - 1, 0) if rng.random() < _A_CORNER else (x - 1, 0, z - 1)
        between = (int(rng.integers(x)), int(rng.integers(y)), int(rng.integers(z)))
        blocks += [other, between]
    blocks = list(dict.fromkeys(blocks))
    last = tuple(extent - 1 for extent in geometry.block)
    for number, block in enumerate(blocks):
        yield Thread(geometry, block, (0, 0, 0) if number % 2 == 0 else (last[0], last[1], last[2]))
