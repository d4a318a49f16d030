"""The cost model's constants fitted to measured times, by least squares on the logarithm of time.

A factor of two counts the same at 5 µs and at 5 ms. The constants' logarithms are fitted, so that constants stay
positive. A weak pull towards the start keeps a constant that no measurement depends on. Every shape has the same
weight, however many of its configurations were timed; within a shape, fast configurations weigh most, because only
their order matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from gemmsmith.choose.columns import Column, Shapes, Tiles, shape_of, tiles_of
from gemmsmith.choose.constants import CONSTANTS, Constants
from gemmsmith.choose.cost import predicted_seconds
from gemmsmith.choose.key import ShapeKey, alignment, contiguous
from gemmsmith.choose.waves import Chip

LEAST_SAMPLES = 20
_ROUNDS = 60
_NUDGE = 1e-4  # step of a constant's logarithm for finite differences
_NEAR_THE_FASTEST = 4  # a configuration twice as slow has a sixteenth of the weight
_HOLD = 0.01  # weight of the pull: a constant off by a factor of e costs as much as a model error of 0.1: 0.1 squared

_Residuals = Callable[[Column], Column]


@dataclass(frozen=True)
class Sample:
    """Measured seconds of a configuration on a shape with aligned rows."""

    key: ShapeKey
    config: tuple[tuple[str, int], ...]
    seconds: float


@dataclass(frozen=True)
class Fitted:
    """The constants, the number of measurements, and the weighted root mean square of ln(predicted / measured)."""

    constants: Constants
    samples: int
    error: float


def fit(samples: Sequence[Sample], chip: Chip, start: Constants | None = None) -> Fitted:
    """Constants fitted to ``samples``; the start itself where there are too few."""
    begin = start or Constants()
    if not samples:
        return Fitted(begin, 0, math.nan)
    shapes, tiles = _columns(samples)
    measured = np.log(np.array([sample.seconds for sample in samples], np.float64))
    weights = np.sqrt(_weights(samples))

    def residuals(x: Column) -> Column:
        result: Column = weights * (np.log(predicted_seconds(shapes, tiles, chip, _constants(x))) - measured)
        return result

    best = origin = np.log(np.array([getattr(begin, name) for name in CONSTANTS], np.float64))
    if len(samples) >= LEAST_SAMPLES:
        best = _least_squares(residuals, origin)
    error = float(np.sqrt(np.mean(residuals(best) ** 2)))
    return Fitted(begin if best is origin else _constants(best), len(samples), error)


def _weights(samples: Sequence[Sample]) -> Column:
    """The weight of each sample; their mean is 1."""
    fastest: dict[ShapeKey, float] = {}
    for sample in samples:
        fastest[sample.key] = min(sample.seconds, fastest.get(sample.key, math.inf))
    near = np.array([(fastest[s.key] / s.seconds) ** _NEAR_THE_FASTEST for s in samples], np.float64)
    numbers = {key: i for i, key in enumerate(fastest)}
    shape = np.array([numbers[s.key] for s in samples])
    result: Column = near / np.bincount(shape, near)[shape] * (len(samples) / len(fastest))
    return result


def _least_squares(residuals: _Residuals, origin: Column) -> Column:
    """Levenberg's method: steps between Gauss-Newton and steepest descent, each accepted only if it helps."""

    def cost(x: Column) -> float:
        return float(np.sum(residuals(x) ** 2) + _HOLD * np.sum((x - origin) ** 2))

    x, damping = origin, 1.0
    now = cost(x)
    for _ in range(_ROUNDS):
        r = residuals(x)
        slopes = np.stack([(residuals(x + _NUDGE * unit) - r) / _NUDGE for unit in np.eye(len(x))], axis=1)
        normal = slopes.T @ slopes + _HOLD * np.eye(len(x))
        gradient = slopes.T @ r + _HOLD * (x - origin)
        trial = x - np.linalg.solve(normal + damping * np.diag(np.diag(normal)), gradient)
        then = cost(trial)
        if then < now:
            settled = now - then < 1e-9 * now
            x, now, damping = trial, then, damping / 3
            if settled:
                break
        else:
            damping *= 4
            if damping > 1e9:
                break
    return x


def _columns(samples: Sequence[Sample]) -> tuple[Shapes, Tiles]:
    problems = [contiguous(sample.key) for sample in samples]
    shapes = np.array([astuple(shape_of(problem, alignment(problem))) for problem in problems], np.float64)
    layouts = [sample.key.layout for sample in samples]
    return Shapes(*shapes.T), tiles_of([dict(sample.config) for sample in samples], layouts)


def _constants(x: Column) -> Constants:
    values: dict[str, Any] = dict(zip(CONSTANTS, map(float, np.exp(x)), strict=True))
    return Constants(**values)
