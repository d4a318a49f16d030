"""Find the formula that a kernel computes, by one launch for which all of it is likely to be right.

Extents are multiples of what tiles usually are, rows begin on multiples of 32 elements, and leading dimensions that are
named after their matrices are equal: a kernel that takes the one for the other is told from its formula elsewhere.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.errors import GemmsmithError, TimeLimitError
from gemmsmith.problem import BF16, FP16
from gemmsmith.verify.code.float_constants import adds_in_memory
from gemmsmith.verify.formula.candidates import axes, finished, formulas
from gemmsmith.verify.formula.case import Case, Runner
from gemmsmith.verify.formula.documented import Documented
from gemmsmith.verify.formula.formula import ONE, Formula, Stored
from gemmsmith.verify.formula.near import near_formula, says_vector_product
from gemmsmith.verify.formula.structure import structure_by_name
from gemmsmith.verify.formula.takes import Takes

Array = NDArray[Any]
_BASES = (64, 32, 16, 8)
_OF_VECTORS = (64, 512, 32, 16, 8)  # of a product with a vector: a warp may take 256 elements of a row at once
_APART = 32  # a leading dimension is a multiple of this
_FEW = 2  # rows that are compared first
SEARCH_S = 8.0  # of one core
_ERRORS = {FP16: 2.0**-9, BF16: 2.0**-6}  # of a result, relative to it plus one
_ERROR = 2.0**-14
_TELLING = 3  # different results at least
_FEWEST = 1 / 3  # of C that a launch changes: a half of it, of which some is as before by chance


@dataclass(frozen=True)
class Found:
    """A formula, and the launch that it explains. ``sure``: the kernel's name tells it, or it explains the first launch
    that could be made, not just a smaller one."""

    formula: Formula
    case: Case
    sure: bool


def find_formula(runner: Runner, documented: Documented, seconds: float = SEARCH_S) -> Found | None:
    """The formula that explains every result of a launch; None where none does in so many seconds."""
    end, launched = time.process_time() + seconds, False
    told = says_vector_product(runner.kernel.name)
    for base in _OF_VECTORS if told else _BASES:
        for case in _cases(runner.taken, base):
            if time.process_time() > end or not documented.allows(case.sizes) or runner.kernel.is_excluded(case.sizes):
                continue
            try:
                found = _Search(runner, case, end).found(not launched)
            except TimeLimitError:
                return None
            except GemmsmithError:
                continue
            launched = True
            if found is not None:
                return found if found.sure or not told else _of_vector(runner, documented, end) or found
            break
    return _of_vector(runner, documented, end) if told else None


def _of_vector(runner: Runner, documented: Documented, end: float) -> Found | None:
    """The formula of a kernel that is named after a matrix times a vector, and is wrong at all of these sizes: one that
    explains a square launch, or a part of what any launch gives."""
    for base in _OF_VECTORS:
        for case in _cases(runner.taken, base):
            square = case.with_sizes(**dict.fromkeys(runner.taken.extents, base))
            sizes = (case.sizes, square.sizes)
            if not all(documented.allows(each) and runner.kernel.is_launched(each) for each in sizes):
                continue
            try:
                found = _Search(runner, with_room(runner.taken, square), end).found(False)
                near = found.formula if found is not None else None
                if near is None and base in _BASES:  # one launch for each k
                    near = near_formula(runner, case)
            except GemmsmithError:
                continue
            return None if near is None else Found(near, case, True)
    return None


def _cases(taken: Takes, base: int) -> Iterator[Case]:
    """Of these the first is launched that host code does not rule out."""
    sizes = {name: base * (number + 1) for number, name in enumerate(taken.extents)}
    whole = with_room(taken, Case({**sizes, ONE: 1, "batch": 2 if taken.batch or taken.strides else 1}))
    yield whole
    # Host code may launch another instance for those, and this one where rows are no whole vectors.
    yield whole.with_sizes(**{name: whole.sizes[name] + 1 for name in taken.leading})
    yield with_room(taken, whole.with_sizes(**{name: size + 1 for name, size in sizes.items()}))


def with_room(taken: Takes, case: Case, owned: Sequence[int] = (1, 1, 1, 1, 1)) -> Case:
    """The case with leading dimensions that fit any matrix: those that are named after a matrix are these multiples of
    one another's, all others differ. Where the case has odd ones, they are odd again."""
    odd = int(any(case.sizes.get(name, 0) % 2 for name in taken.leading))
    most = -(-max(case.sizes[name] for name in taken.extents) // _APART) * _APART
    named = [name for name, owner in taken.leading.items() if owner]
    sizes = {name: most + _APART * (number - 1) + odd for name, number in zip(named, owned, strict=False)}
    others = [name for name, owner in taken.leading.items() if not owner]
    sizes |= {name: most + _APART * (number + 1) + odd for number, name in enumerate(others)}
    widest = max((most, *sizes.values()))
    sizes |= dict.fromkeys(taken.strides, widest * most)
    return case.with_sizes(**sizes)


@dataclass
class _Search:
    """Launches of one size, and the formulas that may explain them."""

    runner: Runner
    case: Case
    end: float

    def __post_init__(self) -> None:
        constants = self.runner.kernel.integers.items()
        self.case = self.case.with_sizes(**{name: value for name, value in constants if name not in self.case.sizes})
        element = self.runner.member(self.runner.taken.output).element
        self.error = _ERRORS.get(element, _ERROR) if element is not None else _ERROR

    def found(self, first: bool) -> Found | None:
        arrays, taken = self._arrays(), self.runner.taken
        structure = structure_by_name(self.runner.kernel)
        every = axes(taken, self.runner.kernel.integers)
        plain = (each for found in every for each in formulas(taken, found, self._ways)
                 if self._fits_memory(each, arrays))  # fmt: skip
        if structure is None:
            formula = self._explained(plain, arrays)
            return None if formula is None else Found(formula, self.case, first)
        by_operand: dict[Stored, list[Formula]] = {}
        for each in filter(structure.fits, plain):
            by_operand.setdefault(each.structured, []).append(each)
        for alike in by_operand.values():
            friendly = {name: values.copy() for name, values in arrays.items()}
            structure.befriend(friendly, alike[0], self.case.sizes)
            formula = self._explained(iter(alike), friendly)
            if formula is not None:
                return Found(formula, self.case, True)
        return None

    @property
    def _ways(self) -> tuple[str, ...]:
        """Leading dimensions that are named after no matrix, and none."""
        return (*(name for name, owner in self.runner.taken.leading.items() if not owner), "")

    def _arrays(self) -> dict[str, Array]:
        taken, sizes = self.runner.taken, self.case.sizes
        most = max(sizes[name] for name in (*taken.extents, *taken.leading))
        room = most * max(sizes[name] for name in taken.extents) * sizes["batch"]
        names = (taken.output, *taken.inputs, *taken.biases)
        return self.runner.arrays(self.case, dict.fromkeys(names, room), keeps=not adds_in_memory(self.runner.ptx))

    def _fits_memory(self, plain: Formula, arrays: Mapping[str, Array]) -> bool:
        return all(each.room(self.case.sizes) <= arrays[each.member].size for each in plain.matrices())

    def _explained(self, candidates: Iterator[Formula], arrays: Mapping[str, Array]) -> Formula | None:
        """The first of the products that explains, with all that is done to it, what a launch gives."""
        got = self.runner.written(self.case, arrays).astype(np.float64)
        before = {name: values.astype(np.float64) for name, values in arrays.items()}
        changed = got != before[self.runner.taken.output]
        if np.unique(got[changed]).size < _TELLING:
            return None
        for plain in candidates:
            outputs = math.prod(self.case.sizes[name] for name in (plain.c.rows, plain.c.columns, "batch"))
            if not outputs * _FEWEST <= int(changed.sum()) <= outputs:
                continue
            if time.process_time() > self.end:
                return None
            formula = self._explaining(plain, before, got)
            if formula is not None:
                return formula
        return None

    def _explaining(self, plain: Formula, before: Mapping[str, Array], got: Array) -> Formula | None:
        sizes = self.case.sizes
        written = plain.c.of(got, sizes)
        wanted = plain.written(written)
        if plain.half and not (written == plain.c.of(before[plain.c.member], sizes))[~wanted].all():
            return None
        rows = slice(written.shape[0] - _FEW, None) if plain.half else slice(0, _FEW)
        few = tuple(each[rows] for each in plain.product(before, sizes))
        for formula in finished(self.runner.taken, plain):
            made = formula.finished(few, before, self.runner.values(self.case), sizes, rows)
            if _near(made, written[rows], wanted[rows], self.error) and self._explains(formula, before, got):
                return formula
        return None

    def _explains(self, formula: Formula, before: Mapping[str, Array], got: Array) -> bool:
        """Whether it gives all results, of every product of a batch."""
        sizes = self.case.sizes
        for number in range(sizes["batch"]):
            products = formula.product(before, sizes, number)
            made = formula.finished(products, before, self.runner.values(self.case), sizes, slice(None), number)
            written = formula.c.of(got, sizes, number)
            if not _near(made, written, formula.written(written), self.error):
                return False
        return True


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
