"""Configuration parameters that earlier versions of gemmsmith called otherwise.

Tuning files, tables and databases of those versions hold the old names; they are converted when they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

RENAMED: Mapping[str, str] = MappingProxyType(
    {
        "LOOSE": "UNALIGNED_OPERANDS",
        "NARROW": "TAIL_BN",
        "ORDERED": "DETERMINISTIC",
        "TURNED": "TRANSPOSED_COPY",
    }
)


def current_names(values: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """A configuration's values under the names of this version."""
    return tuple((RENAMED.get(name, name), value) for name, value in values)
