"""For which sizes the comments of a file say that its kernel is made: ``n <= 32``, multiples of 16."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_COMMENT = re.compile(r"//([^\n]*)|/\*(.*?)\*/", re.S)
_CLAUSE = re.compile(r"[.;()]|,\s(?=[a-z]{3,})")  # what divides a comment into statements
_MULTIPLE = re.compile(r"(?:multiples?\s+of|divisible\s+by|%|whole\s+(?:tiles?|blocks?)\s+of)\s*(\d+)", re.I)
_WORDS = re.compile(r"\b(?:multiples?|divisible|whole\s+tiles?|powers?\s+of\s+two|even|exact\s+tiles?)\b|%", re.I)
_ALL = re.compile(r"\b(?:sizes?|dim(?:ension)?s?|shapes?|extents?|everything|all|matrices)\b")
_MOST_MULTIPLE = 256


@dataclass(frozen=True)
class Documented:
    """``limits``: bounds by the extents' names. ``multiple``: of which all extents are; ``told``: the extents of which
    comments say so; ``vague``: those of which they say something about multiples that is not understood."""

    limits: tuple[tuple[str, str, int], ...]
    multiple: int
    told: frozenset[str]
    vague: frozenset[str]

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
        found = re.findall(rf"(?<!\w){own}\s*(<=|>=|==|<|>|up\s+to|at\s+most)\s*(\d+)\b(?!\s*[-+*/])", said)
        found = [("<=" if sign[0].isalpha() else sign, number) for sign, number in found]
        limits += [(name, sign, int(number)) for sign, number in found]
    subjects = {name: re.compile(rf"\b{re.escape(name.rpartition('.')[2])}\b") for name in extents}
    multiples, told, vague = list[int](), set[str](), set[str]()
    for clause in _CLAUSE.split(said):
        word = _WORDS.search(clause)
        if word is None:
            continue
        before = clause[: word.start()]
        named = set(extents) if _ALL.search(before) else {name for name, own in subjects.items() if own.search(before)}
        if not named:
            continue
        found = [int(each) for each in _MULTIPLE.findall(clause) if 1 < int(each) <= _MOST_MULTIPLE]
        found = found or [2] * (word[0].lower() == "even")
        multiples += found
        (told if found else vague).update(named)
    return Documented(tuple(limits), max(multiples, default=1), frozenset(told - vague), frozenset(vague))
