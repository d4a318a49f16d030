"""Whether a kernel is meant for M ≠ N, as far as its host code tells.

A kernel that is right for M = N alone may be meant so: its author has square matrices. Host code that takes M and N as
two numbers, and gives them no equal values, asks for more. Then the kernel is wrong.
"""

from __future__ import annotations

import re

from gemmsmith.kernel.signature import strip_comments
from gemmsmith.kernel.spec import KernelSpec

# Read from the command line, whatever the usual value is.
_GIVEN = r"\b{name}\s*=(?!=)(?:[^;=]|[<>=!]=)*\b(?:ato(?:i|l|ll)|strto\w+|stoi|stol|stoul|argv|getenv)\b"
_VALUE = r"(?:#\s*define\s+{name}\s+|\b{name}\s*[={{(]\s*)\(?\s*(\w+)\s*\)?\s*(?:[;,\n)}}]|$)"


def means_rectangles(spec: KernelSpec) -> bool:
    """Whether the launch passes M and N under two names, or as two fields of one struct, which the file does not set to
    one value, or reads from the command line."""
    extents = {arg.role: arg for arg in spec.signature.arguments if arg.role in ("M", "N")}
    rows, columns = (extents[role].at_launch if role in extents else "" for role in "MN")
    owners = {arg.name.rpartition(".")[0] for arg in extents.values()}
    if len(extents) == 2 and not rows and not columns and len(owners) == 1 and owners != {""}:
        rows, columns = (extents[role].name.rpartition(".")[2] for role in "MN")
    if not rows or not columns or rows == columns or spec.is_rung:
        return False
    code = strip_comments(spec.code)
    if all(re.search(_GIVEN.format(name=re.escape(name)), code) for name in (rows, columns)):
        return True
    values = [set(re.findall(_VALUE.format(name=re.escape(name)), code)) for name in (rows, columns)]
    return not values[0] & values[1] and not (rows in values[1] or columns in values[0])
