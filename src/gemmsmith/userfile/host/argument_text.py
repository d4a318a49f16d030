"""Arguments of a launch as texts: without casts, and with the numbers that variables hold."""

from __future__ import annotations

import re
from collections.abc import Collection

from gemmsmith.userfile.host.host_scope import LocalScope

_CAST = re.compile(r"^(?:\(\s*[\w:\s]+\)\s*|(?:static_cast\s*<[^<>]*>|[\w:]*int\w*|size_t|unsigned)\s*\((?=.*\)$))")

_ARITHMETIC = re.compile(r"[\w\s+\-*/%()<>=!&|?:,]+")
_DEEPEST = 4  # variables that hold variables


def uncast(text: str) -> str:
    """The text without one cast, or without parentheses around it."""
    text = text.strip()
    if text.startswith("(") and text.endswith(")") and text.count("(") == 1:
        return text[1:-1].strip()
    match = _CAST.match(text)
    if match is None:
        return text
    rest = text[match.end() :]
    return rest[:-1] if match[0].rstrip().endswith("(") else rest


def with_values(text: str, scope: LocalScope, kept: Collection[str] = (), depth: int = 0) -> str:
    """An expression in which variables are what they were computed from: (K + splits - 1) / splits, where splits is
    K > 256 ? 4 : 2. Those of ``kept`` stay: host code passes them as extents."""

    def value(word: re.Match[str]) -> str:
        known = last_value(word[0], scope)
        if word[0] in kept or not known:
            return word[0]
        if known.isdecimal():
            return known
        plain = depth < _DEEPEST and _ARITHMETIC.fullmatch(known) and not re.search(rf"\b{word[0]}\b", known)
        return f"({with_values(known, scope, kept, depth + 1)})" if plain else word[0]

    return re.sub(r"(?<![\w.>:])[A-Za-z_]\w*(?![\w:(])", value, text)


def last_value(name: str, scope: LocalScope) -> str:
    """What a variable holds at a place: its initial value, or the one that the branches of an if choose; else ""."""
    variable = scope.variables.get(name)
    if name not in scope.changed:
        return variable.value if variable is not None else ""
    text, changes = scope.choices.get(name, ("", 0))
    return text if changes == len(scope.changed[name]) else ""
