"""Arguments of a launch as texts: without casts, and with the numbers that variables hold."""

from __future__ import annotations

import re

from gemmsmith.userfile.host_scope import LocalScope

_CAST = re.compile(r"^(?:\(\s*[\w:\s]+\)\s*|(?:static_cast\s*<[^<>]*>|[\w:]*int\w*|size_t|unsigned)\s*\((?=.*\)$))")


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


def with_numbers(text: str, scope: LocalScope) -> str:
    """An expression in which variables that hold a number are that number: K / splits, where splits is 4."""

    def value(word: re.Match[str]) -> str:
        variable = scope.variables.get(word[0]) if word[0] not in scope.changed else None
        return variable.value if variable is not None and variable.value.isdecimal() else word[0]

    return re.sub(r"(?<![\w.>:])[A-Za-z_]\w*(?![\w:(])", value, text)
