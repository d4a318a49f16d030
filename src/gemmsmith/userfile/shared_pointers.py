"""Pointers into dynamic shared memory, which has one name: they are followed as far as their offsets are constants."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gemmsmith.userfile.array_names import Constants, DeclaredArray
from gemmsmith.userfile.declared import innermost
from gemmsmith.userfile.source_tree import SourceTree, nodes
from gemmsmith.userfile.struct_layout import layout_of

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
    known: dict[str, tuple[int, int]] = {array.name: (array.start, array.itemsize)}
    structs: dict[str, DeclaredArray] = {}
    for node in nodes(function) if function is not None else ():
        if node.type != "init_declarator" or node.parent is None:
            continue
        declarator, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        name = tree.text(innermost(declarator))
        kind = tree.text(node.parent.child_by_field_name("type"))
        if value is None or not name or (not re.search(r"[*&]", tree.text(declarator) + kind) and kind != "auto"):
            continue
        place = _place(tree, value, known, constants, trees)
        if place is None:
            continue
        itemsize = place[1] if kind == "auto" else constants.itemsize(kind)
        if not itemsize and (layout := layout_of(trees, constants, kind)) is not None:
            extents = () if "&" in tree.text(declarator) else (None,)
            itemsize = layout.size
            structs[name] = DeclaredArray(name, extents, itemsize, place[0], layout.members)
        if itemsize:
            known[name] = place[0], itemsize
    if pointer == array.name or pointer not in known:
        return None
    return structs.get(pointer) or DeclaredArray(pointer, (None,), known[pointer][1], known[pointer][0])


def _place(
    tree: SourceTree,
    node: Node,
    known: Mapping[str, tuple[int, int]],
    constants: Constants,
    trees: Sequence[SourceTree],
) -> tuple[int, int] | None:
    """The byte that an expression points to, and the size of what it points to; None if that is not constant."""
    match node.type:
        case "identifier":
            return known.get(tree.text(node))
        case "parenthesized_expression":
            return _place(tree, node.named_children[0], known, constants, trees)
        case "cast_expression" | "call_expression":
            return _cast(tree, node, known, constants, trees)
        case "binary_expression":
            return _sum(tree, node, known, constants, trees)
        case "pointer_expression":
            inner = node.child_by_field_name("argument")
            if tree.code[node.start_byte] == "*" and inner is not None:
                return _place(tree, inner, known, constants, trees)
            if tree.code[node.start_byte] == "&" and inner is not None and inner.type == "subscript_expression":
                base = inner.child_by_field_name("argument")
                index = constants.integer(tree.text(inner.child_by_field_name("indices"))[1:-1])
                place = _place(tree, base, known, constants, trees) if base is not None else None
                return None if place is None or index is None else (place[0] + index * place[1], place[1])
    return None


def _cast(
    tree: SourceTree,
    node: Node,
    known: Mapping[str, tuple[int, int]],
    constants: Constants,
    trees: Sequence[SourceTree],
) -> tuple[int, int] | None:
    if node.type == "cast_expression":
        kind, value = tree.text(node.child_by_field_name("type")), node.child_by_field_name("value")
    else:
        called = re.fullmatch(
            r"(?:reinterpret|static|const)_cast\s*<(.*)>", tree.text(node.child_by_field_name("function"))
        )
        given = node.child_by_field_name("arguments")
        if called is None or given is None or len(given.named_children) != 1:
            return None
        kind, value = called[1], given.named_children[0]
    place = _place(tree, value, known, constants, trees) if value is not None else None
    to = kind.strip().removesuffix("*").strip() if kind.strip().endswith("*") else ""
    itemsize = constants.itemsize(to) if to else 0
    if to and not itemsize and (layout := layout_of(trees, constants, to)) is not None:
        itemsize = layout.size
    return None if place is None or not itemsize else (place[0], itemsize)


def _sum(
    tree: SourceTree,
    node: Node,
    known: Mapping[str, tuple[int, int]],
    constants: Constants,
    trees: Sequence[SourceTree],
) -> tuple[int, int] | None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    operator = tree.text(node.child_by_field_name("operator"))
    if left is None or right is None or operator not in ("+", "-"):
        return None
    place, count = _place(tree, left, known, constants, trees), constants.integer(tree.text(right))
    if place is None and operator == "+":
        place, count = _place(tree, right, known, constants, trees), constants.integer(tree.text(left))
    if place is None or count is None:
        return None
    return place[0] + (count if operator == "+" else -count) * place[1], place[1]
