"""Which axis of a grid counts products, where the kernel takes one for each block index along it.

Mostly that is z. A kernel without ``blockIdx.z`` may take one for each ``blockIdx.y``, where x counts the tiles of C,
or one for each block. The number of products may stand in the grid alone: the kernel is not told it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gemmsmith.kernel.expressions import split
from gemmsmith.userfile.text.preprocessor import closing

_AXES = "xyz"
_BARE = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->)\w+)*")
_DIM3 = re.compile(r"(?:dim3\b)?\s*[({]")
_FEWEST_OFFSETS = {2: 2, 1: 3, 0: 3}  # of A, B and C; blocks along z seldom count anything but products
_ONE_PRODUCT = re.compile(r"\bgridDim\.z\b|\batomicAdd\w*\s*\(|\bred\.(?:global|relaxed|add)|fetch_add")


def product_axis(code: str) -> int:
    """The last axis along which the kernel numbers its blocks: those of one number there are launched together."""
    return max((axis for axis, name in enumerate(_AXES) if f"blockIdx.{name}" in code), default=0)


def product_number(code: str) -> tuple[str, ...]:
    """What the kernel calls its block's number along that axis: ``blockIdx.z``, and variables that are copies of it."""
    index = f"blockIdx.{_AXES[product_axis(code)]}"
    return index, *re.findall(rf"\b([A-Za-z_]\w*)\s*=\s*(?:\([\w ]+\)\s*)?{re.escape(index)}\s*[;,]", code)


def product_offsets(code: str, extents: Sequence[str]) -> int:
    """How many times the kernel multiplies that number, or groups of it, by two extents: ``A + b * M * K``, or
    ``(b * M + row) * K``."""
    cast = r"(?:\([\w ]+\)\s*)?"
    number = rf"\(?{cast}\(?(?<![\w.])(?:{'|'.join(map(re.escape, product_number(code)))})\s*(?:/\s*\w+\s*)?\)?"
    extent = rf"\(?{cast}(?<![\w.])(?:{'|'.join(map(re.escape, extents))})\b"
    first = rf"{number}\s*\*\s*{extent}"
    nested = rf"\({first}\s*\+[^();=]*\)\s*\*\s*{extent}"
    return len(re.findall(rf"{nested}|{first}\s*\*\s*{extent}|{extent}\s*\*\s*{extent}\s*\)?\s*\*\s*{number}", code))


def grid_counter(code: str, grid: str, passed: Sequence[str], extents: Sequence[str]) -> str:
    """The variable of host code that is the grid's extent along the axis of products, and that the kernel is not told:
    ``dim3 grid((N + 15) / 16, (M + 15) / 16, heads)``. Empty where none is, or where blocks share one product.

    grid     as host code writes it
    passed   the launch's arguments
    extents  the kernel's names for M, N and K
    """
    axis, parts = product_axis(code), grid_parts(grid)
    if len(parts) != axis + 1 or not _BARE.fullmatch(parts[axis]) or _ONE_PRODUCT.search(code) or not extents:
        return ""
    is_told = any(re.search(rf"(?<![\w.]){re.escape(parts[axis])}\b", text) for text in passed)
    return "" if is_told or product_offsets(code, extents) < _FEWEST_OFFSETS[axis] else parts[axis]


def grid_parts(grid: str) -> list[str]:
    """The extents of a grid as texts: of ``dim3(a, b)``, of ``{a, b}`` or of one number."""
    begin = _DIM3.match(grid.strip())
    return split(grid.strip()[begin.end() : closing(grid.strip(), begin.end() - 1)]) if begin else [grid.strip()]
