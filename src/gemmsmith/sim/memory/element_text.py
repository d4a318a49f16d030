"""Which element of an array an address is, in words."""

from __future__ import annotations


def element_text(name: str, offset: int, size: int, itemsize: int) -> str:
    """Which element of an array lies ``offset`` bytes from its start, and how far outside that is."""
    index, count = offset // itemsize, size // itemsize
    many = f"{name} has {count} element{'s' if count != 1 else ''}"
    if index < 0:
        return f"{name}[{index}], {-index} before its start ({many})"
    if index < count:
        return f"it starts inside {name}, at {name}[{index}], and runs over its end ({many})"
    return f"{name}[{index}], {index - count + 1} past its end ({many})"
