"""The epilogue in float64: bias, activation and output type, and the error that each may add.

An activation with |f'| ≤ L amplifies an error of its argument by at most L. Rounding to the output type adds half a
unit in the last place (one half for int8), which is allowed on top of the accumulation error. A value beyond int8's
range saturates (NaN becomes 0); one beyond fp16's range becomes infinite.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.problem import BF16, FP16, INT8, INT32, DType, Problem
from gemmsmith.verify.oracles.reference import Reference

Array = NDArray[Any]
F64 = NDArray[np.float64]

# Largest slopes: gelu at x = √2, silu at x ≈ 2.4.
SLOPES = {"": 1.0, "relu": 1.0, "gelu": 1.13, "silu": 1.1, "gelu_tanh": 1.13}
SMOOTH = ("gelu", "gelu_tanh", "silu")
# A user's kernel evaluates them in fp32 with exp, tanh or erf of a few ulps, some by __expf: 32 ulps of the argument.
_EVALUATION = 2.0**-19
# The smallest number that rounds to infinity, and half the spacing of the subnormal numbers.
_OVERFLOW = {FP16: 65520.0, BF16: 2.0**128 - 2.0**119}
_HALF_SPACING = {FP16: 2.0**-25, BF16: 2.0**-134}
_erf = np.frompyfunc(math.erf, 1, 1)


def activated(name: str, x: F64) -> F64:
    """Apply the activation ``name`` to every element; NaN stays NaN."""
    with np.errstate(all="ignore"):
        if name == "relu":
            return np.maximum(x, 0.0)
        if name == "gelu":
            half = 0.5 * (1.0 + np.asarray(_erf(x / math.sqrt(2.0)), dtype=np.float64))
            return np.where(np.isneginf(x), 0.0, x * half)
        if name == "gelu_tanh":
            bent = np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x))
            return np.where(np.isneginf(x), 0.0, 0.5 * x * (1.0 + bent))
        if name == "silu":
            return np.where(np.isneginf(x), 0.0, x / (1.0 + np.exp(-x)))
    return x


def finished(problem: Problem, reference: Reference, bias: Array | None) -> Reference:
    """Apply the epilogue to a reference: from accumulator to stored output, for one matrix (``problem.single``)."""
    if bias is not None:
        wide = bias.astype(np.float64)
        wide = wide[:, None] if problem.bias == "row" else wide[None, :]
        with np.errstate(all="ignore"):
            scale = reference.magnitude + np.where(np.isfinite(wide), np.abs(wide), 0.0)
            reference = replace(reference, value=reference.value + wide, exact=reference.exact + wide, magnitude=scale)
    if problem.activation:
        slope = SLOPES[problem.activation]
        reference = replace(
            reference, value=activated(problem.activation, reference.value),
            exact=activated(problem.activation, reference.exact), magnitude=slope * reference.magnitude,
        )  # fmt: skip
    limit = _OVERFLOW.get(problem.out_dtype)
    if limit is not None:
        near = np.abs(reference.exact) >= limit * (1 - 2.0**-10)
        with np.errstate(all="ignore"):
            over = np.where(np.abs(reference.value) >= limit, np.copysign(np.inf, reference.value), reference.value)
        reference = replace(reference, value=over, may_overflow=reference.may_overflow | near)
    if problem.out_dtype == INT8:
        # A non-finite value becomes 127, −128 or 0, without an error of its own.
        scale = np.where(np.isfinite(reference.value), reference.magnitude, 0.0)
        reference = replace(
            reference, value=_saturated(reference.value), exact=_saturated(reference.exact), magnitude=scale
        )
    return reference


def _saturated(values: F64) -> F64:
    return np.where(np.isnan(values), 0.0, values.clip(-128, 127))


def evaluated(problem: Problem, argument: Reference, got: Array) -> tuple[F64, NDArray[np.bool_]]:
    """Of a smooth activation in a user's kernel: the error of its evaluation, by element, and where its formula gives
    NaN for minus infinity: −∞ · 0."""
    with np.errstate(all="ignore"):
        error = _EVALUATION * np.abs(argument.exact) if problem.activation in SMOOTH else np.zeros(got.shape)
        return error, np.isneginf(argument.value) & np.isnan(got)


def output_rounding(dtype: DType, expected: F64) -> F64:
    """The largest error from rounding each expected value to the output type; 0 for fp32 and int32 outputs."""
    if dtype in _HALF_SPACING:
        with np.errstate(all="ignore"):
            # An accumulation error may carry a value across a power of two, where the spacing doubles: hence 1.01.
            return (
                np.where(np.isfinite(expected), 1.01 * dtype.unit_roundoff * np.abs(expected), 0.0)
                + _HALF_SPACING[dtype]
            )
    return np.full(expected.shape, 0.5 if dtype == INT8 else 0.0)


def projected_rounding(dtype: DType, got: F64, direction: F64) -> F64:
    """The largest error from rounding to the output type in C·t, row by row.

    Roundings are independent, each within half a unit: the variance of their sum is Σ(half·t)²/3, and six standard
    deviations are allowed. The sum of the halves would hide a wrong element among thousands of right ones.
    """
    half = output_rounding(dtype, got)
    return 6.0 * np.sqrt((half * half) @ (direction * direction) / 3.0)


def stored(problem: Problem, exact: NDArray[np.int64], bias: Array | None) -> Array:
    """The stored output for an exact integer accumulator: bias and relu applied, then rounded, saturated or wrapped."""
    if problem.activation not in ("", "relu"):
        raise ValueError(f"{problem.activation} of an integer is not an integer")
    if bias is not None:
        whole = bias.astype(np.float64).astype(np.int64)
        exact = exact + (whole[:, None] if problem.bias == "row" else whole[None, :])
    if problem.activation == "relu":
        exact = np.maximum(exact, 0)
    if problem.out_dtype == INT8:
        return exact.clip(-128, 127).astype(np.int8)
    if problem.out_dtype == INT32:
        return exact.astype(np.int32)  # modulo 2**32, as the hardware does
    with np.errstate(over="ignore"):
        return exact.astype(np.float32).astype(problem.out_dtype.numpy)
