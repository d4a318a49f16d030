"""How much memory host code allocates for what a launch passes: more than the matrix where it is padded."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gemmsmith.errors import UsageError
from gemmsmith.userfile.host_frame import Frame
from gemmsmith.userfile.host_values import HostScope
from gemmsmith.userfile.preprocessor import arguments_of, closing
from gemmsmith.userfile.values import evaluate_int

_ALLOCATION = r"\bcudaMalloc(?:Managed|Async|Host)?\s*\((?=\s*(?:\(\s*void\s*\*\s*\*\s*\)\s*)?&\s*{}\s*,)"


def allocated_bytes(name: str, scope: HostScope) -> int | None:
    """The bytes that ``name`` is allocated with in the function of ``scope`` or in its callers; None if not known."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        return None
    for text in _sizes(name, scope.frame):
        try:
            return evaluate_int(text, scope)
        except (UsageError, RecursionError):
            continue
    return None


def _sizes(name: str, frame: Frame) -> Iterator[str]:
    if frame.function is None:
        return
    body = frame.function.body
    for match in re.finditer(_ALLOCATION.format(re.escape(name)), body):
        given = arguments_of(body[match.end() : closing(body, match.end() - 1)])
        if len(given) > 1:
            yield given[1]
