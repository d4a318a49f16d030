"""Names on the command line: GPUs and shape suites, and the nearest known name where one is misspelt."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gemmsmith.errors import UsageError

if TYPE_CHECKING:
    from gemmsmith.gpus import GPU
    from gemmsmith.shapes import Shape


_LONGEST = 60  # characters of a wrong word that a message repeats


def shown(word: str) -> str:
    """A wrong word for a message, cut if it is very long."""
    return repr(word if len(word) <= _LONGEST else word[:_LONGEST] + "…")


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """'did you mean X? ', to begin a hint with; empty where no known name is near. Case does not matter.

    cutoff   the least similarity, from 0 to 1
    """
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower()[:_LONGEST], by_lower, n=1, cutoff=cutoff)
    return f"did you mean {by_lower[near[0]]}? " if near else ""


def gpu_from(word: str) -> GPU:
    """The GPU called ``word``."""
    from gemmsmith.gpus import gpu_named

    return gpu_named(word)


def shapes_from(text: str) -> tuple[Shape, ...]:
    """The shapes written as ``text``: suite names and MxNxK, comma-separated."""
    from gemmsmith.shapes import SUITES, parse_shapes

    for word in (word.strip() for word in text.split(",")):
        if re.match(r"[A-Za-z]", word) and word not in SUITES:
            raise UsageError(
                f"unknown shape suite {shown(word)}",
                f"{did_you_mean(word, SUITES)}use one of {', '.join(SUITES)}, or MxNxK",
            )
    return parse_shapes(text)
