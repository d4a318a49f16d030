"""Kernels that take an array of pointers to rows (``float** A`` and ``A[i][k]``): they are refused, as the arrays of
pointers that are made have one for each matrix of a batch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set

from gemmsmith.errors import SignatureError
from gemmsmith.kernel.element_types import parameter_type
from gemmsmith.userfile.text.parts import KernelParameter


def refuse_row_pointers(
    entry: str, parameters: Sequence[KernelParameter], body: str, aliases: Mapping[str, str]
) -> None:
    """Raise for a kernel that finds a row by one index and an element of it by the next."""
    tables = [each.name for each in parameters if parameter_type(each.type, aliases).stars == 2]
    matrices = {index for name in tables for index, second in _accesses(name, body) if not second}
    rows = [name for name in tables if _has_rows(name, body, matrices)]
    if rows:
        raise SignatureError(
            f"{entry}: {' and '.join(rows)} hold{'s' if len(rows) == 1 else ''} a pointer to each row; check does not "
            "build such arrays",
            "take one pointer to all rows, A[i * K + k]; or run one launch with gemmsmith.launch and arguments of your "
            "own",
        )


def _has_rows(name: str, body: str, matrices: Set[str]) -> bool:
    """Whether every element is found by two plain indices: that of a matrix in a batch has a row times its length, and
    ``matrices`` are the first indices by which other arrays give whole matrices."""
    found = _accesses(name, body)
    return bool(found) and all(second and "*" not in second and first not in matrices for first, second in found)


def _accesses(name: str, body: str) -> list[tuple[str, str]]:
    """The indices of each access: that of a pointer, and that of an element behind it, in brackets; empty for none."""
    found = re.findall(rf"(?<![\w.]){re.escape(name)}\s*\[([^\[\]]*)\]\s*(\[[^\[\]]*\])?", body)
    return [(first.strip(), second) for first, second in found]
