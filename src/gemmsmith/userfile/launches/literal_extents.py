"""Numbers of a grid that stand for M, N or K: ``k<<<dim3(4096 / 16, 2048 / 16), …>>>(A, B, C, 2048, 4096, 512)``.

A number is taken for the extent that the launch passes the same value for. Tiles and counts may have that value by
chance, so the grid must behave as grids do: more rows or columns never take fewer blocks, and each number that was
taken gives more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gemmsmith.errors import UsageError
from gemmsmith.kernel.geometry import Dim3

_OF_C = ("M", "N")
LEAST = 32  # smaller numbers are tiles and counts
_TIMES = 64  # a grid for so many times the rows has more blocks, whatever the tile is
Numbers = Mapping[int, int]  # what each number of the source stands for
Grid = Callable[[Numbers], Dim3]


def literal_extents(passed: Mapping[str, int], grid: Grid) -> dict[int, tuple[str, ...]]:
    """The extents that each number of a grid stands for; empty where that explains no grid.

    passed  the values that the launch passes for M, N and K
    grid    the blocks where numbers of the source stand for others
    """
    numbers: dict[int, tuple[str, ...]] = {}
    for role in ("M", "N", "K"):
        value = passed.get(role, 0)
        if value > LEAST and not (role == "K" and value in numbers):  # grids are written with extents of C
            numbers[value] = (*numbers.get(value, ()), role)
    try:
        plain = grid({})
        larger = {value: grid({value: _TIMES * value}) for value in numbers}
    except (UsageError, RecursionError):
        return {}
    taken = {value: numbers[value] for value, blocks in larger.items() if blocks != plain}
    for value in [v for v, roles in taken.items() if roles == ("K",) and not _grows(plain, larger[v])]:
        del taken[value]
    if not any(role in _OF_C for roles in taken.values() for role in roles):
        return {}
    if not all(_grows(plain, larger[value]) for value in taken):
        return {}
    fixed = [plain[axis] for axis in (0, 1) if all(larger[value][axis] == plain[axis] for value in taken)]
    return taken if all(count == 1 for count in fixed) else {}


def _grows(plain: Dim3, larger: Dim3) -> bool:
    return all(more >= less for less, more in zip(plain, larger, strict=True))


def shown(taken: Mapping[int, tuple[str, ...]]) -> str:
    """What was taken for what: "4096 taken as M and N"."""
    return ", ".join(f"{value} taken as {' and '.join(roles)}" for value, roles in taken.items())
