"""For which lengths of groups along K a kernel is launched, as far as its file says it."""

from __future__ import annotations

import re

_COMPARED = r"(?<![\w.]){name}\s*[!=]=\s*(\d+)\b|\b(\d+)\s*[!=]=\s*{name}\b"
_LISTED = re.compile(r"\bgroup\w*\b[^;{}\n]{0,40}?((?:\b\d+(?:\s*[,/|]\s*(?:or\s+)?|\s+or\s+))+\d+)\b", re.I)
_LENGTHS = (16, 32, 64, 128, 256)


def group_lengths(name: str, text: str) -> tuple[int, ...]:
    """The lengths that host code compares ``name`` with (``group != 32 && group != 64``), or that a comment lists, from
    the longest on; empty where neither says it."""
    compared = re.findall(_COMPARED.format(name=re.escape(name)), text)
    found = {int(number) for pair in compared for number in pair if number}
    if not found:
        found = {int(number) for listed in _LISTED.findall(text) for number in re.findall(r"\d+", listed)}
    return tuple(sorted(found & set(_LENGTHS), reverse=True))
