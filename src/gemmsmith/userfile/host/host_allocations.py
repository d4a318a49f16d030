"""How much memory host code allocates for what a launch passes: more than the matrix where it is padded."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gemmsmith.errors import UsageError
from gemmsmith.userfile.host.host_frame import Frame
from gemmsmith.userfile.host.host_values import HostScope
from gemmsmith.userfile.host.values import evaluate_int
from gemmsmith.userfile.text.preprocessor import arguments_of, closing

_NULL = ("nullptr", "NULL", "0")
_ALLOCATION = r"\bcudaMalloc(?:Managed|Async|Host)?\s*\((?=\s*(?:\(\s*void\s*\*\s*\*\s*\)\s*)?&\s*{}\s*,)"


def allocated_bytes(name: str, scope: HostScope) -> int | None:
    """The bytes that ``name`` is allocated with in the function of ``scope``; None if not known."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        return None
    for text in _sizes(name, scope.frame):
        try:
            return evaluate_int(text, scope)
        except (UsageError, RecursionError):
            continue
    return None


def allocated_by_owner(name: str, scope: HostScope) -> int | None:
    """The same for an array that callers pass: the bytes of the allocation where it belongs; None if not known."""
    at: HostScope | None = scope
    while at is not None and (found := allocated_bytes(name, at)) is None:
        try:
            passed = at.passed_for(name)
        except UsageError:
            return None
        name, at = passed if passed is not None else (name, None)
    return found if at is not None else None


def allocates(name: str, frame: Frame) -> bool:
    """Whether the function of ``frame`` allocates ``name``."""
    return any(True for _ in _sizes(name, frame))


def may_be_null(text: str, frame: Frame) -> bool:
    """Whether host code passes a null pointer, or a parameter that is one unless a caller gives another, or that it
    tests for one: ``debug ? … : …``."""
    at: Frame | None = frame
    while at is not None:
        text = re.sub(r"^\(\s*[\w:\s]+\*+\s*\)\s*", "", text.strip())
        if text in _NULL:
            return True
        variable = at.locals.variables.get(text)
        if variable is not None:
            return variable.value in _NULL and text not in at.locals.changed
        places = [i for i, p in enumerate(at.function.parameters) if p.name == text] if at.function else []
        if not places or at.function is None:
            return False
        if at.function.parameters[places[0]].default in _NULL or _is_tested(text, at.function.body):
            return True
        if at.caller is None or places[0] >= len(at.arguments):
            return False
        text, at = at.arguments[places[0]], at.caller
    return False


def _is_tested(name: str, body: str) -> bool:
    word = re.escape(name)
    return re.search(rf"(?<![\w.>*&]){word}\s*\?|\bif\s*\(\s*!?\s*{word}\s*\)|"
                     rf"(?<![\w.>*&]){word}\s*[!=]=\s*(?:nullptr|NULL)\b", body) is not None  # fmt: skip


def _sizes(name: str, frame: Frame) -> Iterator[str]:
    if frame.function is None:
        return
    body = frame.function.body
    for match in re.finditer(_ALLOCATION.format(re.escape(name)), body):
        given = arguments_of(body[match.end() : closing(body, match.end() - 1)])
        if len(given) > 1:
            yield given[1]
