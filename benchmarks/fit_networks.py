"""Fit the networks that correct the cost model (choose/networks.py) to recorded times; fit_choice.py calls this.

Of a shape mostly the order of its configurations counts: errors are taken from their weighted mean, which itself counts
a tenth, and fast configurations weigh most. Weights decay, or shapes would be learnt by heart; how much was chosen by
cross-validation on the fitting shapes (docs/log/2026-11-18-networks-beside-trees.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gemmsmith.choose.columns import Column
from gemmsmith.choose.networks import LEAK, Matrix, Network, Networks

HIDDEN, NETWORKS = (96, 64), 6
EPOCHS, SHAPES_AT_ONCE = 120, 64
RATE, DECAY = 3e-3, 0.3
MOMENTUM, SECOND_MOMENTUM, TINY = 0.9, 0.999, 1e-8  # of Adam
LEVEL = 0.1  # how much the mean error of a shape counts, of its configurations' errors from it
FIRST_ANSWER = 0.3  # how large answers are before the first step, of what is usual


@dataclass(frozen=True)
class Rows:
    """Configurations of all shapes, one after another. ``of`` is the number of a row's shape, ``wanted`` the correction
    of the logarithm of time, ``weight`` how much the row counts."""

    inputs: tuple[str, ...]
    table: Column
    wanted: Column
    weight: Column
    of: NDArray[np.int64]


def fitted_networks(rows: Rows, count: int = NETWORKS) -> Networks:
    means, deviations = rows.table.mean(axis=0), rows.table.std(axis=0)
    empty = Networks(rows.inputs, means, np.where(deviations > 1e-6, deviations, 1.0), ())
    scaled = empty.scaled(rows.table)
    return Networks(empty.inputs, means, empty.deviations, tuple(_fitted(rows, scaled, seed) for seed in range(count)))


def _fitted(rows: Rows, scaled: Matrix, seed: int) -> Network:
    """One network, by Adam with decoupled decay, and a rate that falls to zero."""
    dice = np.random.default_rng(seed)
    widths = (scaled.shape[1], *HIDDEN, 1)
    values: list[Matrix] = []
    for before, after in pairwise(widths):
        usual = np.sqrt(2 / before) * (FIRST_ANSWER if after == 1 else 1.0)
        values += [dice.normal(0, usual, (before, after)).astype(np.float32), np.zeros(after, np.float32)]
    first, second = ([np.zeros_like(each) for each in values] for _ in range(2))
    order = np.argsort(rows.of, kind="stable")
    shapes = np.split(order, np.flatnonzero(np.diff(rows.of[order])) + 1)
    steps, step = EPOCHS * -(-len(shapes) // SHAPES_AT_ONCE), 0
    for _ in range(EPOCHS):
        turn = dice.permutation(len(shapes))
        for begin in range(0, len(shapes), SHAPES_AT_ONCE):
            some = [shapes[i] for i in turn[begin : begin + SHAPES_AT_ONCE]]
            step += 1
            rate = np.float32(RATE * 0.5 * (1 + np.cos(np.pi * step / steps)))
            for i, slope in enumerate(_slopes(rows, scaled, values, some)):
                first[i] = MOMENTUM * first[i] + (1 - MOMENTUM) * slope
                second[i] = SECOND_MOMENTUM * second[i] + (1 - SECOND_MOMENTUM) * slope * slope
                along = first[i] / (1 - MOMENTUM**step)
                along = along / (np.sqrt(second[i] / (1 - SECOND_MOMENTUM**step)) + TINY)
                decay = DECAY if values[i].ndim == 2 else 0.0
                values[i] = (values[i] - rate * (along + decay * values[i])).astype(np.float32)
    return Network(tuple(zip(values[::2], values[1::2], strict=True)))


def _slopes(rows: Rows, scaled: Matrix, values: Sequence[Matrix], some: Sequence[NDArray[np.int64]]) -> list[Matrix]:
    """Of half the weighted mean square error of these shapes, by every weight and bias."""
    index, of = np.concatenate(some), np.repeat(np.arange(len(some)), [len(each) for each in some])
    outputs = [scaled[index]]
    for i in range(0, len(values), 2):
        found = outputs[-1] @ values[i] + values[i + 1]
        outputs.append(found if i == len(values) - 2 else np.where(found > 0, found, np.float32(LEAK) * found))
    weight = rows.weight[index]
    error = outputs[-1][:, 0] - rows.wanted[index]
    error = error - (1 - LEVEL) * (np.bincount(of, weight * error) / np.bincount(of, weight))[of]
    slope = (weight * error / len(some)).astype(np.float32)[:, None]
    found = []
    for i in range(len(values) - 2, -1, -2):
        inside = outputs[i // 2]
        found = [inside.T @ slope, slope.sum(axis=0), *found]
        slope = (slope @ values[i].T) * np.where(inside > 0, np.float32(1), np.float32(LEAK))
    return found
