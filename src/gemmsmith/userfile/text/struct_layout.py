"""Members of a struct by their bytes: byte 1,088 of ``struct { float As[16][17]; float Bs[16][16]; }`` is Bs[0][0].

C++ lays members out in the order of their declaration, each at a multiple of its alignment. Where something else plays
a part (a base class, a union, a bit field, a virtual function, a type that is not known), there is no layout.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gemmsmith.userfile.launches.launch_text import split_template
from gemmsmith.userfile.text.array_names import Constants, DeclaredArray
from gemmsmith.userfile.text.declared import innermost
from gemmsmith.userfile.text.source_tree import SourceTree, nodes

if TYPE_CHECKING:
    from tree_sitter import Node

_STRUCTS = ("struct_specifier", "class_specifier")
_ALIGNED = re.compile(r"(?:alignas|__align__)\s*\(([^()]*)\)")
_NAME = re.compile(r"(?:[A-Za-z_]\w*\s*::\s*)*([A-Za-z_]\w*)\s*(?:<(.*)>)?", re.S)
_DEEPEST = 8


@dataclass(frozen=True)
class Layout:
    """The bytes of a struct, and its members with where each begins."""

    size: int
    alignment: int
    members: tuple[DeclaredArray, ...]


def layout_of(trees: Iterable[SourceTree], constants: Constants, kind: str, depth: int = 0) -> Layout | None:
    """The layout of the struct that ``kind`` names: 'Tiles', 'ns::Tiles<128, 8>' or an alias of one."""
    kind = re.sub(r"\b(?:const|volatile|typename|struct|class)\b", " ", kind).strip()
    named = _NAME.fullmatch(kind)
    if named is None or depth > _DEEPEST:
        return None
    trees = tuple(trees)
    for tree in trees:
        for node in nodes(tree.root):
            if node.type in _STRUCTS and tree.text(node.child_by_field_name("name")) == named[1]:
                body = node.child_by_field_name("body")
                if body is not None and (inside := _with_arguments(tree, node, constants, named[2])) is not None:
                    return _laid_out(trees, tree, node, body, inside, depth)
    alias = constants.types.get(kind)
    return layout_of(trees, constants, alias, depth + 1) if alias and alias != kind else None


def _with_arguments(tree: SourceTree, node: Node, constants: Constants, given: str | None) -> Constants | None:
    """The constants, and what a template's parameters are; None where arguments and parameters do not match."""
    template = node.parent
    if template is None or template.type != "template_declaration":
        return constants if given is None else None
    listed = template.child_by_field_name("parameters")
    parameters = listed.named_children if listed is not None else []
    texts = split_template(given or "")
    if len(texts) > len(parameters):
        return None
    integers, types = dict(constants.integers), dict(constants.types)
    for at, parameter in enumerate(parameters):
        words = re.match(r"(.*?)([A-Za-z_]\w*)\s*(?:=(.*))?$", tree.text(parameter), re.S)
        if words is None or (at >= len(texts) and not words[3]):
            return None
        text = texts[at] if at < len(texts) else words[3].strip()
        known = Constants(integers, types)
        if re.search(r"\b(?:typename|class)\b", words[1]):
            types[words[2]] = types.get(text, text)
        elif (number := known.integer(text)) is not None:
            integers[words[2]] = number
        else:
            return None
    return Constants(integers, types)


def _laid_out(
    trees: tuple[SourceTree, ...], tree: SourceTree, node: Node, body: Node, constants: Constants, depth: int
) -> Layout | None:
    head = tree.code[node.start_byte : body.start_byte]
    if any(child.type == "base_class_clause" for child in node.children) or re.search(r"#\s*if", tree.text(body)):
        return None
    constants = _with_own_numbers(tree, body, constants)
    at, widest, members = 0, _alignment(head, constants), []
    for field in body.named_children:
        text = tree.text(field)
        if field.type != "field_declaration" or re.match(r"\s*(?:static|constexpr|using|typedef)\b", text):
            if "virtual" in text:
                return None
            continue  # a function, a constant, an alias, a label, a comment
        for member in _members(trees, tree, field, constants, depth):
            if member is None:
                return None
            array, alignment = member
            at += -at % alignment
            members.append(replace(array, start=at))
            at += array.nbytes
            widest = max(widest, alignment)
    return Layout(at + -at % widest, widest, tuple(members)) if members else None


def _with_own_numbers(tree: SourceTree, body: Node, constants: Constants) -> Constants:
    """The constants, and the static ones that the struct itself defines."""
    integers, types = dict(constants.integers), dict(constants.types)
    for text in (tree.text(field) for field in body.named_children):
        if number := re.match(r"\s*static\s+(?:constexpr|const)\s+[\w:]+\s+(\w+)\s*=\s*(.*?)\s*;", text, re.S):
            if (value := Constants(integers, types).integer(number[2])) is not None:
                integers[number[1]] = value
        elif alias := re.match(r"\s*using\s+(\w+)\s*=\s*(?:typename\s+)?(.*?)\s*;", text, re.S):
            types[alias[1]] = types.get(alias[2], alias[2])
    return Constants(integers, types)


def _members(
    trees: tuple[SourceTree, ...], tree: SourceTree, field: Node, constants: Constants, depth: int
) -> Iterator[tuple[DeclaredArray, int] | None]:
    """The members that one declaration declares, with their alignments; None where one is not understood."""
    declarators = field.children_by_field_name("declarator")
    kind = field.child_by_field_name("type")
    if not declarators:
        if kind is None or kind.type not in ("function_definition", "enum_specifier"):
            yield None  # a union or a struct without a name
        return
    for declarator in declarators:
        if declarator.type == "function_declarator":
            continue
        extents: list[int | None] = []
        here: Node | None = declarator
        while here is not None and here.type == "array_declarator":
            extents.append(constants.integer(tree.text(here.child_by_field_name("size"))))
            here = here.child_by_field_name("declarator")
        pointer = here is not None and here.type == "pointer_declarator"
        plain = here is not None and here.type == "field_identifier"
        if None in extents or not (plain or pointer) or any(c.type == "bitfield_clause" for c in field.children):
            yield None
            return
        text = tree.text(kind)
        itemsize, inside = 8 if pointer else constants.itemsize(text), None
        if not itemsize and (inside := layout_of(trees, constants, text, depth + 1)) is not None:
            itemsize = inside.size
        if not itemsize:
            yield None
            return
        alignment = inside.alignment if inside is not None else math.gcd(itemsize, 16)
        alignment = max(alignment, _alignment(tree.text(field), constants))
        name = tree.text(innermost(declarator))
        yield (
            DeclaredArray(name, tuple(reversed(extents)), itemsize, members=inside.members if inside else ()),
            alignment,
        )


def _alignment(text: str, constants: Constants) -> int:
    """The largest alignment that a declaration asks for; 1 if it asks for none."""
    return max((constants.integer(match[1]) or 1 for match in _ALIGNED.finditer(text)), default=1)
