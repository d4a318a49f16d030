"""Whether a kernel is meant for M ≠ N, as far as its host code tells.

A kernel that is right for M = N alone may be meant so: its author has square matrices. Host code that takes M and N as
two numbers, and gives them no equal values, asks for more. Then the kernel is wrong.
"""

from __future__ import annotations

import re

from gemmsmith.kernel.signature import strip_comments
from gemmsmith.kernel.spec import KernelSpec

_VALUE = r"(?:#\s*define\s+{name}\s+|\b{name}\s*[={{(]\s*)\(?\s*(\w+)\s*\)?\s*(?:[;,\n)}}]|$)"


def means_rectangles(spec: KernelSpec) -> bool:
    """Whether the launch passes M and N under two names, which the file does not set to one value."""
    names = {arg.role: arg.at_launch for arg in spec.signature.arguments if arg.role in ("M", "N")}
    rows, columns = names.get("M", ""), names.get("N", "")
    if not rows or not columns or rows == columns or spec.is_rung:
        return False
    code = strip_comments(spec.code)
    values = [set(re.findall(_VALUE.format(name=re.escape(name)), code)) for name in (rows, columns)]
    return not values[0] & values[1] and not (rows in values[1] or columns in values[0])
