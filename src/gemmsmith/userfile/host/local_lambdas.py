"""Lambdas that host code computes a number with: ``auto blocks = [](int n) { return (n + 15) / 16; };``"""

from __future__ import annotations

import re

_LAMBDA = re.compile(
    r"\[[^\]]*\]\s*\(([^()]*)\)\s*(?:(?:mutable|constexpr|noexcept)\s*)*(?:->\s*[\w:\s]+?)?\s*"
    r"\{\s*return\b\s*([^;{}]*);\s*\}"
)
_NAME = re.compile(r"(\w+)\s*$")


def returned_text(value: str) -> tuple[tuple[str, ...], str] | None:
    """The names of the parameters and what is returned, of a lambda with one statement; None for anything else."""
    found = _LAMBDA.fullmatch(value.strip())
    if found is None:
        return None
    named = [_NAME.search(part) for part in found[1].split(",") if part.strip()]
    names = tuple(match[1] for match in named if match is not None)
    return (names, found[2]) if len(names) == len(named) else None
