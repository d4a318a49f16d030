"""Indices that overflow an int in large matrices: their products, and the variables that hold them, get 64 bits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.accesses import extents, global_accesses, operands
from gemmsmith.cure.code import Code, Function, Program, below
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.wording import flat, in_lines

if TYPE_CHECKING:
    from tree_sitter import Node

_WIDE = "size_t"
_LONG = re.compile(r"\b(?:size_t|ptrdiff_t|u?int64_t|long)\b|\b\d+[uU]?[lL]")
_SHORT = ("int", "unsigned", "unsigned int", "uint", "uint32_t", "int32_t")
_MOST_SHOWN, _LONGEST = 3, 60


def overflows(program: Program) -> Iterator[Candidate]:
    """All products of an extent in indices of A, B and C, and all variables that hold such an index, in 64 bits."""
    edits: dict[Edit, None] = {}
    shown: list[tuple[int, str]] = []
    for function in program.reached:
        for node, kind in _variables(program, function):
            code = function.code
            if kind is not None:
                edits[Edit(code.path, kind.start_byte, kind.end_byte, _WIDE)] = None
            for product in _products(program, code, node):
                edits[_cast(code, product)] = None
                shown.append((code.line(product.start_byte), f"({_WIDE}){flat(code.of(product), _LONGEST)}"))
    own = ((access.code, access.index) for access in global_accesses(program))
    for code, index in (*own, *_of_pointers(program)):
        for product in _products(program, code, index):
            edits[_cast(code, product)] = None
            shown.append((code.line(product.start_byte), f"({_WIDE}){flat(code.of(product), _LONGEST)}"))
    if edits and shown:
        where = in_lines(line for line, _ in shown)
        texts = list(dict.fromkeys(f"`{text}`" for _, text in sorted(shown)))
        some = ", ".join(texts[:_MOST_SHOWN]) + " …" * (len(texts) > _MOST_SHOWN)
        yield Candidate("overflow", f"the indices of {where} are computed in 32 bits, which overflow in matrices of "
                        "more than 2³¹ elements", f"compute them in 64 bits: {some} in {where}",
                        tuple(edits))  # fmt: skip


def _of_pointers(program: Program) -> Iterator[tuple[Code, Node]]:
    """The indices of pointers into A, B and C: `const float* a = A + b * stride;`."""
    roles = operands(program)
    for function in program.reached:
        code, pointers = function.code, set()
        for node in below(function.body, "init_declarator"):
            named, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
            if named is None or value is None or named.type != "pointer_declarator":
                continue
            if any(code.of(each) in roles for each in below(value, "identifier")):
                pointers.add(code.of(named).lstrip("* "))
        for node in below(function.body, "subscript_expression"):
            array, index = node.child_by_field_name("argument"), node.child_by_field_name("indices")
            if array is not None and index is not None and code.of(array) in pointers:
                yield code, index


def _cast(code: Code, product: Node) -> Edit:
    return Edit(code.path, product.start_byte, product.start_byte, f"({_WIDE})")


def _products(program: Program, code: Code, node: Node) -> list[Node]:
    """The outermost products with an extent, unless they have 64 bits already."""
    names = set(extents(program))
    found: list[Node] = []
    for each in below(node, "binary_expression"):
        sign = each.child_by_field_name("operator")
        sides = [each.child_by_field_name(part) for part in ("left", "right")]
        if sign is None or code.of(sign) != "*" or any(o.start_byte <= each.start_byte < o.end_byte for o in found):
            continue
        if any(side is not None and code.of(side) in names for side in sides) and not _LONG.search(code.of(each)):
            found.append(each)
    return found


def _variables(program: Program, function: Function) -> Iterator[tuple[Node, Node | None]]:
    """Values that index variables are declared with, and the type to widen; None: it is wide already."""
    code = function.code
    used = " ".join(access.code.of(access.index) for access in global_accesses(program))
    for node in below(function.body, "declaration"):
        kind = node.child_by_field_name("type")
        if kind is None:
            continue
        for declared in node.children_by_field_name("declarator"):
            name, value = declared.child_by_field_name("declarator"), declared.child_by_field_name("value")
            if name is None or value is None or not re.search(rf"\b{re.escape(code.of(name))}\b", used):
                continue
            short = code.of(kind) in _SHORT
            if _products(program, code, value) and (short or _LONG.search(code.of(kind))):
                yield value, kind if short else None
