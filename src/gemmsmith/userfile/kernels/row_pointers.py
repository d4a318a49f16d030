"""Kernels that take an array of pointers to rows (``float** A`` and ``A[i][k]``): they are refused, as the arrays of
pointers that are made have one for each matrix of a batch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gemmsmith.errors import SignatureError
from gemmsmith.kernel.element_types import parameter_type
from gemmsmith.userfile.text.parts import KernelParameter


def refuse_row_pointers(
    entry: str, parameters: Sequence[KernelParameter], body: str, aliases: Mapping[str, str]
) -> None:
    """Raise for a kernel that finds a row by one index and an element of it by the next."""
    tables = [each.name for each in parameters if parameter_type(each.type, aliases).stars == 2]
    rows = [name for name in tables if _has_rows(name, body)]
    if rows:
        raise SignatureError(
            f"{entry}: {' and '.join(rows)} hold{'s' if len(rows) == 1 else ''} a pointer to each row; check does not "
            "build such arrays",
            "take one pointer to all rows, A[i * K + k]; or run one launch with gemmsmith.launch and arguments of your "
            "own",
        )


def _has_rows(name: str, body: str) -> bool:
    """Whether every element is found by two plain indices: that of a matrix in a batch has a row times its length."""
    found = re.findall(rf"(?<![\w.]){re.escape(name)}\s*\[[^\[\]]*\]\s*(\[[^\[\]]*\])?", body)
    return bool(found) and all(second and "*" not in second for second in found)
