"""Numbers of parts of K that the caller of a launcher chooses."""

from __future__ import annotations

import re

ASSUMED_PARTS = 4
# What a launcher calls them.
_PARTS = re.compile(
    r"(?:(?:wanted|max|target|desired|requested|chosen)_?)?(?:(?:n|num|number_?of|k)_?)?(?:k_?)?"
    r"(?:splits?|parts|slices|chunks|partitions)(?:_?k)?|split_?k(?:_?(?:slices|splits|parts|factor|count|num))?",
    re.I,
)


def is_number_of_parts(name: str) -> bool:
    """Whether a launcher's parameter with this name is a number of parts of K."""
    return _PARTS.fullmatch(name) is not None
