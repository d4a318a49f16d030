"""The rows in the pages of an SQLite file, read without SQLite: from the leaves, whatever leads to them.

Only what is needed to salvage rows: b-tree pages with records, and their overflow pages (sqlite.org/fileformat2.html).
A page or cell that makes no sense is skipped; callers prove each row by its checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR = 0x0D, 0x0A, 0x02
_SIZES: tuple[int, ...] = tuple(2**exponent for exponent in range(9, 17))  # the page sizes that SQLite has
_MOST_VALUES = 200  # in one record; our widest table has fewer than 50
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


@dataclass(frozen=True)
class RawRow:
    """The values of a record; ``rowid`` is None in a table without row ids."""

    rowid: int | None
    values: tuple[Any, ...]


def raw_rows(data: bytes) -> Iterator[RawRow]:
    """All rows in the file's pages, those of deleted pages too."""
    size = _page_size(data)
    for start in range(0, len(data), size):
        yield from _page_rows(data, start, size)


def _page_size(data: bytes) -> int:
    """As the header says; if that is damaged, the size that gives the most rows."""
    said = int.from_bytes(data[16:18], "big")
    said = 65536 if said == 1 else said
    if said in _SIZES and any(row for at in range(0, 32 * said, said) for row in _page_rows(data, at, said)):
        return said
    rows = {size: sum(1 for at in range(0, len(data), size) for _ in _page_rows(data, at, size)) for size in _SIZES}
    return max(_SIZES, key=lambda size: rows[size])


def _page_rows(data: bytes, start: int, size: int) -> Iterator[RawRow]:
    page = data[start : start + size]
    head = 100 if start == 0 else 0  # the file's header
    if len(page) < size or page[head] not in (_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR):
        return
    kind = page[head]
    pointers = head + (12 if kind == _INDEX_INTERIOR else 8)
    cells = int.from_bytes(page[head + 3 : head + 5], "big")
    for index in range(min(cells, size // 4)):
        at = int.from_bytes(page[pointers + 2 * index : pointers + 2 * index + 2], "big")
        try:
            yield _cell(data, page, at, kind, size)
        except (IndexError, ValueError, struct.error):
            continue


def _cell(data: bytes, page: bytes, at: int, kind: int, size: int) -> RawRow:
    at += 4 if kind == _INDEX_INTERIOR else 0  # the child's page
    length, at = _varint(page, at)
    rowid = None
    if kind == _TABLE_LEAF:
        rowid, at = _varint(page, at)
    return RawRow(rowid, _record(_payload(data, page, at, length, kind, size)))


def _payload(data: bytes, page: bytes, at: int, length: int, kind: int, size: int) -> bytes:
    """The record's bytes: on the page, and on overflow pages if it is long."""
    if not 0 < length <= len(data):
        raise ValueError("no payload")
    most = size - 35 if kind == _TABLE_LEAF else (size - 12) * 64 // 255 - 23
    if length <= most:
        return _exactly(page[at : at + length], length)
    least = (size - 12) * 32 // 255 - 23
    local = least + (length - least) % (size - 4)
    local = local if local <= most else least
    found = page[at : at + local]
    following = int.from_bytes(page[at + local : at + local + 4], "big")
    while following and len(found) < length:
        overflow = data[(following - 1) * size : following * size]
        following = int.from_bytes(overflow[:4], "big")
        if len(overflow) < size:
            break
        found += overflow[4:]
    return _exactly(found[:length], length)


def _exactly(found: bytes, length: int) -> bytes:
    if len(found) != length:
        raise ValueError("a record ends outside its page")
    return found


def _record(payload: bytes) -> tuple[Any, ...]:
    end, at = _varint(payload, 0)
    types: list[int] = []
    while at < end and len(types) < _MOST_VALUES:
        kind, at = _varint(payload, at)
        types.append(kind)
    values, at = [], end
    for kind in types:
        value, at = _value(payload, at, kind)
        values.append(value)
    return tuple(values)


def _value(payload: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind == 0:
        return None, at
    if kind in _INTEGER_BYTES:
        end = at + _INTEGER_BYTES[kind]
        return int.from_bytes(_exactly(payload[at:end], end - at), "big", signed=True), end
    if kind == 7:
        return struct.unpack(">d", payload[at : at + 8])[0], at + 8
    if kind in (8, 9):
        return kind - 8, at
    if kind < 12:
        raise ValueError("a reserved type")
    length = (kind - 12) // 2
    raw = _exactly(payload[at : at + length], length)
    return raw if kind % 2 == 0 else raw.decode(errors="surrogateescape"), at + length


def _varint(data: Sequence[int], at: int) -> tuple[int, int]:
    """An integer of one to nine bytes, and where it ends."""
    value = 0
    for index in range(8):
        byte = data[at + index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + index + 1
    value = value << 8 | data[at + 8]
    return value - (1 << 64) if value >> 63 else value, at + 9
