"""What a sweep varies: parameters, macros, sizes, types, waves, or resources set by hand."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gemmsmith.errors import UsageError

EXTENTS = ("SIZE", "M", "N", "K")
WAVES = "WAVES"
RESOURCES = ("registers", "threads", "smem")
SPECIAL = (*EXTENTS, WAVES, "dtype", *RESOURCES)
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Axis:
    """One dimension of the grid. Several names vary together, as TM and TN of a thread's tile do."""

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]

    @property
    def title(self) -> str:
        return "×".join(self.names)

    def label(self, settings: Pairs) -> str:
        """A point's value on this axis: '8×4'."""
        return "×".join(value for name, value in settings if name in self.names)


def parse_axis(text: str) -> Axis:
    """'BK=8,16,32', or 'TM,TN=4x4,8x4' for names that vary together. Order is kept, repetitions are dropped."""
    left, equals, right = text.partition("=")
    names = tuple(name.strip() for name in left.split(","))
    words = [word.strip() for word in right.split(",")]
    example = "write --vary BK=8,16,32, or --vary TM,TN=4x4,8x4 for values that go together"
    if not equals or not all(re.fullmatch(r"[A-Za-z_]\w*", name) for name in names) or not all(words):
        raise UsageError(f"cannot read --vary {text!r}", example)
    if len(set(names)) < len(names):
        raise UsageError(f"--vary {text!r} names a parameter twice", example)
    values = [tuple(word.split("x")) if len(names) > 1 else (word,) for word in words]
    for word, value in zip(words, values, strict=True):
        if len(value) != len(names) or not all(value):
            raise UsageError(f"{word!r} in --vary {text!r} is not {len(names)} values joined by x", example)
    return Axis(names, tuple(dict.fromkeys(values)))


def integer(name: str, text: str) -> int:
    if re.fullmatch(r"-?[0-9]{1,18}", text) is None:
        raise UsageError(f"{name}={text} is not an integer")
    return int(text)
