"""Which outputs are wrong, in words: "rows >= 64", "every 2nd column", "rows 16 to 31 of each 32"."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
_LONGEST = 128  # period that is looked for
_MOST_BOXES = 3
_MOSTLY = 0.5  # of the outputs in these rows and columns: some may be right by chance


def places(wrong: Mask) -> str:
    """The rows and columns of these outputs; empty where they are everywhere, one box, or in no
    pattern."""
    rows, columns = np.asarray(wrong.any(axis=1)), np.asarray(wrong.any(axis=0))
    if not rows.any() or np.count_nonzero(wrong[np.ix_(rows, columns)]) < _MOSTLY * rows.sum() * columns.sum():
        return ""
    here, there = lines(rows, "row"), lines(columns, "column")
    if not here and not there:
        return ""
    if here and there and _is_one_range(rows) and _is_one_range(columns):
        return ""  # a box, which its corners describe
    return f"{here}, but only {there}" if here and there else here or there


def boxes(mask: Mask) -> str:
    """Up to three rectangles that make up all of these outputs: 'rows < 32 with columns >= 64'; empty for more."""
    left = mask.copy()
    found: list[str] = []
    while left.any():
        if len(found) == _MOST_BOXES:
            return ""
        row, column = np.unravel_index(int(np.argmax(left)), left.shape)
        ends = np.flatnonzero(~left[row, column:])
        right = int(column + ends[0]) if ends.size else left.shape[1]
        whole = left[row:, column:right].all(axis=1)
        down = int(row + np.argmin(whole)) if not whole.all() else left.shape[0]
        box = np.zeros_like(mask)
        box[row:down, column:right] = True
        left &= ~box
        here, there = lines(np.asarray(box.any(axis=1)), "row"), lines(np.asarray(box.any(axis=0)), "column")
        found.append(f"{here or 'all rows'} with {there or 'all columns'}")
    return "; ".join(found)


def _is_one_range(mask: Mask) -> bool:
    found = np.flatnonzero(mask)
    return int(found[-1]) - int(found[0]) + 1 == found.size


def lines(mask: NDArray[Any], word: str) -> str:
    """A set of rows or columns; empty if it is all of them."""
    found, size = np.flatnonzero(mask), mask.size
    if found.size == size:
        return ""
    first, last = int(found[0]), int(found[-1])
    if found.size == 1:
        return f"{word} {first}"
    if last - first + 1 == found.size:
        if last == size - 1:
            return f"{word}s >= {first}"
        return f"{word}s < {last + 1}" if first == 0 else f"{word}s {first} to {last}"
    return _periodic(np.asarray(mask, bool), word) or f"{found.size} of {size} {word}s, the first is {first}"


def _periodic(mask: Mask, word: str) -> str:
    for period in range(2, min(_LONGEST, mask.size // 2) + 1):
        whole = mask[: mask.size // period * period].reshape(-1, period)
        rest = mask[whole.size :]
        if not (whole == whole[0]).all() or not (rest == whole[0][: rest.size]).all():
            continue
        inside = np.flatnonzero(whole[0])
        if inside.size == 1:
            start = int(inside[0])
            return f"every {_ordinal(period)} {word} ({start}, {start + period}, {start + 2 * period}, ...)"
        if int(inside[-1]) - int(inside[0]) + 1 == inside.size:
            return f"{word}s {int(inside[0])} to {int(inside[-1])} of each {period}"
        return ""
    return ""


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
