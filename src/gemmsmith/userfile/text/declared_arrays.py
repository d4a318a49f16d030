"""Declarations of shared arrays and of a thread's own: their extents, and the bytes of an element.

Extents are evaluated with the kernel's constants, and believed only if they give the size that the compiler gave the
array.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gemmsmith.userfile.text.array_names import Constants, DeclaredArray
from gemmsmith.userfile.text.declared import innermost
from gemmsmith.userfile.text.source_tree import SourceTree, nodes
from gemmsmith.userfile.text.struct_layout import layout_of

if TYPE_CHECKING:
    from tree_sitter import Node


def declared_array(
    trees: Sequence[SourceTree], constants: Constants, name: str, size: int, shared: bool = True
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
                found = _array(trees, tree, node, declarator, name, constants)
                if found is not None and _fits(found, size):
                    return _completed(found, size)
    return None


def _array(
    trees: Sequence[SourceTree], tree: SourceTree, node: Node, declarator: Node, name: str, constants: Constants
) -> DeclaredArray | None:
    kind = tree.text(node.child_by_field_name("type"))
    itemsize = constants.itemsize(kind)
    members: tuple[DeclaredArray, ...] = ()
    if not itemsize and (layout := layout_of(trees, constants, kind)) is not None:
        itemsize, members = layout.size, layout.members
    extents: list[int | None] = []
    here: Node | None = declarator
    while here is not None and here.type == "array_declarator":
        text = tree.text(here.child_by_field_name("size"))
        extents.append(constants.integer(text) if text else None)
        here = here.child_by_field_name("declarator")
    if not itemsize or here is None or here.type != "identifier":
        return None
    return DeclaredArray(name, tuple(reversed(extents)), itemsize, members=members)


def _fits(array: DeclaredArray, size: int) -> bool:
    known = math.prod(extent for extent in array.extents if extent is not None) * array.itemsize
    return size == 0 or (size == known if None not in array.extents else known > 0 and size % known == 0)


def _completed(array: DeclaredArray, size: int) -> DeclaredArray:
    """One extent that is not known follows from the size."""
    missing = [i for i, extent in enumerate(array.extents) if extent is None]
    if size and len(missing) == 1:
        known = math.prod(extent for extent in array.extents if extent is not None) * array.itemsize
        extents = tuple(size // known if extent is None else extent for extent in array.extents)
        return replace(array, extents=extents)
    return array
