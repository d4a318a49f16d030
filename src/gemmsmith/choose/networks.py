"""Small neural networks that correct the cost model's predictions, beside the trees (trees.py).

Trees answer in steps. Networks are smooth, so they tell configurations apart that are close to each other; several,
which begin with other random weights, err less together. benchmarks/fit_networks.py fits them to measured times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.choose.columns import Column

FURTHEST = 4.0  # standard deviations from the mean: inputs are cut there
LEAK = 0.1  # slope of a unit below zero

Matrix = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Network:
    """Layers of weights and biases; units between them are leaky rectifiers."""

    layers: tuple[tuple[Matrix, Matrix], ...]

    def __call__(self, scaled: Matrix) -> Matrix:
        """One answer for each row."""
        for number, (weights, biases) in enumerate(self.layers):
            scaled = scaled @ weights + biases
            if number < len(self.layers) - 1:
                scaled = np.where(scaled > 0, scaled, np.float32(LEAK) * scaled)
        return scaled[:, 0]


@dataclass(frozen=True, eq=False)  # compared by identity, as trees are
class Networks:
    """Networks whose mean counts; ``inputs`` are the names of what they are asked about, with mean and deviation."""

    inputs: tuple[str, ...]
    means: Column
    deviations: Column
    networks: tuple[Network, ...]

    def __call__(self, values: Mapping[str, Column]) -> Column:
        """The correction of the logarithm of time for each row of ``values``."""
        scaled = self.scaled(np.stack([values[name] for name in self.inputs], axis=1))
        result: Column = np.mean([network(scaled) for network in self.networks], axis=0, dtype=np.float64)
        return result

    def scaled(self, table: Column) -> Matrix:
        """Inputs as networks take them, a row for each configuration."""
        result: Matrix = np.clip((table - self.means) / self.deviations, -FURTHEST, FURTHEST).astype(np.float32)
        return result


def networks_from_fields(data: Mapping[str, Any]) -> Networks:
    """The reverse of ``network_fields``; raises KeyError, TypeError or ValueError where it is not one."""
    names = tuple(str(name) for name in data["inputs"])
    found = tuple(Network(tuple((_matrix(weights), _matrix(biases)) for weights, biases in layers))
                  for layers in data["networks"])  # fmt: skip
    for network in found:
        widths = [len(names), *(weights.shape[1] for weights, _ in network.layers)]
        shapes = [(weights.shape, biases.shape) for weights, biases in network.layers]
        if widths[-1] != 1 or shapes != [((a, b), (b,)) for a, b in pairwise(widths)]:
            raise ValueError(f"a network of {len(names)} inputs with layers of {shapes}")
    means, deviations = (np.array([float(x) for x in data[name]]) for name in ("means", "deviations"))
    if not found or len(means) != len(names) or len(deviations) != len(names) or not np.all(deviations > 0):
        raise ValueError(f"{len(found)} networks, {len(means)} means and {len(deviations)} deviations")
    return Networks(names, means, deviations, found)


def network_fields(networks: Networks) -> dict[str, Any]:
    """As plain JSON, with four digits."""
    return {
        "inputs": list(networks.inputs), "means": _rounded(networks.means), "deviations": _rounded(networks.deviations),
        "networks": [[[_rounded(weights), _rounded(biases)] for weights, biases in network.layers]
                     for network in networks.networks],
    }  # fmt: skip


def _matrix(rows: Sequence[Any]) -> Matrix:
    found = np.array(rows, np.float32)
    if not np.all(np.isfinite(found)):
        raise ValueError("a weight is not a number")
    return found


def _rounded(values: NDArray[Any]) -> Any:
    if values.ndim > 1:
        return [_rounded(row) for row in values]
    return [float(f"{value:.4g}") for value in values]
