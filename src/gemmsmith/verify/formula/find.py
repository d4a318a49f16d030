"""Find the formula that a kernel computes, by one launch for which all of it is likely to be right.

Extents are multiples of what tiles usually are, rows begin on multiples of 32 elements, and leading dimensions that are
named after their matrices are equal: a kernel that takes the one for the other is told from its formula elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.errors import GemmsmithError, TimeLimitError
from gemmsmith.problem import BF16, FP16
from gemmsmith.verify.formula.candidates import Axes, axes, finished, formulas
from gemmsmith.verify.formula.case import Case, Runner
from gemmsmith.verify.formula.documented import Documented
from gemmsmith.verify.formula.formula import ONE, Formula
from gemmsmith.verify.formula.takes import Takes

Array = NDArray[Any]
_BASES = (64, 32, 16, 8)
_APART = 32  # a leading dimension is a multiple of this
_FEW = (0, 1)  # rows that are compared first
_ERRORS = {FP16: 2.0**-9, BF16: 2.0**-6}  # of a result, relative to it plus one
_ERROR = 2.0**-14
_TELLING = 3  # different results at least


@dataclass(frozen=True)
class Found:
    """A formula, and the launch that it explains."""

    formula: Formula
    case: Case


def find_formula(runner: Runner, documented: Documented) -> Found | None:
    """The formula that explains every result of a launch; None where none does."""
    for base in _BASES:
        for case in _cases(runner.taken, base):
            if not (documented.allows(case.sizes) and runner.kernel.is_launched(case.sizes)):
                continue
            try:
                found = _by_launch(runner, case)
            except TimeLimitError:
                return None
            except GemmsmithError:
                continue
            if found is not None:
                return found
    return None


def _cases(taken: Takes, base: int) -> Iterator[Case]:
    sizes = {name: base * (number + 1) for number, name in enumerate(taken.extents)}
    yield with_room(taken, Case({**sizes, ONE: 1, "batch": 2 if taken.batch or taken.strides else 1}))


def with_room(taken: Takes, case: Case, owned: Sequence[int] = (1, 1, 1, 1, 1)) -> Case:
    """The case with leading dimensions that fit any matrix: those that are named after a matrix are these multiples of
    one another's, all others differ."""
    most = -(-max(case.sizes[name] for name in taken.extents) // _APART) * _APART
    named = [name for name, owner in taken.leading.items() if owner]
    sizes = {name: most + _APART * (number - 1) for name, number in zip(named, owned, strict=False)}
    others = [name for name, owner in taken.leading.items() if not owner]
    sizes |= {name: most + _APART * (number + 1) for number, name in enumerate(others)}
    widest = max((most, *sizes.values()))
    sizes |= dict.fromkeys(taken.strides, widest * most)
    return case.with_sizes(**sizes)


def _by_launch(runner: Runner, case: Case) -> Found | None:
    taken, constants = runner.taken, runner.kernel.integers
    case = case.with_sizes(**{name: value for name, value in constants.items() if name not in case.sizes})
    most = max(case.sizes[name] for name in (*taken.extents, *taken.leading))
    room = most * max(case.sizes[name] for name in taken.extents) * case.sizes["batch"]
    names = (taken.output, *taken.inputs, *taken.biases)
    arrays = runner.arrays(case, dict.fromkeys(names, room), keeps=True)
    got = runner.written(case, arrays).astype(np.float64)
    before = {name: values.astype(np.float64) for name, values in arrays.items()}
    changed = got != before[taken.output]
    if np.unique(got[changed]).size < _TELLING:
        return None
    element = runner.member(taken.output).element
    error = _ERRORS.get(element, _ERROR) if element is not None else _ERROR
    ways = tuple(name for name, owner in taken.leading.items() if not owner)
    for each in axes(taken, constants):
        if not _fits(each, case.sizes, changed):
            continue
        for found in _matching(runner, each, ways, before, got, case.sizes, error):
            return Found(found, case)
    return None


def _fits(found: Axes, sizes: Mapping[str, int], changed: NDArray[np.bool_]) -> bool:
    """Whether the launch changed about as many numbers as C has, or as a half of it."""
    outputs = sizes[found[0]] * sizes[found[1]] * sizes["batch"]
    return outputs / 3 <= int(changed.sum()) <= outputs


def _matching(
    runner: Runner, found: Axes, ways: tuple[str, ...], before: Mapping[str, Array], got: Array,
    sizes: Mapping[str, int], error: float,
) -> Iterator[Formula]:  # fmt: skip
    last = sizes["batch"] - 1
    for plain in formulas(runner.taken, found, (*ways, "")):
        if any(each.room(sizes) > got.size for each in plain.matrices()):
            continue
        written = plain.c.of(got, sizes)
        wanted = plain.written(written)
        if not _leaves_the_rest(plain, before, got, sizes):
            continue
        rows = slice(written.shape[0] - len(_FEW), None) if plain.half else slice(0, len(_FEW))
        few = tuple(each[rows] for each in plain.product(before, sizes))
        whole: tuple[Array, ...] | None = None
        for formula in finished(runner.taken, plain):
            if not _near(formula.finished(few, before, runner.values, sizes, rows), written[rows], wanted[rows], error):
                continue
            whole = plain.product(before, sizes) if whole is None else whole
            every = slice(None)
            if _near(formula.finished(whole, before, runner.values, sizes, every), written, wanted, error) and (
                last == 0 or _explains(formula, runner, before, got, sizes, last, error)
            ):
                yield formula


def _leaves_the_rest(plain: Formula, before: Mapping[str, Array], got: Array, sizes: Mapping[str, int]) -> bool:
    """Whether what is no result is as before, where a half of C is left alone."""
    written, old = plain.c.of(got, sizes), plain.c.of(before[plain.c.member], sizes)
    return not plain.half or bool((written == old)[~plain.written(written)].all())


def _explains(
    formula: Formula, runner: Runner, before: Mapping[str, Array], got: Array, sizes: Mapping[str, int], number: int,
    error: float,
) -> bool:  # fmt: skip
    products = formula.product(before, sizes, number)
    expected = formula.finished(products, before, runner.values, sizes, slice(None), number)
    written = formula.c.of(got, sizes, number)
    return _near(expected, written, formula.written(written), error)


def _near(expected: Array, got: Array, wanted: NDArray[np.bool_], error: float) -> bool:
    with np.errstate(invalid="ignore"):
        right = np.abs(expected - got) <= error * (np.abs(expected) + 1)
    return bool(right[wanted].all())


def rooms(formula: Formula, sizes: Mapping[str, int]) -> dict[str, int]:
    """How many elements each array has: no more than the formula needs."""
    found: dict[str, int] = {}
    for each in formula.matrices():
        found[each.member] = max(found.get(each.member, 0), each.room(sizes))
    if formula.bias:
        found[formula.bias] = sizes[formula.c.rows if formula.bias_of == "row" else formula.c.columns]
    return found


def expected(
    formula: Formula, values: Mapping[str, float], arrays: Mapping[str, Array], sizes: Mapping[str, int]
) -> Array:
    """What C must hold afterwards, in float64: what is not written is as before."""
    known = {name: each.astype(np.float64) for name, each in arrays.items()}
    result = known[formula.c.member].copy()
    for number in range(sizes["batch"]):
        products = formula.product(known, sizes, number)
        made = formula.finished(products, known, values, sizes, slice(None), number)
        view = formula.c.of(result, sizes, number)
        wanted = formula.written(view)
        view[wanted] = made[wanted]
    return result
