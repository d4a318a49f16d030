"""Parameters of host functions that are filled in for the caller: ``void plan(int M, dim3* grid, dim3& block)``."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from gemmsmith.userfile.text.parts import FunctionSource


def is_filled(kind: str, by_address: bool) -> bool:
    """Whether a function can change the variable that is passed for a parameter of this type, by its address or not."""
    kind = kind.strip()
    if by_address or kind.endswith("*"):
        return kind.endswith("*") and not re.match(r"(?:const\s[^*]*|[^*]*\sconst\s*)\*$", kind)
    return kind.endswith("&") and not re.search(r"\bconst\b", kind)


@lru_cache(maxsize=128)
def with_references(function: FunctionSource) -> FunctionSource:
    """The same function, where what its pointers point to is written as the parameters themselves: ``*grid = …`` is
    ``grid = …``. Every offset stays."""
    body = function.body
    for parameter in function.parameters:
        if parameter.type.endswith("*") and parameter.name:
            body = re.sub(rf"\*(\s*){re.escape(parameter.name)}\b(?!\s*\[)", rf" \1{parameter.name}", body)
            body = re.sub(
                rf"\(( \s*){re.escape(parameter.name)}\s*\)(?=\s*\.)",
                lambda m: m[0].replace("(", " ").replace(")", " "),
                body,
            )
    return replace(function, body=body)
