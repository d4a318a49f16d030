"""The checksum of a row: of its table, its keys, its values, and the checksums of the rows that belong to it.

The key makes a row at the wrong place visible, the checksums of the parts a part that is missing. 64 bits of BLAKE2b:
a damaged row passes once in 10^19.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any


@dataclass(frozen=True)
class Damage:
    """What is wrong with one row, or with a table: ``row`` is then empty."""

    table: str
    row: str
    reason: str

    def __str__(self) -> str:
        return f"table {self.table}{f', row {self.row}' if self.row else ''}: {self.reason}"


class DamagedRowError(Exception):
    """A row that is not what was written. Caught inside the package: the other rows can be read."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(str(damage))
        self.damage = damage


def checksum(table: str, keys: Sequence[Any], values: Sequence[Any], parts: Sequence[str] = ()) -> str:
    """16 hexadecimal digits. The values are those that SQLite stores: None, int, float, str, bytes."""
    stored = [None if isinstance(value, float) and math.isnan(value) else value for value in values]
    text = repr((table, [*keys], stored, [*parts]))  # exact: the shortest decimal number that gives the same float
    return blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def row_name(names: Sequence[str], keys: Sequence[Any]) -> str:
    """'number 3', or 'measurement 3, position 0'."""
    return ", ".join(f"{name} {key}" for name, key in zip(names, keys, strict=True))
