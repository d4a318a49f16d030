"""For which sizes the comments of a file say that its kernel is made: ``n <= 32``, multiples of 16."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_COMMENT = re.compile(r"//([^\n]*)|/\*(.*?)\*/", re.S)
_MULTIPLE = re.compile(r"(?:multiples?\s+of|divisible\s+by|%|×|whole\s+(?:tiles?|blocks?)\s+of)\s*(\d+)", re.I)
_WORDS = re.compile(
    r"\b(?:multiples?|divisible|whole\s+tiles?|powers?\s+of\s+two|even|exact\s+tiles?|aligned)\b|%", re.I
)
_MOST_MULTIPLE = 256


@dataclass(frozen=True)
class Documented:
    """``limits``: bounds by the extents' names. ``multiple``: of which all extents are; ``vague``: what is said about
    multiples is not understood."""

    limits: tuple[tuple[str, str, int], ...]
    multiple: int
    vague: bool

    def allows(self, sizes: Mapping[str, int]) -> bool:
        return all(_HOLDS[sign](sizes[name], bound) for name, sign, bound in self.limits if name in sizes)


_HOLDS = {"<": lambda x, y: x < y, "<=": lambda x, y: x <= y, ">": lambda x, y: x > y, ">=": lambda x, y: x >= y,
          "==": lambda x, y: x == y}  # fmt: skip


def documented(text: str, extents: Sequence[str]) -> Documented:
    """What comments say of the extents, whose own names are looked for in them."""
    said = " ".join((line or block).replace("≤", "<=").replace("≥", ">=").replace("\n", " ")
                    for line, block in _COMMENT.findall(text))  # fmt: skip
    limits = []
    for name in extents:
        own = re.escape(name.rpartition(".")[2])
        found = re.findall(rf"(?<![\w.]){own}\s*(<=|>=|==|<|>)\s*(\d+)\b(?!\s*[-+*/])", said)
        limits += [(name, sign, int(number)) for sign, number in found]
    multiples = [int(each) for each in _MULTIPLE.findall(said) if 1 < int(each) <= _MOST_MULTIPLE]
    return Documented(tuple(limits), max(multiples, default=1), not multiples and _WORDS.search(said) is not None)
