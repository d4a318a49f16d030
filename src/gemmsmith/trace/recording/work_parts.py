"""The parts of a product that one block computes: from what it loads of A and B, tile after tile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Extent(NamedTuple):
    """First and last row and column."""

    first_row: int
    last_row: int
    first_column: int
    last_column: int

    def along(self, axis: int) -> tuple[int, int]:
        return (self.first_column, self.last_column) if axis else (self.first_row, self.last_row)


Part = tuple[int, ...]  # first and last row of C, first and last column, first and last k


def joined(extents: Sequence[Extent]) -> Extent:
    """The smallest extent around all of them."""
    low_row, high_row, low_column, high_column = zip(*extents, strict=True)
    return Extent(min(low_row), max(high_row), min(low_column), max(high_column))


def copied_parts(by_issuer: Iterable[Sequence[Extent]], along: int) -> list[Extent]:
    """Copies in their order, joined while k (the axis ``along``) does not go back: there the next tile begins.

    Blocks of a cluster copy for one another: each sequence has the same parts.
    """
    split: list[list[Extent]] = []
    for copies in by_issuer:
        found: list[list[Extent]] = []
        for each in copies:
            if not found or each.along(along)[0] < found[-1][-1].along(along)[0]:
                found.append([])
            found[-1].append(each)
        split.append([joined(each) for each in found])
    if len({len(each) for each in split}) != 1:
        return []
    return [joined(each) for each in zip(*split, strict=True)]


def paired(of_a: Sequence[Extent], of_b: Sequence[Extent], stored: Sequence[Extent] = ()) -> tuple[Part, ...]:
    """Rows of A and columns of B that meet, with their part of k; () where the two do not fit together.

    Where one of the two is not known, because a copy of it is read, what was ``stored`` stands for it.
    """
    if len(of_a) == len(stored) == 1 and not of_b:
        of_b = [Extent(of_a[0].first_column, of_a[0].last_column, stored[0].first_column, stored[0].last_column)]
    elif len(of_b) == len(stored) == 1 and not of_a:
        of_a = [Extent(stored[0].first_row, stored[0].last_row, of_b[0].first_row, of_b[0].last_row)]
    if not of_a or len(of_a) != len(of_b):
        return ()
    found: list[Part] = []
    for a, b in zip(of_a, of_b, strict=True):
        if a.along(1) != b.along(0):  # not the same k: the arrays are not what they are taken for
            return ()
        part = (a.first_row, a.last_row, b.first_column, b.last_column, *a.along(1))
        if not any(_inside(part, other) for other in found):
            found = [other for other in found if not _inside(other, part)] + [part]
    return tuple(_merged(found))


def _inside(part: Part, other: Part) -> bool:
    pairs = zip(part[::2], part[1::2], other[::2], other[1::2], strict=True)
    return all(low >= around and high <= end for low, high, around, end in pairs)


def _merged(parts: Sequence[Part]) -> list[Part]:
    """Neighbours that differ along one axis alone, and touch there, are one part."""
    found: list[Part] = []
    for part in parts:
        if found and (both := _both(found[-1], part)) is not None:
            found[-1] = both
        else:
            found.append(part)
    return found


def _both(one: Part, other: Part) -> Part | None:
    differ = [axis for axis in range(3) if one[2 * axis : 2 * axis + 2] != other[2 * axis : 2 * axis + 2]]
    if len(differ) != 1:
        return None
    at = 2 * differ[0]
    if other[at] != one[at + 1] + 1:
        return None
    return (*one[: at + 1], *other[at + 1 : at + 2], *one[at + 2 :])
