"""``c ? a : b`` in the text of host code."""

from __future__ import annotations

import re
from collections.abc import Iterator

Conditions = tuple[tuple[str, bool], ...]  # as written, and whether each holds
_OPENS, _CLOSES = "([{", ")]}"
_COLON = re.compile(r"(?<!:):(?!:)")
_BRACKETED = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")


def branches(text: str) -> Iterator[tuple[str, Conditions]]:
    """Each value of ``c ? a : b``, of nested ones too, with the conditions that choose it; ``text`` if it is none."""
    parts = ternary(without_parentheses(text))
    if parts is None:
        yield without_parentheses(text), ()
        return
    condition, *values = parts
    for value, holds in zip(values, (True, False), strict=True):
        for each, when in branches(value):
            yield each, ((condition, holds), *when)


def ternary(text: str) -> tuple[str, str, str] | None:
    """Condition and values of ``c ? a : b``; None for all else."""
    depth, asked, start = 0, 0, 0
    for at, char in enumerate(text):
        depth += (char in _OPENS) - (char in _CLOSES)
        if depth:
            continue
        if char == "?":
            asked += 1
            start = start or at
        elif char == ":" and ":" not in (text[at - 1], text[at + 1 : at + 2]) and asked:
            asked -= 1
            if not asked:
                last = text[at + 1 :].strip()
                parts = without_parentheses(text[:start]), text[start + 1 : at].strip(), last
                return None if _closes_template(last) else parts
    return None


def _closes_template(text: str) -> bool:
    """Whether it ends with an angle bracket that was opened before: ``gemm<c ? 2 : 1>`` is one kernel."""
    while text != (outside := _BRACKETED.sub("", text)):
        text = outside
    text = text.replace("->", "")
    last = _COLON.split(text)[-1]  # of several values
    return text.endswith(">") and all(each.count("<") < each.count(">") for each in (text, last))


def without_parentheses(text: str) -> str:
    """Without parentheses around all of it."""
    text = text.strip()
    while text.startswith("(") and text.endswith(")") and wraps(text):
        text = text[1:-1].strip()
    return text


def wraps(text: str) -> bool:
    """Whether the first parenthesis is closed by the last character."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char in _OPENS) - (char in _CLOSES)
        if depth == 0:
            return at == len(text) - 1
    return False
