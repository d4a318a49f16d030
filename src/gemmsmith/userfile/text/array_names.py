"""Elements of shared arrays as the source calls them: byte 0x4c4 of ``__shared__ float As[16][17]`` is As[17][16]."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemmsmith.userfile.host.values import Number, UnknownValueError, Value, evaluate_int
from gemmsmith.userfile.text.type_text import size_of_type

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class DeclaredArray:
    """A shared array: its extents (None: not known), the bytes of an element, and where it begins in its memory.

    An array of structs has their ``members``; one struct alone has no extents.
    """

    name: str
    extents: tuple[int | None, ...]
    itemsize: int
    start: int = 0
    members: tuple[DeclaredArray, ...] = ()

    def element(self, offset: int) -> str:
        """The element ``offset`` bytes from the start: 'As[3][17]', 'stages[1].As[3][17]'; empty where the extents are
        not known.
        """
        inner = self.extents[1:]
        if (offset < 0 and inner) or any(extent is None or extent < 1 for extent in inner):
            return ""
        index, indices = offset // self.itemsize, []
        for extent in reversed(inner):
            assert extent is not None
            indices.append(index % extent)
            index //= extent
        alone = not self.extents and index == 0
        name = self.name + ("" if alone else "".join(f"[{i}]" for i in (index, *reversed(indices))))
        if not self.members:
            return name
        member, within = self.member(offset)
        return f"{name}.{member.element(within)}" if member is not None else ""

    def member(self, offset: int) -> tuple[DeclaredArray | None, int]:
        """The member of a struct that a byte belongs to, and the byte's place in it; None between two members."""
        within = offset % self.itemsize
        for member in self.members:
            if member.start <= within < member.start + member.nbytes:
                return member, within - member.start
        return None, 0

    @property
    def nbytes(self) -> int:
        return math.prod(extent or 0 for extent in self.extents) * self.itemsize

    @property
    def last(self) -> str:
        """The last element."""
        return self.element(math.prod(extent or 1 for extent in self.extents) * self.itemsize - 1)

    @property
    def shape(self) -> str:
        """'float-sized extents' as declared: [16][17]; empty where the first is not known."""
        return "" if None in self.extents else "".join(f"[{extent}]" for extent in self.extents)


@dataclass(frozen=True)
class Constants:
    """Integers and types by name, as the kernel was compiled."""

    integers: Mapping[str, int]
    types: Mapping[str, str]

    def value(self, name: str) -> Value:
        found = self.integers.get(name, self.integers.get(name.rsplit("::", 1)[-1]))
        if found is None:
            raise UnknownValueError(f"{name} has no value")
        return found

    def whole(self, text: str) -> Value | None:
        del text
        return None

    def meant(self, spelled: Number) -> Number:
        return spelled

    def call(self, name: str, template: Sequence[str], arguments: Sequence[str]) -> Value:
        del template, arguments
        raise UnknownValueError(f"{name} is a function")

    def size_of(self, text: str) -> int:
        for _ in range(8):
            bare = re.sub(r"\b(?:const|volatile|typename|struct)\b", " ", text).strip()
            if "*" in bare:
                return 8
            try:
                return size_of_type(bare)
            except UnknownValueError:
                if (known := self.types.get(bare)) is None or known == text:
                    raise
                text = known
        raise UnknownValueError(f"sizeof({text})")

    def integer(self, text: str) -> int | None:
        try:
            return evaluate_int(text, self)
        except (UnknownValueError, RecursionError):
            return None

    def itemsize(self, text: str) -> int:
        """The bytes of a type; 0 where it is not known."""
        try:
            return self.size_of(text)
        except UnknownValueError:
            return 0
