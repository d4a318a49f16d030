"""Accesses to arrays in shared memory in the source: the array's name and its subscripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemmsmith.cure.code import Code, Function, Program, below

if TYPE_CHECKING:
    from tree_sitter import Node

_SHARED = re.compile(r"__shared__[^;]*")
_NAME = re.compile(r"\b([A-Za-z_]\w*)\s*(?=\[|,|$)")
_SIZED = re.compile(r"\b([A-Za-z_]\w*)\s*((?:\[[^\]]*\]\s*)+)")


@dataclass(frozen=True)
class SharedAccess:
    """``array[i][j]``, or a row of it that is passed on; ``indices`` are what stands between the brackets."""

    code: Code
    node: Node
    array: str
    indices: tuple[Node, ...]

    @property
    def line(self) -> int:
        return self.code.line(self.node.start_byte)

    def text(self, place: int) -> str:
        return " ".join(self.code.of(self.indices[place]).split())


def shared_names(program: Program) -> frozenset[str]:
    """The names that the files declare in shared memory."""
    declared = " ".join(_SHARED.findall("\n".join(code.text for code in program.files)))
    return frozenset(_NAME.findall(re.sub(r"\[[^\]]*\]", "[", declared)))


def shared_accesses(program: Program, function: Function) -> Iterator[SharedAccess]:
    """The outermost subscripts of each access, in order."""
    names = shared_names(program)
    for node in below(function.body, "subscript_expression"):
        parent = node.parent
        if parent is not None and parent.type == "subscript_expression" and parent.children[0].id == node.id:
            continue
        indices: list[Node] = []
        inner: Node | None = node
        while inner is not None and inner.type == "subscript_expression":
            listed = inner.child_by_field_name("indices")
            if listed is None or listed.named_child_count != 1:
                break
            indices.insert(0, listed.named_children[0])
            inner = inner.child_by_field_name("argument")
        if inner is not None and inner.type == "identifier" and function.code.of(inner) in names and indices:
            yield SharedAccess(function.code, node, function.code.of(inner), tuple(indices))


def declared_rows(program: Program) -> dict[str, str]:
    """The length of a row of each array in shared memory that has rows: {"Bs": "BN + 8"}."""
    texts = "\n".join(code.text for code in program.files)
    found = (each for declared in _SHARED.findall(texts) for each in _SIZED.findall(declared))
    sizes = {name: re.findall(r"\[([^\]]*)\]", listed) for name, listed in found}
    return {name: " ".join(listed[-1].split()) for name, listed in sizes.items() if len(listed) > 1}


def declared_sizes(program: Program) -> dict[str, tuple[str, ...]]:
    """The constants that each array in shared memory is declared with: {"Bs": ("BK", "BN")}."""
    found: dict[str, tuple[str, ...]] = {}
    for declared in _SHARED.findall("\n".join(code.text for code in program.files)):
        for name, sizes in _SIZED.findall(declared):
            found[name] = tuple(dict.fromkeys(re.findall(r"\b[A-Z]\w*", sizes)))
    return found


def first_sizes(program: Program) -> dict[str, str]:
    """The first size of each array in shared memory: {"full": "STAGES", "As": "2"}."""
    texts = "\n".join(code.text for code in program.files)
    found = (each for declared in _SHARED.findall(texts) for each in _SIZED.findall(declared))
    return {name: " ".join(re.findall(r"\[([^\]]*)\]", listed)[0].split()) for name, listed in found}
