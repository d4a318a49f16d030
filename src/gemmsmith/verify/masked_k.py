"""Whether threads of a kernel compare a k of their own with K: a mask on the last k-tile, for a ragged K only."""

from __future__ import annotations

import re

_ASSIGNED = re.compile(r"\b(\w+)\s*[-+*]?=(?!=)([^;=]*)")
_THREAD = re.compile(r"\bthreadIdx\b")
_NAME = re.compile(r"\b[A-Za-z_]\w*\b")
_SIDE = r"([^;?{}<>=&|!]*)"  # of a comparison: up to the next operator that binds less


def masks_k(text: str, name: str) -> bool:
    """Whether ``text``, without the heads of loops, compares what depends on threadIdx with ``name``."""
    own = _own_names(text)

    def depends(side: str) -> bool:
        return _THREAD.search(side) is not None or any(word in own for word in _NAME.findall(side))

    below = re.findall(rf"{_SIDE}<\s*{re.escape(name)}\b(?!\s*[-+*/%])", text)
    above = re.findall(rf"{_SIDE}>=\s*{re.escape(name)}\b(?!\s*[-+*/%])", text)
    return any(depends(side.rpartition("if")[2]) for side in (*below, *above))


def _own_names(text: str) -> set[str]:
    """Variables that are computed from threadIdx, or from others that are."""
    found: set[str] = set()
    assigned = _ASSIGNED.findall(text)
    while True:
        more = {name for name, value in assigned
                if _THREAD.search(value) or any(word in found for word in _NAME.findall(value))}  # fmt: skip
        if more <= found:
            return found
        found |= more
