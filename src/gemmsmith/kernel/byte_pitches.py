"""Leading dimensions that a kernel takes in bytes, as ``cudaMallocPitch`` returns them."""

from __future__ import annotations

import re
from collections.abc import Mapping

_BYTE = r"(?:const\s+)?(?:unsigned\s+|signed\s+)?(?:char|uint8_t|int8_t|uchar|std::byte|uchar1)(?:\s+const)?\s*\*"


def is_in_bytes(name: str, body: str) -> bool:
    """Whether ``body`` divides ``name`` by the size of an element, or adds multiples of it to a pointer to bytes."""
    word = rf"\b{re.escape(name)}\b"
    if re.search(rf"{word}\s*\)?\s*/\s*(?:\(\s*\w+\s*\)\s*)?sizeof\b", body):
        return True
    return any(re.search(_BYTE, statement) and re.search(rf"\*\s*{word}|{word}\s*\*(?!\s*\))", statement)
               for statement in re.split(r"[;{}]", body) if name in statement)  # fmt: skip


def with_byte_pitches(
    roles: Mapping[int, str], names: Mapping[int, str], itemsizes: Mapping[str, int], body: str
) -> dict[int, str]:
    """``roles`` by place, where a leading dimension in bytes is a formula: "4*lda". ``itemsizes``: by matrix, "A"."""
    found = dict(roles)
    for place, role in roles.items():
        size = itemsizes.get(role[2:].upper(), 0) if role in ("lda", "ldb", "ldc") else 0
        if size > 1 and is_in_bytes(names[place], body):
            found[place] = f"{size}*{role}"
    return found
