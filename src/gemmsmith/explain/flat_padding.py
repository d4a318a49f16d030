"""Longer rows for a tile in a flat array: `Bs[T * T]`, indexed `Bs[x * T + k]`, gets rows of T + 1 elements."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from gemmsmith.explain.access_pattern import WORD, AccessPattern
from gemmsmith.kernel.spec import KernelSpec

_BANKS = 128  # bytes after which a column is in the same bank again
_PRODUCT = re.compile(r"(?P<rows>.+?)\s*\*\s*(?P<row>\w+)")


def flat_paddings(pattern: AccessPattern) -> tuple[int, ...]:
    """Elements that may be added to each row: as many as one access has, which keeps vectors whole, then one word."""
    declared, stride = pattern.declaration, abs(pattern.stride or 0)
    if declared is None or len(declared.extents) != 1 or not stride or stride % _BANKS:
        return ()
    if _PRODUCT.fullmatch(declared.extents[0]) is None:
        return ()
    return tuple(dict.fromkeys(max(1, size // declared.itemsize) for size in (max(WORD, pattern.width), WORD)))


def flat_remedy(pattern: AccessPattern, more: int) -> str:
    """What to change, in the user's names."""
    declared = pattern.declaration
    assert declared is not None
    parts = _PRODUCT.fullmatch(declared.extents[0])
    assert parts is not None
    row = f"({parts['row']} + {more})"
    return (f"Give {declared.name} rows of {parts['row']} + {more} elements: declare {declared.name}[{parts['rows']} * "
            f"{row}] ({declared.file}:{declared.line}), and write {row} for {parts['row']} wherever it is indexed; the "
            "rows then start in different banks.")  # fmt: skip


def flat_copy(spec: KernelSpec, pattern: AccessPattern, more: int, path: Path | None) -> KernelSpec | None:
    """The kernel with longer rows; None where an index does not multiply by the length of a row."""
    declared = pattern.declaration
    if declared is None or path is None or (parts := _PRODUCT.fullmatch(declared.extents[0])) is None:
        return None
    text = path.read_text(encoding="utf-8-sig", errors="surrogateescape")
    row, pieces, last, found = re.escape(parts["row"]), [], 0, 0
    for match in re.finditer(rf"\b{re.escape(declared.name)}\s*\[", text):
        end = _closing(text, match.end())
        inside = text[match.end() : end]
        longer, count = re.subn(rf"\*\s*{row}\b", f"* ({parts['row']} + {more})", inside, count=1)
        if not count:
            return None
        pieces += [text[last : match.end()], longer]
        last, found = end, found + 1
    if found < 2:
        return None
    return replace(spec, edited=(*spec.edited, (path, "".join([*pieces, text[last:]]))))


def _closing(text: str, start: int) -> int:
    """The place of the bracket that closes one before ``start``."""
    depth = 1
    for at in range(start, len(text)):
        depth += (text[at] == "[") - (text[at] == "]")
        if not depth:
            return at
    return len(text)
