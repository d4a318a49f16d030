"""Whether C is linear in A and in B, by what a user's kernel computes of chosen numbers.

A product with a wrong index is still a sum of products of an element of A and one of B. Distances of points, a minimum
of sums and the like are not, though they may take A, B, C, M, N and K as a product does: they are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gemmsmith.kernel.layout import LAYOUTS, Layout
from gemmsmith.kernel.signature import Signature
from gemmsmith.problem import BF16, FP16, Problem
from gemmsmith.shapes import Shape
from gemmsmith.verify.meaning.launch_probe import Array, LaunchProbe, Operands, operands

_ERROR = {FP16: 2.0**-8, BF16: 2.0**-5}  # of a result, relative: small numbers are added
_FP32_ERROR = 2.0**-14
_ROUNDED = {FP16: 2.0**-9, BF16: 2.0**-7}  # of one result: its type's rounding, and that of the factor
NOT_LINEAR = "what it computes is not linear in A and in B"
PLAIN = 3  # the first of the probes that has both operands
FEW_TERMS = "its results are sums of only a few products"
ONE_TERM = "each of its results is K times one product of two elements"
_DEEP = 8  # from this K on sums of different products are not all multiples of K


def not_a_sum_of_products(probe: LaunchProbe, meant: Signature, shape: Shape) -> str | None:
    """Why a kernel that gives no product may not be meant to: it is not linear in A and in B, adds up too few terms, or
    gives a multiple of a product. Empty if nothing says so; None if launches gave no numbers, or there was no time."""
    if (meant, shape) not in probe.known:
        probe.known[meant, shape] = _not_a_sum_of_products(probe, meant, shape)
    return probe.known[meant, shape]


def _not_a_sum_of_products(probe: LaunchProbe, meant: Signature, shape: Shape) -> str | None:
    m, n, k = shape
    problem = probe.spec.read_as(meant, "NN").problem(*shape)
    one, two = (operands(probe.spec, meant, shape, seed) for seed in (2, 3))
    results = []
    for a, b in probes(one, two):
        computed = probe.computed(meant, shape, (a, b))
        if computed is None:
            return None
        results.append(computed.astype(np.float64))
    if all(_is_nothing_but_nan(result) for result in results):  # a sum that was never set says nothing of its terms
        return None
    least = k / 2 * min(1.0, abs(problem.alpha))
    error = _ERROR.get(problem.out_dtype, _FP32_ERROR)
    why = not_linear(results, error, m * n, least)
    negated = _negated(one)
    if why != NOT_LINEAR and negated is not None:  # no sum so far is below 0, where a function of it may begin
        below = probe.computed(meant, shape, negated)
        if below is None:
            return None
        if _bends(results[0], results[PLAIN], below.astype(np.float64), error):
            why = NOT_LINEAR
    with np.errstate(invalid="ignore"):  # infinite results, as of a mask
        sums = (results[PLAIN] - results[0]) / problem.alpha
    if not why and k >= _DEEP and bool((sums % k == 0).all()) and np.unique(sums).size > 2:
        return ONE_TERM
    factor = _factor(results[PLAIN] - results[0], one, problem) if why != NOT_LINEAR else 0.0
    return f"it gives {factor:.6g} times A·B" if factor else why


def _negated(values: Operands) -> Operands | None:
    """The operands with A or B below 0; None if both types are unsigned."""
    a, b = values
    if a.dtype.kind != "u":
        return -a, b
    return (a, -b) if b.dtype.kind != "u" else None


def _is_nothing_but_nan(result: Array) -> bool:
    """Whether all that was written is NaN; the rest of the memory of C holds zeros."""
    nan = np.isnan(result)
    return bool(nan.any()) and not result[~nan].any()


def probes(one: Operands, two: Operands) -> list[Operands]:
    """Operands whose results tell whether a kernel is linear in A and in B: nothing, one of them alone, sums."""
    zeros, ones = ([np.full(x.size, value, np.float32).astype(x.dtype) for x in one] for value in (0, 1))
    sums = [(x.astype(np.float32) + y.astype(np.float32)).astype(x.dtype) for x, y in zip(one, two, strict=True)]
    return [(zeros[0], zeros[1]), (one[0], zeros[1]), (zeros[0], one[1]), one, (two[0], one[1]), (sums[0], one[1]),
            (one[0], two[1]), (one[0], sums[1]), (ones[0], ones[1])]  # fmt: skip


def not_linear(results: list[Array], error: float, outputs: int, least: float) -> str:
    """Why the results of ``probes`` are no sums of products of an element of A and one of B; empty if they are.

    error    relative, of the largest result
    outputs  how many there are; most must add up terms, ``least`` where all elements are 1
    """
    empty, left, right, *products = results
    if not (np.array_equal(empty, left) and np.array_equal(empty, right) and np.isfinite(results).all()):
        return NOT_LINEAR
    first, other_a, both_a, other_b, both_b, terms = (each - empty for each in products)
    apart = max(np.abs(first + other_a - both_a).max(), np.abs(first + other_b - both_b).max())
    if apart > np.abs(results).max() * error:
        return NOT_LINEAR
    summed = terms[terms != 0]
    return FEW_TERMS if summed.size < outputs / 2 or np.median(np.abs(summed)) < least else ""


def _bends(empty: Array, above: Array, below: Array, error: float) -> bool:
    """Whether sums below 0 are given otherwise than those above 0, as by a leaky relu or as absolute values; a relu,
    which is judged, gives 0."""
    near = np.abs(above + below - 2 * empty) <= np.abs(above).max() * error
    return not bool((near | (below == 0)).all())


def _factor(got: Array, values: Operands, problem: Problem) -> float:
    """By which number below 1 every result differs from the product of one layout: 1/sqrt(K), the mean of K terms. 0
    if by none; two or minus one times a product is a mistake."""
    for _, product, c in stored_products(got, values, (problem.m, problem.n, problem.k)):
        filled = product != 0
        factor = float(np.median(c[filled] / product[filled])) if filled.any() else 0.0
        near = np.abs(c - factor * product) <= _ROUNDED.get(problem.out_dtype, _FP32_ERROR) * np.abs(factor * product)
        if 0 < factor < problem.alpha and near.all():
            return factor
    return 0.0


def stored_products(got: Array, values: Operands, shape: Shape) -> Iterator[tuple[Layout, Array, Array]]:
    """For each layout the product of A and B as it has them, and the result ``got`` as it has C. All three are flat in
    memory, and may have room behind them."""
    m, n, k = shape
    for layout in LAYOUTS:
        sides = ((m, k), (k, n), (m, n))
        a, b, c = (
            flat[: rows * columns].reshape(columns, rows).T
            if by_column
            else flat[: rows * columns].reshape(rows, columns)
            for flat, (rows, columns), by_column in zip((*values, got), sides, layout.stored, strict=True)
        )
        yield layout, a.astype(np.float64) @ b.astype(np.float64), c
