"""The activations that a formula may have, with their parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.verify.oracles.epilogue import activated

Array = NDArray[Any]


@dataclass(frozen=True)
class Function:
    """``said``: what reports call it; ``parameters``: how many numbers it takes besides its argument."""

    said: str
    parameters: int
    apply: Callable[..., Array]


def _relu(x: Array) -> Array:
    return np.maximum(x, 0.0)


def _silu(x: Array) -> Array:
    return np.asarray(activated("silu", x))


def _gelu(x: Array) -> Array:
    return np.asarray(activated("gelu", x))


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(activated("gelu_tanh", x))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def _leaky(x: Array, slope: float) -> Array:
    return np.where(x > 0, x, slope * x)


def _clamp(x: Array, low: float, high: float) -> Array:
    return np.minimum(np.maximum(x, low), high)


FUNCTIONS = {
    "": Function("", 0, lambda x: x),
    "relu": Function("relu", 0, _relu),
    "silu": Function("silu", 0, _silu),
    "gelu": Function("gelu", 0, _gelu),
    "gelu_tanh": Function("gelu_tanh", 0, _gelu_tanh),
    "sigmoid": Function("sigmoid", 0, _sigmoid),
    "tanh": Function("tanh", 0, np.tanh),
    "hardswish": Function("hardswish", 0, lambda x: x * _clamp(x + 3.0, 0.0, 6.0) / 6.0),
    "quick_gelu": Function("quick_gelu", 0, lambda x: x * _sigmoid(1.702 * x)),
    "squared_relu": Function("squared_relu", 0, lambda x: _relu(x) ** 2),
    "softcap": Function("softcap", 1, lambda x, cap: cap * np.tanh(x / cap)),
    "leaky": Function("leaky_relu", 1, _leaky),
    "clamp": Function("clamp", 2, _clamp),
    "elu": Function("elu", 1, lambda x, a: np.where(x > 0, x, a * np.expm1(np.minimum(x, 0.0)))),
}
# Parameters that are usual where no parameter of the kernel is one.
USUAL = (("leaky", ("0.01",)), ("leaky", ("0.1",)), ("leaky", ("0.2",)), ("clamp", ("0", "6")), ("elu", ("1",)))


def applied(name: str, x: Array, given: Sequence[float]) -> Array:
    with np.errstate(over="ignore"):
        return FUNCTIONS[name].apply(x, *given)
