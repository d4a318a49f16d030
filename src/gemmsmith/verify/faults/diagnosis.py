"""Describe how a result is wrong: how much, where, and what the wrong outputs equal instead.

This is evidence drawn from the pattern of wrong elements; the verdict does not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.problem import Problem
from gemmsmith.run.memory import POISON
from gemmsmith.verify.faults.wrong_places import boxes, places
from gemmsmith.verify.oracles.compare import Comparison

Array = NDArray[Any]
Mask = NDArray[np.bool_]


def unwritten(
    problem: Problem, got: Array, before: Array, comparison: Comparison, mode: str, c_is_set: bool = False
) -> Mask:
    """Which outputs the kernel did not write.

    With beta = 0 these still hold the poison, even where NaN is the right answer. Otherwise, or if C was set before the
    launch, they still hold C's old value and are wrong. In mode 'mod32' and for integers the poison's bit pattern can
    be right by chance.
    """
    poisoned = problem.beta == 0 and not c_is_set
    word = np.dtype(f"<u{problem.out_dtype.itemsize}")
    bits = np.ascontiguousarray(got).view(word)
    wrong = np.broadcast_to(comparison.wrong, got.shape)
    same: Mask = bits == (POISON[problem.out_dtype.name] if poisoned else np.ascontiguousarray(before).view(word))
    certain = poisoned and mode != "mod32" and got.dtype.kind != "i"
    return same if certain else same & wrong


def mostly_zero(got: Array, expected: Array | None, underflow: float = 0.0) -> bool:
    """Whether over half of the output is zero although at most half is expected to be (None: none is).

    ``underflow``: sums up to this may be lost, since each term is rounded to a subnormal number or zero.
    """
    if not got.size:
        return False
    zeros = int(np.count_nonzero(got == 0))
    if expected is not None:  # compare after rounding, as stored: fp16 has no number for a small sum
        with np.errstate(all="ignore"):
            expected = np.rint(expected) if got.dtype.kind == "i" else expected.astype(got.dtype)
    with np.errstate(all="ignore"):
        small = None if expected is None else np.abs(expected.astype(np.float64)) <= underflow
    expected_zeros = 0 if small is None else int(np.count_nonzero(small))
    return 2 * zeros > got.size and not 2 * expected_zeros > got.size


def reasons(
    problem: Problem,
    got: Array,
    comparison: Comparison,
    untouched: Mask,
    mode: str,
    c_is_set: bool = False,
    equal_to: Sequence[str] = (),
) -> tuple[str, ...]:
    """Why the result is wrong, the most important reason first; empty if it is right.

    ``equal_to``: what the wrong outputs equal instead (``wrong_sums.py``).
    """
    found: list[str] = []
    count = int(np.count_nonzero(untouched))
    if count:
        row, column = (int(i) for i in np.argwhere(untouched)[0])
        found.append(f"{count} of {got.size} outputs were never written, the first at {_place(problem, row, column)}")
        where = _products(problem, untouched) or places(untouched)
        found += [f"never written: {where}"] if where else _boxes(problem, untouched)
    wrong = comparison.wrong if mode == "projection" else comparison.wrong & ~untouched
    if not wrong.any():
        return tuple(found)
    found.append(_headline(problem, comparison, wrong, mode))
    if mode == "projection":
        return tuple(found)
    found.extend(_of_a_batch(problem, wrong) or _where(wrong))
    if mode == "mod32":
        return tuple(found)  # bit patterns, not numbers: the hints below would mislead
    strange = wrong & ~np.isnan(comparison.expected)
    strange &= np.isnan(got) if got.dtype.kind != "i" else False
    if strange.any():
        found.append(_nan_hint(problem, int(np.count_nonzero(strange)), c_is_set))
    found.extend([*equal_to, *_pattern(got, comparison.expected, wrong)])
    return tuple(found)


def _headline(problem: Problem, comparison: Comparison, wrong: Mask, mode: str) -> str:
    what = f"{int(np.count_nonzero(wrong))} of {wrong.size} {'rows' if mode == 'projection' else 'outputs'} wrong"
    worst = comparison.worst(among=wrong)
    if worst is None:
        return what
    place = f"row {worst.row}" if mode == "projection" else _place(problem, worst.row, worst.column)
    if mode in ("float", "projection"):
        known = f"{what}, the worst at {place}: got {worst.got:.9g}, expected {worst.expected:.9g}"
        off = abs(worst.got - worst.expected)
        if not np.isfinite(off) or not 0 < worst.rho < np.inf:
            return known
        return f"{known}: off by {off:.3g}, of which rounding explains {off * comparison.gate / worst.rho:.2g}"
    return f"{what}, the first at {place}: got {worst.got!r}, expected {worst.expected!r}"


def _place(problem: Problem, row: int, column: int) -> str:
    """Row and column of an output, of a batch those of its product."""
    if problem.batch == 1:
        return f"({row}, {column})"
    return f"({row % problem.m}, {column}) of product {row // problem.m} of the batch"


def _boxes(problem: Problem, untouched: Mask) -> list[str]:
    """The outputs that were not written, or those that were, as a few rectangles."""
    if problem.batch != 1 or untouched.all():
        return []
    if missing := boxes(untouched):
        return [f"never written: {missing}"]
    written = boxes(~untouched)
    return [f"written are only {written}"] if written else []


def _products(problem: Problem, these: Mask) -> str:
    """Which products of a batch have such outputs, counted from 0, and where in these; empty if all have."""
    if problem.batch == 1 or these.shape[0] != problem.batch * problem.m:
        return ""
    products = these.reshape(problem.batch, problem.m, -1)
    some = products.any(axis=(1, 2))
    if some.all():
        return ""
    numbers = [str(int(number)) for number in np.flatnonzero(some)]
    listed = " and ".join(filter(None, (", ".join(numbers[:-1]), numbers[-1])))
    where = places(np.asarray(products[some].any(axis=0)))
    return (f"product{'s' * (len(numbers) > 1)} {listed} of the batch of {problem.batch}, counted from 0"
            f"{f', in {where}' if where else ''}")  # fmt: skip


def _of_a_batch(problem: Problem, wrong: Mask) -> list[str]:
    """Which products of a batch are wrong, where not all are; and what is wrong in these."""
    found = _products(problem, wrong)
    return [f"wrong: {found}; the others are right"] if found else []


def _where(wrong: Mask) -> list[str]:
    """The wrong rows and columns, or the box around all that is wrong; nothing if that is all of C."""
    if where := places(wrong):
        return [f"wrong: {where}; the rest of C is right"]
    top, bottom, left, right = _box(wrong)
    everywhere = (bottom - top + 1, right - left + 1) == wrong.shape
    return [] if everywhere else [f"the wrong outputs are in rows {top} to {bottom}, columns {left} to {right}"]


def _box(wrong: Mask) -> tuple[int, int, int, int]:
    rows = np.flatnonzero(wrong.any(axis=1))
    columns = np.flatnonzero(wrong.any(axis=0))
    return int(rows[0]), int(rows[-1]), int(columns[0]), int(columns[-1])


def _nan_hint(problem: Problem, count: int, c_is_set: bool) -> str:
    causes = []
    if problem.alpha == 0:
        causes.append("A or B was read although alpha is 0")
    if problem.beta == 0 and not c_is_set:
        causes.append("C was read although beta is 0")
    causes.append("an operand was read outside its rows (memory that must not be read holds NaN)")
    causes.append("a variable was never set")
    return f"{count} outputs are NaN and should not be: {', or '.join(causes)}"


def _pattern(got: Array, expected: Array, wrong: Mask) -> list[str]:
    """Mistakes with a recognizable pattern."""
    if not np.count_nonzero(got[wrong]):
        return ["every wrong output is zero"]
    top, bottom, left, right = _box(wrong)
    block = (slice(top, bottom + 1), slice(left, right + 1))
    with np.errstate(invalid="ignore"):
        here, there = got[block].astype(np.float64), expected[block].astype(np.float64)
    if here.shape[0] == here.shape[1] > 1 and np.allclose(here, there.T, rtol=1e-3, equal_nan=True):
        return ["this block holds the transpose of the expected values"]
    thin = 2 * here.shape[0] <= got.shape[0] or 2 * here.shape[1] <= got.shape[1]  # a strip at the edge, not most of C
    if (bottom, right) == (got.shape[0] - 1, got.shape[1] - 1) and thin:
        return ["the wrong outputs end at C's last row and column: check how edge tiles are handled"]
    return []
