"""A matrix times a vector that no formula explains, since it is wrong at every size: terms are missing or repeated.

The name must say what is meant. With vectors of a single one, each result shows how often it counts one term. Where
results hold nothing but terms of their own, and a good part of them as often as they should, the rest is a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gemmsmith.kernel.role_names import words
from gemmsmith.verify.formula.candidates import axes, formulas
from gemmsmith.verify.formula.case import Array, Case, Runner
from gemmsmith.verify.formula.formula import ONE, Formula

_NAMES = re.compile(r"[sdhbf]?gemv\w*|mat_?vec\w*|vec_?mat\w*|matrix_?vector\w*|mv|mvm")
_OTHERS = frozenset(("sp", "spmv", "sparse", "tri", "triangular", "lower", "upper", "band", "banded", "causal", "mask",
                     "masked", "diag", "blocks", "partial", "part", "abs", "max", "min", "sq"))  # fmt: skip
_SHARE = 1 / 4  # of all terms that are counted once
_MOST_TIMES = 8  # a term is counted


def says_vector_product(name: str) -> bool:
    """Whether a name says a dense matrix times a vector: gemv, matvec."""
    told = words(name)
    return bool(_NAMES.search(name.lower())) and not _OTHERS.intersection(told)


def near_formula(runner: Runner, case: Case) -> Formula | None:
    """The matrix times a vector that a launch computes a part of; None where its results show no such."""
    taken = runner.taken
    if len(taken.inputs) != 2 or taken.biases or taken.reals or taken.batch or len(taken.extents) > 2:
        return None
    for plain in _plain(runner):
        counts = _counts(runner, case, plain)
        if counts is None:
            continue
        whole = np.abs(counts - np.rint(counts)) < 2.0**-6
        counts = np.rint(counts)
        if whole.all() and counts.min() >= 0 and counts.max() <= _MOST_TIMES and np.mean(counts == 1) >= _SHARE:
            return None if _is_meant(counts) else plain
    return None


def _is_meant(counts: NDArray[np.float64]) -> bool:
    """Whether a matrix of these terms may be meant, a triangle or a band: they change from row to row, along diagonals
    they do not."""
    return bool((counts[1:, 1:] == counts[:-1, :-1]).all() and (counts != counts[0]).any())


def _plain(runner: Runner) -> Iterator[Formula]:
    """The products of a matrix and a vector, with the factors that are named."""
    taken = runner.taken
    ways = (*(name for name, owner in taken.leading.items() if not owner), "")
    for found in axes(taken, {}):
        for each in formulas(taken, found, ways):
            if each.kind or each.triangle or each.half or ONE not in (each.c.rows, each.c.columns):
                continue
            if taken.output in (each.lefts[0].member, each.rights[0].member) or each.depth == ONE:
                continue
            alpha, beta = (taken.scalars.get(name, "") for name in ("alpha", "beta"))
            yield replace(each, alpha=alpha, beta=beta, addend=each.c if beta else None)


def _counts(runner: Runner, case: Case, plain: Formula) -> NDArray[np.float64] | None:
    """How often each result counts each term, over the factor; None where C holds something else."""
    sizes, depth = case.sizes, case.sizes[plain.depth]
    across = plain.c.columns == ONE
    matrix, vector = (plain.lefts[0], plain.rights[0]) if across else (plain.rights[0], plain.lefts[0])
    rooms = {each.member: each.room(sizes) for each in plain.matrices()}
    rng = np.random.Generator(np.random.PCG64(case.seed))
    values = rng.permutation(np.arange(1, rooms[matrix.member] + 1)) / rooms[matrix.member] + 1.0
    arrays: dict[str, Array] = {name: np.zeros(room, _kind(runner, name)) for name, room in rooms.items()}
    arrays[matrix.member] = values.astype(_kind(runner, matrix.member))
    factor = runner.values(case).get(plain.alpha, 1.0)
    terms = matrix.of(arrays[matrix.member].astype(np.float64), sizes) * factor
    terms = terms if across else terms.T  # in a row for each result
    counts = np.zeros(terms.shape)
    for number in range(depth):
        ones = np.zeros(rooms[vector.member])
        vector.of(ones, sizes).reshape(-1)[:] = np.arange(depth) == number
        arrays[vector.member] = ones.astype(_kind(runner, vector.member))
        written = runner.written(case, {name: each.copy() for name, each in arrays.items()}).astype(np.float64)
        counts[:, number] = plain.c.of(written, sizes).reshape(-1) / terms[:, number]
    return counts


def _kind(runner: Runner, name: str) -> np.dtype[np.generic]:
    element = runner.member(name).element
    assert element is not None
    return np.dtype(element.numpy)
