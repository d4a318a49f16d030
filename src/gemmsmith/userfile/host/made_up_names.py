"""Names of host code that a launch depends on and that have no value there, with values that are made up for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gemmsmith.userfile.host.host_choices import path_of
from gemmsmith.userfile.host.host_frame import Frame
from gemmsmith.userfile.host.host_values import plain_expression

_PATH = re.compile(r"[A-Za-z_]\w*(?:\s*(?:\.|->)\s*[A-Za-z_]\w*)*(?!\w|\s*[(<:])")
_ASKED = re.compile(r"\w+\s*(?:\.|->)\s*size\s*\(\s*-?\d+\s*\)")
_EXTENT = re.compile(r"[mnk]|(?:n|num|dim|size)?_?(?:rows|cols|columns|tokens|[mnk])", re.I)
_USUAL_COUNT = 4  # of blocks for each SM, heads, splits: of a name that belongs to no parameter
_DEEPEST = 4  # variables that hold variables


@dataclass(frozen=True)
class MadeUpNames(Mapping[str, int]):
    """A value for each name: that of the parameter with this name, else the largest one for an extent, and a small
    count for all else. Other names have none.

    asked_sizes  small counts for what host code asks its tensors for, ``x.size(0)``, by the text without brackets
    variables    those that are set to such a size, and are called as a parameter
    """

    names: frozenset[str]
    sizes: Mapping[str, int]
    asked_sizes: Mapping[str, frozenset[int]]
    variables: Mapping[str, frozenset[int]]

    @classmethod
    def of(cls, texts: Iterable[str], frame: Frame, sizes: Mapping[str, int]) -> MadeUpNames:
        """The names in ``texts``, and in the values of the variables there."""
        held = [each for text in texts for each in held_texts(text, frame)]
        names = frozenset(path_of(match[0]) for text in held for match in _PATH.finditer(text))
        asked = {plain_expression(match[0]) for text in held for match in _ASKED.finditer(text)}
        own = {name.rpartition(".")[2].lower(): size for name, size in sizes.items()}
        variables = {name: frozenset({own[name.lower()]}) for name, variable in frame.locals.variables.items()
                     if name.lower() in own and _ASKED.search(variable.value)}  # fmt: skip
        return cls(names, own, dict.fromkeys(asked, frozenset({_USUAL_COUNT})), variables)

    def of_parameters(self) -> MadeUpNames:
        """Only the names that parameters have."""
        named = frozenset(name for name in self.names if name.rpartition(".")[2].lower() in self.sizes)
        return MadeUpNames(named, self.sizes, {}, self.variables)

    def __getitem__(self, name: str) -> int:
        if name not in self.names:
            raise KeyError(name)
        last = name.rpartition(".")[2].lower()
        usual = max(self.sizes.values(), default=_USUAL_COUNT) if _EXTENT.fullmatch(last) else _USUAL_COUNT
        return self.sizes.get(last, usual)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def held_texts(text: str, frame: Frame) -> Iterator[str]:
    """A text, and the values of the variables that it names and that these name."""
    scope, seen, new = frame.locals, set[str](), [text]
    for _ in range(_DEEPEST):
        yield from new
        words = {word for each in new for word in re.findall(r"[A-Za-z_]\w*", each)} - seen
        seen |= words
        held = [scope.variables[word].value for word in words if word in scope.variables]
        new = held + [member.value for path, member in scope.members.items() if path.partition(".")[0] in words]
