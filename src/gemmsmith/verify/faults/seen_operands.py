"""Which elements a wrong kernel multiplied: A and B as they would have to be for its result to be their product.

If the kernel treats B as it should, its result is X · B for some X, and X = result · B⁻¹ is what it took for A.
Compared with A this tells which elements were left out or replaced by others: `A[r + 8][k - 4]` for `A[r][k]`. How
often each k was added follows from the outputs in the same way. A statement is made only if it accounts for all that
differs.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.verify.faults.wrong_places import lines

Array = NDArray[Any]
_LARGEST = 256  # rows, columns and k: the solution takes the cube of it
_DEEPEST = 512  # k, for the count of each
_SAMPLES = 4  # outputs for each k
_CLOSE = 1e-3  # of the largest element: far above the rounding of sums in fp32, far below random differences
_MOST_OFFSETS = 4
_VOTES = 64  # elements that vote for an offset
_TILES = (4, 8, 16, 32, 64, 128)
_MOSTLY = 0.02  # of the elements: so many may be equal by chance


@dataclass(frozen=True)
class _Operand:
    """An operand as it is and as the kernel saw it; rows and columns by their names in a statement."""

    name: str
    row: str
    column: str
    is_: Array
    seen: Array

    @property
    def differs(self) -> Array:
        return np.asarray(np.abs(self.seen - self.is_) > _CLOSE * max(1e-30, float(np.abs(self.is_).max())))

    def equal(self, values: Array) -> Array:
        return np.asarray(np.abs(self.seen - values) <= _CLOSE * max(1e-30, float(np.abs(self.is_).max())))


def seen_operands(a: Array, b: Array, product: Array) -> str:
    """What ``product`` has in place of some elements of A or B; empty if that has no short description."""
    m, k = a.shape
    n = b.shape[1]
    if max(m, n) > _LARGEST or not 1 < k <= _DEEPEST or not np.isfinite(product).all():
        return ""
    a, b, product = (each.astype(np.float64) for each in (a, b, product))
    found: list[str] = []
    with np.errstate(all="ignore"):
        if counted := _counted(a, b, product):
            return counted
        if k > _LARGEST:
            return ""
        if n >= k and (seen := _solved(b.T, product.T)) is not None:
            found.append(_statement(_Operand("A", "r", "k", a, seen.T)))
        if m >= k and (seen := _solved(a, product)) is not None:
            found.append(_statement(_Operand("B", "k", "c", b, seen)))
    return min(filter(None, found), key=len, default="")


def _counted(a: Array, b: Array, product: Array) -> str:
    """Which k were left out or added twice in every output."""
    (m, k), n = a.shape, b.shape[1]
    chosen = np.unique(np.linspace(0, m * n - 1, _SAMPLES * k).astype(int))
    if len(chosen) < 2 * k:
        return ""
    rows, columns = chosen // n, chosen % n
    times = _solved(a[rows] * b[:, columns].T, product[rows, columns][:, None])
    if times is None:
        return ""
    times = times[:, 0]
    whole = np.round(times)
    if np.abs(times - whole).max() > _CLOSE or not set(whole.tolist()) <= {0.0, 1.0, 2.0} or (whole == 1).all():
        return ""
    missing, twice = whole == 0, whole == 2
    if missing.all():
        return ""
    said = []
    if missing.sum() > k // 2:
        said.append(f"only the terms of {_named(~missing, 'k')} are in the sums")
    elif missing.any():
        said.append(f"the terms of {_named(missing, 'k')} are left out of the sums")
    if twice.any():
        said.append(f"the terms of {_named(twice, 'k')} are added twice")
    return f"{'; '.join(said)} (k goes from 0 to {k - 1})"


def _solved(left: Array, right: Array) -> Array | None:
    """X of left · X = right, if there is one and it is certain enough."""
    # By normal equations, which take less time than a singular value decomposition: a search for the multiples that
    # a kernel needs has dozens of wrong results. Their eigenvalues are the squares of the singular values.
    gram, given = left.T @ left, left.T @ right
    values = np.linalg.eigvalsh(gram)
    if values[0] < 1e-10 * values[-1]:
        return None
    solution = np.linalg.solve(gram, given)
    solution += np.linalg.solve(gram, left.T @ (right - left @ solution))
    scale = np.abs(left).sum(axis=1).max() * max(1e-30, float(np.abs(solution).max()))
    return np.asarray(solution) if float(np.abs(left @ solution - right).max()) <= 1e-6 * scale else None


def _statement(operand: _Operand) -> str:
    differs = operand.differs
    if not differs.any():
        return ""
    return _missing(operand, differs) or _transposed(operand, differs) or _moved(operand, differs)


def _missing(operand: _Operand, differs: Array) -> str:
    """Elements that count nothing, or twice."""
    for factor, word in ((0.0, "are left out of the sums"), (2.0, "are added twice")):
        if _explains_all(operand.equal(factor * operand.is_), differs):
            return f"elements of {operand.name} {word}: {_where(operand, differs) or 'all of them'}"
    return ""


def _transposed(operand: _Operand, differs: Array) -> str:
    """Tiles whose rows and columns are swapped."""
    for size in _TILES:
        if any(extent % size for extent in operand.is_.shape):
            continue
        rows, columns = operand.is_.shape
        tiles = operand.is_.reshape(rows // size, size, columns // size, size)
        swapped = tiles.transpose(0, 3, 2, 1).reshape(rows, columns)
        if _explains_all(operand.equal(swapped), differs):
            return (
                f"in place of {operand.name} the kernel multiplies {operand.name} with rows and columns swapped inside "
                f"each tile of {size}x{size}"
            )
    return ""


def _moved(operand: _Operand, differs: Array) -> str:
    """Other elements at constant distances."""
    left, parts = differs.copy(), []
    for _ in range(_MOST_OFFSETS):
        offset = _likeliest(operand, left)
        if offset is None:
            return ""
        there = left & operand.equal(_shifted(operand.is_, *offset))
        if np.count_nonzero(there) < max(2, _MOSTLY * differs.sum()):
            return ""
        parts.append(f"{operand.name}[{operand.row}{_signed(offset[0])}][{operand.column}{_signed(offset[1])}]"
                     f"{_where(operand, there, ' for ')}")  # fmt: skip
        left &= ~there
        if np.count_nonzero(left) <= _MOSTLY * differs.sum():
            own = f"{operand.name}[{operand.row}][{operand.column}]"
            return f"in place of {own} the kernel multiplies {', and '.join(parts)}"
    return ""


def _likeliest(operand: _Operand, left: Array) -> tuple[int, int] | None:
    """The offset at which most of the elements that differ find their value."""
    places = np.argwhere(left)
    chosen = places[np.unique(np.linspace(0, len(places) - 1, _VOTES).astype(int))]
    close = _CLOSE * float(np.abs(operand.is_).max())
    votes: Counter[tuple[int, int]] = Counter()
    for row, column in chosen:
        for r, c in np.argwhere(np.abs(operand.is_ - operand.seen[row, column]) <= close):
            votes[int(r - row), int(c - column)] += 1
    best = sorted(votes.items(), key=lambda each: (-each[1], abs(each[0][0]) + abs(each[0][1])))[:1]
    return best[0][0] if best and best[0][1] > 1 else None


def _shifted(values: Array, down: int, right: int) -> Array:
    """``values[r + down][c + right]`` at each place; NaN beyond the edges."""
    found = np.full_like(values, np.nan)
    rows, columns = values.shape
    here = slice(max(0, -down), min(rows, rows - down)), slice(max(0, -right), min(columns, columns - right))
    there = slice(max(0, down), min(rows, rows + down)), slice(max(0, right), min(columns, columns + right))
    found[here] = values[there]
    return found


def _explains_all(equal: Array, differs: Array) -> bool:
    """Whether every element that differs has the value that was looked for."""
    return bool(np.count_nonzero(differs & ~equal) == 0)


def _where(operand: _Operand, mask: Array, before: str = "") -> str:
    """Rows and columns of some elements; empty for all."""
    rows, columns = (np.asarray(counts > counts.max() / 4) for counts in (mask.sum(axis=1), mask.sum(axis=0)))
    names = [_named(each, name) for each, name in ((rows, operand.row), (columns, operand.column)) if not each.all()]
    return before + ", ".join(names) if names else ""


def _named(mask: Array, name: str) -> str:
    """A set of rows, columns or k: 'k = 4 to 7 of each 8'."""
    word = {"r": "row", "c": "column", "k": "k"}[name]
    said = lines(mask, word) or f"all {word}s"
    if word != "k":
        return said
    said = said.replace("ks >=", "k >=").replace("ks <", "k <").replace("ks,", "k,").replace("all ks", "all k")
    return re.sub(r"\bks? (?=\d)", "k = ", said)  # `k` has no plural, and numbers of it follow an equals sign


def _signed(offset: int) -> str:
    return f" {'+' if offset > 0 else '-'} {abs(offset)}" if offset else ""
