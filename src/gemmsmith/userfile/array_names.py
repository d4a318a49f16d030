"""Elements of shared arrays as the source calls them: byte 0x4c4 of ``__shared__ float As[16][17]`` is As[17][16].

Extents are evaluated with the kernel's constants, and believed only if they give the size that the compiler gave the
array. Dynamic shared memory has one name and often several pointers into it; these are followed as far as their
offsets are constants.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemmsmith.userfile.declared import innermost
from gemmsmith.userfile.source_tree import SourceTree, nodes
from gemmsmith.userfile.type_text import size_of_type
from gemmsmith.userfile.values import Number, UnknownValueError, Value, evaluate_int

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True)
class DeclaredArray:
    """A shared array: its extents (None: not known), the bytes of an element, and where it begins in its memory."""

    name: str
    extents: tuple[int | None, ...]
    itemsize: int
    start: int = 0

    def element(self, offset: int) -> str:
        """The element ``offset`` bytes from the start: 'As[3][17]'; empty where the extents are not known."""
        inner = self.extents[1:]
        if (offset < 0 and inner) or any(extent is None or extent < 1 for extent in inner):
            return ""
        index, indices = offset // self.itemsize, []
        for extent in reversed(inner):
            assert extent is not None
            indices.append(index % extent)
            index //= extent
        return self.name + "".join(f"[{i}]" for i in (index, *reversed(indices)))

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


def declared_array(
    trees: Iterable[SourceTree], constants: Constants, name: str, size: int, shared: bool = True
) -> DeclaredArray | None:
    """The ``__shared__`` array ``name`` that has ``size`` bytes, 0 for dynamic shared memory; or a thread's own."""
    for tree in trees:
        for node in nodes(tree.root):
            if node.type != "declaration" or bool(re.search(r"\b__shared__\b", tree.text(node))) != shared:
                continue
            for declarator in node.children_by_field_name("declarator"):
                if declarator.type == "init_declarator":
                    declarator = declarator.child_by_field_name("declarator") or declarator
                if tree.text(innermost(declarator)) != name:
                    continue
                found = _array(tree, node, declarator, name, constants)
                if found is not None and _fits(found, size):
                    return _completed(found, size)
    return None


def _array(tree: SourceTree, node: Node, declarator: Node, name: str, constants: Constants) -> DeclaredArray | None:
    itemsize = constants.itemsize(tree.text(node.child_by_field_name("type")))
    extents: list[int | None] = []
    here: Node | None = declarator
    while here is not None and here.type == "array_declarator":
        text = tree.text(here.child_by_field_name("size"))
        extents.append(constants.integer(text) if text else None)
        here = here.child_by_field_name("declarator")
    if not itemsize or here is None or here.type != "identifier":
        return None
    return DeclaredArray(name, tuple(reversed(extents)), itemsize)


def _fits(array: DeclaredArray, size: int) -> bool:
    known = math.prod(extent for extent in array.extents if extent is not None) * array.itemsize
    return size == 0 or (size == known if None not in array.extents else known > 0 and size % known == 0)


def _completed(array: DeclaredArray, size: int) -> DeclaredArray:
    """One extent that is not known follows from the size."""
    missing = [i for i, extent in enumerate(array.extents) if extent is None]
    if size and len(missing) == 1:
        known = math.prod(extent for extent in array.extents if extent is not None) * array.itemsize
        extents = tuple(size // known if extent is None else extent for extent in array.extents)
        return DeclaredArray(array.name, extents, array.itemsize)
    return array


# --- pointers into dynamic shared memory


def pointer_into(
    tree: SourceTree, line: int, array: DeclaredArray, pointer: str, constants: Constants
) -> DeclaredArray | None:
    """The array that ``pointer``, declared in the function around a line, points to, where its offset is a constant."""
    function = tree.function(line)
    known: dict[str, tuple[int, int]] = {array.name: (array.start, array.itemsize)}
    for node in nodes(function) if function is not None else ():
        if node.type != "init_declarator" or node.parent is None:
            continue
        declarator, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        name = tree.text(innermost(declarator))
        kind = tree.text(node.parent.child_by_field_name("type"))
        if value is None or not name or ("*" not in tree.text(declarator) + kind and kind != "auto"):
            continue
        place = _place(tree, value, known, constants)
        itemsize = place[1] if place is not None and kind == "auto" else constants.itemsize(kind)
        if place is not None and itemsize:
            known[name] = place[0], itemsize
    if pointer == array.name or pointer not in known:
        return None
    return DeclaredArray(pointer, (None,), known[pointer][1], known[pointer][0])


def _place(
    tree: SourceTree, node: Node, known: Mapping[str, tuple[int, int]], constants: Constants
) -> tuple[int, int] | None:
    """The byte that an expression points to, and the size of what it points to; None if that is not constant."""
    match node.type:
        case "identifier":
            return known.get(tree.text(node))
        case "parenthesized_expression":
            return _place(tree, node.named_children[0], known, constants)
        case "cast_expression" | "call_expression":
            return _cast(tree, node, known, constants)
        case "binary_expression":
            return _sum(tree, node, known, constants)
        case "pointer_expression":
            inner = node.child_by_field_name("argument")
            if tree.code[node.start_byte] == "&" and inner is not None and inner.type == "subscript_expression":
                base = inner.child_by_field_name("argument")
                index = constants.integer(tree.text(inner.child_by_field_name("indices"))[1:-1])
                place = _place(tree, base, known, constants) if base is not None else None
                return None if place is None or index is None else (place[0] + index * place[1], place[1])
    return None


def _cast(
    tree: SourceTree, node: Node, known: Mapping[str, tuple[int, int]], constants: Constants
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
    place = _place(tree, value, known, constants) if value is not None else None
    itemsize = constants.itemsize(kind.strip().removesuffix("*")) if kind.strip().endswith("*") else 0
    return None if place is None or not itemsize else (place[0], itemsize)


def _sum(
    tree: SourceTree, node: Node, known: Mapping[str, tuple[int, int]], constants: Constants
) -> tuple[int, int] | None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    operator = tree.text(node.child_by_field_name("operator"))
    if left is None or right is None or operator not in ("+", "-"):
        return None
    place, count = _place(tree, left, known, constants), constants.integer(tree.text(right))
    if place is None and operator == "+":
        place, count = _place(tree, right, known, constants), constants.integer(tree.text(left))
    if place is None or count is None:
        return None
    return place[0] + (count if operator == "+" else -count) * place[1], place[1]
