"""Fit the networks that correct the cost model (choose/networks.py) to recorded times; fit_choice.py calls this.

Of a shape mostly the order of its configurations counts: errors are taken from their weighted mean, which itself counts
a tenth, and fast configurations weigh most. Weights decay, or shapes would be learnt by heart; how much was chosen by
cross-validation on the fitting shapes (docs/log/2026-11-18-networks-beside-trees.md).

Times of earlier kernels have an input of their own: what they err by is learnt, and left out of what is shipped. All
networks are fitted side by side, with NumPy or, in seconds, with CuPy on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.choose.columns import Column
from gemmsmith.choose.networks import LEAK, Matrix, Network, Networks

HIDDEN, NETWORKS = (96, 64), 12
EPOCHS, SHAPES_AT_ONCE = 120, 64
RATE, DECAY = 3e-3, 1.0
MOMENTUM, SECOND_MOMENTUM, TINY = 0.9, 0.999, 1e-8  # of Adam
LEVEL = 0.1  # how much the mean error of a shape counts, of its configurations' errors from it
LARGEST = 0.05  # errors above count as if they were so large: some times are far off, and the others matter more
FIRST_ANSWER = 0.3  # how large answers are before the first step, of what is usual
SEED = 0


@dataclass(frozen=True)
class Rows:
    """Configurations of all shapes, one after another. ``of`` is the number of a row's shape, ``wanted`` the correction
    of the logarithm of time, ``weight`` how much the row counts; ``earlier`` is 1 for times of earlier kernels."""

    inputs: tuple[str, ...]
    table: Column
    wanted: Column
    weight: Column
    of: NDArray[np.int64]
    earlier: Column


def fitted_networks(rows: Rows, count: int = NETWORKS, arrays: Any = np) -> Networks:
    """``arrays`` is the module that computes: numpy, or cupy."""
    means, deviations = rows.table.mean(axis=0), rows.table.std(axis=0)
    empty = Networks(rows.inputs, means, np.where(deviations > 1e-6, deviations, 1.0), ())
    now, later = -rows.earlier.mean(), max(float(rows.earlier.std()), 1e-6)
    scaled = np.column_stack([empty.scaled(rows.table), (rows.earlier + now) / later]).astype(np.float32)
    values = [_on_host(each) for each in _fitted(rows, scaled, count, arrays)]
    values[1] = values[1] + values[0][:, -1:] * np.float32(now / later)  # of the current kernels
    values[0] = values[0][:, :-1]
    networks = (Network(tuple((weights[i], biases[i, 0]) for weights, biases in zip(values[::2], values[1::2],
                                                                                    strict=True)))
                for i in range(count))  # fmt: skip
    return Networks(empty.inputs, means, empty.deviations, tuple(networks))


def _on_host(values: Any) -> Any:
    return values.get() if hasattr(values, "get") else values


def _fitted(rows: Rows, scaled: Matrix, count: int, arrays: Any) -> list[Any]:
    """Weights and biases of all networks, layer by layer: by Adam with decoupled decay, and a rate that falls to
    zero."""
    dice = np.random.default_rng(SEED)
    values: list[Any] = []
    for before, after in pairwise((scaled.shape[1], *HIDDEN, 1)):
        usual = np.sqrt(2 / before) * (FIRST_ANSWER if after == 1 else 1.0)
        weights = dice.normal(0, usual, (count, before, after)).astype(np.float32)
        values += [arrays.asarray(weights), arrays.zeros((count, 1, after), np.float32)]
    first, second = ([arrays.zeros_like(each) for each in values] for _ in range(2))
    order = np.argsort(rows.of, kind="stable")
    shapes = np.split(order, np.flatnonzero(np.diff(rows.of[order])) + 1)
    table, wanted, weight = (arrays.asarray(each, np.float32) for each in (scaled, rows.wanted, rows.weight))
    steps, step = EPOCHS * -(-len(shapes) // SHAPES_AT_ONCE), 0
    for _ in range(EPOCHS):
        turn = dice.permutation(len(shapes))
        for begin in range(0, len(shapes), SHAPES_AT_ONCE):
            some = [shapes[i] for i in turn[begin : begin + SHAPES_AT_ONCE]]
            index = arrays.asarray(np.concatenate(some))
            step += 1
            rate = np.float32(RATE * 0.5 * (1 + np.cos(np.pi * step / steps)))
            slopes = _slopes(arrays, table[index], wanted[index], weight[index], arrays.asarray(_members(some)), values)
            for i, slope in enumerate(slopes):
                first[i] = np.float32(MOMENTUM) * first[i] + np.float32(1 - MOMENTUM) * slope
                second[i] = np.float32(SECOND_MOMENTUM) * second[i] + np.float32(1 - SECOND_MOMENTUM) * slope * slope
                along = first[i] / np.float32(1 - MOMENTUM**step)
                along = along / (arrays.sqrt(second[i] / np.float32(1 - SECOND_MOMENTUM**step)) + np.float32(TINY))
                decay = np.float32(DECAY if i % 2 == 0 else 0.0)
                values[i] = values[i] - rate * (along + decay * values[i])
    return values


def _members(some: Sequence[NDArray[np.int64]]) -> Matrix:
    """1 where a row, numbered along the second axis, is of a shape."""
    lengths = [len(each) for each in some]
    found = np.zeros((len(some), sum(lengths)), np.float32)
    found[np.repeat(np.arange(len(some)), lengths), np.arange(sum(lengths))] = 1
    return found


def _slopes(arrays: Any, table: Any, wanted: Any, weight: Any, members: Any, values: Sequence[Any]) -> list[Any]:
    """Of half the weighted mean square error of some shapes (of large errors, of their size), by every weight and bias
    of every network."""
    outputs, leak = [arrays.broadcast_to(table, (len(values[0]), *table.shape))], np.float32(LEAK)
    for i in range(0, len(values), 2):
        found = arrays.matmul(outputs[-1], values[i]) + values[i + 1]
        outputs.append(found if i == len(values) - 2 else arrays.where(found > 0, found, leak * found))
    error = outputs[-1][:, :, 0] - wanted
    of_shapes = ((weight * error) @ members.T) / (members @ weight)
    error = error - np.float32(1 - LEVEL) * (of_shapes @ members)
    error = arrays.clip(error, np.float32(-LARGEST), np.float32(LARGEST))
    slope = (weight * error / np.float32(len(members)))[:, :, None]
    slopes: list[Any] = []
    for i in range(len(values) - 2, -1, -2):
        inside = outputs[i // 2]
        slopes = [arrays.matmul(inside.transpose(0, 2, 1), slope), slope.sum(axis=1, keepdims=True), *slopes]
        if i:
            slope = arrays.matmul(slope, values[i].transpose(0, 2, 1))
            slope = slope * arrays.where(inside > 0, np.float32(1), leak)
    return slopes
