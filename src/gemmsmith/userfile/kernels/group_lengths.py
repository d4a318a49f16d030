"""For which lengths of groups along K a kernel is launched, as far as its file says it."""

from __future__ import annotations

import re

_COMPARED = r"(?<![\w.]){name}\s*[!=]=\s*(\d+)\b|\b(\d+)\s*[!=]=\s*{name}\b"
_LISTED = re.compile(r"\bgroup\w*\b[^;{}\n]{0,40}?((?:\b\d+(?:\s*[,/|]\s*(?:or\s+)?|\s+or\s+))+\d+)\b", re.I)
_AT_LEAST = r"(?<![\w.]){name}\b[^;{{}}()\n]{{0,40}}?(?:>=|≥|\bat least)\s*(\d+)\b"
_LENGTHS = (16, 32, 64, 128, 256)


def group_lengths(name: str, text: str) -> tuple[int, ...]:
    """The lengths that host code compares ``name`` with (``group != 32 && group != 64``), that a comment lists, or that
    are as long as the text says they must be (``group >= 32``), from the longest on; empty where nothing says it."""
    compared = re.findall(_COMPARED.format(name=re.escape(name)), text)
    found = {int(number) for pair in compared for number in pair if number} & set(_LENGTHS)
    if not found:
        found = {int(number) for listed in _LISTED.findall(text) for number in re.findall(r"\d+", listed)}
    if not found and (least := re.search(_AT_LEAST.format(name=re.escape(name)), text)) is not None:
        found = {length for length in _LENGTHS if length >= int(least[1])}
    return tuple(sorted(found & set(_LENGTHS), reverse=True))
