"""What wrong outputs are equal to instead: the sum without some terms, another row's value, the product without alpha.

Everything here is evidence: it compares numbers and names no cause. Outputs are sampled, and a statement is made only
if it holds for all that were looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.fills import Operands
from gemmsmith.problem import Problem
from gemmsmith.verify.faults.seen_operands import seen_operands
from gemmsmith.verify.faults.wrong_places import lines

Array = NDArray[Any]
Mask = NDArray[np.bool_]
_SAMPLES = 48
_LARGEST_K = 1024  # the search for a missing part compares all pairs of ends
_LARGEST_C = 1 << 20  # outputs, for the search for moved rows
_CLOSE = 2e-4  # of the sum of magnitudes: far above rounding, far below a term of random data
_COARSER = (("fp32", 2.0**-24), ("fp16 or TF32", 2.0**-11), ("bf16", 2.0**-8))  # what they round by
_ROUNDINGS = 16  # a sum is off by that much more or less than one rounding
_TOO_FEW = 3
_MOSTLY = 0.75  # of the outputs are wrong where the layout is another one


def sums(problem: Problem, data: Operands, got: Array, expected: Array, wrong: Mask) -> list[str]:
    """What the wrong outputs are equal to, as far as that has a name."""
    if problem.batch != 1 or problem.activation or problem.bias or problem.k == 0 or got.dtype.kind not in "fi":
        return []
    with np.errstate(all="ignore"):
        values = got.astype(np.float64)
        usable = wrong & np.isfinite(values) & np.isfinite(expected.astype(np.float64))
        if np.count_nonzero(usable) < max(_TOO_FEW, int(np.count_nonzero(wrong)) // 2):  # NaN is equal to nothing
            return []
        return next(iter(_statements(problem, data, values, expected.astype(np.float64), usable)), [])


def _statements(problem: Problem, data: Operands, got: Array, expected: Array, wrong: Mask) -> Iterator[list[str]]:
    a = data.a.T if problem.trans_a else data.a
    b = data.b.T if problem.trans_b else data.b
    found = np.argwhere(wrong)
    picked = found[np.unique(np.linspace(0, len(found) - 1, _SAMPLES).astype(int))]
    rows, columns = picked[:, 0], picked[:, 1]
    terms = a[rows].astype(np.float64) * b[:, columns].T.astype(np.float64)  # sample by k
    had = got[rows, columns]
    before = problem.beta * data.c[rows, columns].astype(np.float64) if problem.beta else np.zeros(len(picked))
    scale = abs(problem.alpha) * np.abs(terms).sum(axis=1) + np.abs(before) + 1e-30

    def close(one: Array, other: Array) -> bool:
        return bool((np.abs(one - other) <= _CLOSE * scale).all())

    full = terms.sum(axis=1)
    if more := _offset(had - expected[rows, columns]):
        yield [more]
    off = float((np.abs(had - expected[rows, columns]) / scale).max())
    if off <= _CLOSE and (terms % 1).any():  # integers are not rounded
        yield [_nearly(off, problem.dtype.unit_roundoff)]
        return
    if problem.beta and close(had, problem.alpha * full):
        yield ["the wrong outputs equal alpha * A * B: beta * C is not in them"]
    if problem.alpha != 1 and close(had, full + before):
        yield ["the wrong outputs equal A * B + beta * C: alpha is not in them"]
    if problem.alpha and (part := _part(terms, (had - before) / problem.alpha, scale / abs(problem.alpha), problem.k)):
        yield [part]
    if (factor := _factor(had, expected[rows, columns], scale)) is not None:
        yield [f"each wrong output is {factor:g} times what it should be"]
    if got.size <= _LARGEST_C and (moved := _moved(got, expected, wrong)):
        yield [moved]
    if problem.alpha and (other := _seen(problem, data, a, b, got, relaid=bool(wrong.mean() > _MOSTLY))):
        yield [other]


def _nearly(off: float, own: float) -> str:
    """Of outputs that are off by less than a term would be; ``own``: what their type rounds by."""
    named = (name for name, unit in _COARSER if unit > own and unit / _ROUNDINGS <= off <= _ROUNDINGS * unit)
    like = next((f", as if {name} numbers had been in between" for name in named), "")
    return f"the wrong outputs are nearly right: off by at most {off:.1e} of the sum of |a*b|{like}"


def _offset(differences: Array) -> str:
    """A number that all wrong outputs are off by, exactly."""
    first = float(differences[0])
    if not first or not first.is_integer() or not (differences == first).all():
        return ""
    return f"each wrong output is {abs(first):g} {'more' if first > 0 else 'less'} than it should be"


def _seen(problem: Problem, data: Operands, a: Array, b: Array, got: Array, *, relaid: bool) -> str:
    """Which elements were multiplied, if every output is finite. ``relaid``: the layout may be another one than was
    assumed; then the same memory is a matrix with rows and columns swapped."""
    before = problem.beta * data.c.astype(np.float64) if problem.beta else 0.0
    product = (got - before) / problem.alpha
    other_a, other_b = (np.ascontiguousarray(x).reshape(x.shape[::-1]).T for x in (a, b))
    readings = (("", a, b), ("if B is stored transposed, ", a, other_b), ("if A is stored transposed, ", other_a, b),
                ("if A and B are stored transposed, ", other_a, other_b))  # fmt: skip
    for said, left, right in readings if relaid else readings[:1]:
        if found := seen_operands(left, right, product):
            return said + found
    return ""


def _part(terms: Array, had: Array, scale: Array, k: int) -> str:
    """The range of k whose terms are missing or counted twice."""
    if k > _LARGEST_K:
        return ""
    ends = np.concatenate([np.zeros((len(terms), 1)), np.cumsum(terms, axis=1)], axis=1)
    missing = ends[:, -1] - had
    limit = _CLOSE * scale
    for sign, word in ((1.0, "is not in them"), (-1.0, "is in them twice")):
        for length in _lengths(k):
            # The sum of `length` terms from each start.
            parts = ends[:, length:] - ends[:, : k + 1 - length]
            right = (np.abs(parts - sign * missing[:, None]) <= limit[:, None]).all(axis=0)
            if np.count_nonzero(right) == 1:
                start = int(np.argmax(right))
                return _range(start, start + length, k, word)
    return ""


def _lengths(k: int) -> Iterator[int]:
    """Lengths of a missing part: short ones first, so that the least that explains it is named."""
    yield from range(1, k)


def _range(start: int, stop: int, k: int, word: str) -> str:
    what = f"k >= {start}" if stop == k else f"k < {stop}" if start == 0 else f"k = {start} to {stop - 1}"
    if stop - start == 1:
        what = f"k = {start}" + (", the last" if stop == k else ", the first" if start == 0 else "")
    if "twice" in word:
        return f"the wrong outputs equal the sum with the terms of {what} added twice"
    return f"the wrong outputs equal the sum without the terms of {what} (k goes from 0 to {k - 1})"


def _factor(had: Array, right: Array, scale: Array) -> float | None:
    """A plain number that all wrong outputs are off by."""
    for factor in (2.0, 0.5, 3.0, 4.0, -1.0, 0.25, 8.0, 16.0, 32.0):
        if (np.abs(had - factor * right) <= _CLOSE * scale * max(1.0, abs(factor))).all():
            return factor
    return None


def _moved(got: Array, expected: Array, wrong: Mask) -> str:
    """Whether each wrong row or column holds the values of another one, at one distance."""
    for axis, word in ((1, "row"), (0, "column")):
        some = np.asarray(wrong.any(axis=axis))
        lines_got, lines_right = (got, expected) if axis == 1 else (got.T, expected.T)
        numbers = np.flatnonzero(some)[:_SAMPLES]
        if len(lines_right) < _TOO_FEW or lines_right.shape[1] < _TOO_FEW:
            continue
        offsets = {_same_line(lines_got[n], lines_right, n) for n in numbers}
        if len(offsets) == 1 and (offset := offsets.pop()):
            which = lines(some, word) or f"all {word}s"
            side = "after" if offset > 0 else "before"
            return f"each wrong {word} holds the values of the {word} {abs(offset)} {side} it ({which})"
    return ""


def _same_line(line: Array, all_lines: Array, own: int) -> int:
    """How far away the row is whose values this one holds; 0 if there is none or several."""
    scale = np.abs(line) + np.abs(all_lines).max() * 1e-6
    equal = (np.abs(all_lines - line) <= _CLOSE * scale).all(axis=1)
    return int(np.argmax(equal)) - int(own) if np.count_nonzero(equal) == 1 else 0
