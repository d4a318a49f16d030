"""Pointers into dynamic shared memory, which has one name: they are followed as far as their offsets are constants."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gemmsmith.userfile.text.array_names import Constants, DeclaredArray
from gemmsmith.userfile.text.declared import innermost
from gemmsmith.userfile.text.source_tree import SourceTree, nodes
from gemmsmith.userfile.text.struct_layout import layout_of

if TYPE_CHECKING:
    from tree_sitter import Node


def pointer_into(
    tree: SourceTree, line: int, array: DeclaredArray, pointer: str, constants: Constants,
    trees: Sequence[SourceTree] = (),
) -> DeclaredArray | None:  # fmt: skip
    """The array that ``pointer``, declared in the function around a line, points to, where its offset is a constant.

    ``trees`` are the files that define structs.
    """
    function = tree.function(line)
    pointers = _Pointers(tree, constants, trees, {array.name: (array.start, array.itemsize)})
    for node in nodes(function) if function is not None else ():
        if node.type == "init_declarator" and node.parent is not None:
            pointers.declare(node, tree.text(node.parent.child_by_field_name("type")))
    if pointer == array.name or pointer not in pointers.known:
        return None
    start, itemsize = pointers.known[pointer]
    return pointers.structs.get(pointer) or DeclaredArray(pointer, (None,), itemsize, start)


@dataclass
class _Pointers:
    """The pointers declared so far: the byte that each points to, and the size of what it points to."""

    tree: SourceTree
    constants: Constants
    trees: Sequence[SourceTree]
    known: dict[str, tuple[int, int]]
    structs: dict[str, DeclaredArray] = field(default_factory=dict)

    def declare(self, node: Node, kind: str) -> None:
        declarator, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        text = self.tree.text(declarator)
        name = self.tree.text(innermost(declarator))
        if value is None or not name or (not re.search(r"[*&]", text + kind) and kind != "auto"):
            return
        place = self.place(value)
        if place is None:
            return
        itemsize, members = (place[1], ()) if kind == "auto" else self._pointee(kind)
        if members:
            self.structs[name] = DeclaredArray(name, () if "&" in text else (None,), itemsize, place[0], members)
        if itemsize:
            self.known[name] = place[0], itemsize

    def _pointee(self, kind: str) -> tuple[int, tuple[DeclaredArray, ...]]:
        """The bytes of a type, 0 where they are not known, and the members of a struct."""
        if itemsize := self.constants.itemsize(kind):
            return itemsize, ()
        layout = layout_of(self.trees, self.constants, kind)
        return (layout.size, layout.members) if layout is not None else (0, ())

    def place(self, node: Node) -> tuple[int, int] | None:
        """The byte that an expression points to, and the size of what it points to; None if that is not constant."""
        match node.type:
            case "identifier":
                return self.known.get(self.tree.text(node))
            case "parenthesized_expression":
                return self.place(node.named_children[0])
            case "cast_expression" | "call_expression":
                return self._cast(node)
            case "binary_expression":
                return self._sum(node)
            case "pointer_expression":
                inner = node.child_by_field_name("argument")
                sign = self.tree.code[node.start_byte]
                if sign == "*" and inner is not None:
                    return self.place(inner)
                if sign == "&" and inner is not None and inner.type == "subscript_expression":
                    base = inner.child_by_field_name("argument")
                    index = self.constants.integer(self.tree.text(inner.child_by_field_name("indices"))[1:-1])
                    place = self.place(base) if base is not None else None
                    return None if place is None or index is None else (place[0] + index * place[1], place[1])
        return None

    def _cast(self, node: Node) -> tuple[int, int] | None:
        if node.type == "cast_expression":
            kind, value = self.tree.text(node.child_by_field_name("type")), node.child_by_field_name("value")
        else:
            called = re.fullmatch(
                r"(?:reinterpret|static|const)_cast\s*<(.*)>", self.tree.text(node.child_by_field_name("function"))
            )
            given = node.child_by_field_name("arguments")
            if called is None or given is None or len(given.named_children) != 1:
                return None
            kind, value = called[1], given.named_children[0]
        place = self.place(value) if value is not None else None
        if place is None or not kind.strip().endswith("*"):
            return None
        itemsize = self._pointee(kind.strip().removesuffix("*").strip())[0]
        return (place[0], itemsize) if itemsize else None

    def _sum(self, node: Node) -> tuple[int, int] | None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = self.tree.text(node.child_by_field_name("operator"))
        if left is None or right is None or operator not in ("+", "-"):
            return None
        place, count = self.place(left), self.constants.integer(self.tree.text(right))
        if place is None and operator == "+":
            place, count = self.place(right), self.constants.integer(self.tree.text(left))
        if place is None or count is None:
            return None
        return place[0] + (count if operator == "+" else -count) * place[1], place[1]
