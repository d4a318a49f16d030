"""Accesses to A, B and C in the source: the array's role, and row and column of an index such as `row * N + col`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemmsmith.cure.code import Code, Function, Program, below, statement_of

if TYPE_CHECKING:
    from tree_sitter import Node

EXTENTS = ("M", "N", "K")
LEADING = ("lda", "ldb", "ldc", "ldd")
# Rows and columns of each operand, by role.
SHAPES = {"A": ("M", "K"), "B": ("K", "N"), "C": ("M", "N"), "D": ("M", "N")}


@dataclass(frozen=True)
class GlobalAccess:
    """``name[index]`` where name is an operand. ``row`` and ``column`` are parts of the index, if it has that form."""

    code: Code
    function: Function
    node: Node
    role: str
    index: Node
    row: str = ""
    leading: Node | None = None
    column: str = ""
    is_pointer: bool = False  # a pointer is computed; the access itself is elsewhere

    @property
    def line(self) -> int:
        return self.code.line(self.node.start_byte)

    @property
    def is_store(self) -> bool:
        parent = self.node.parent
        return parent is not None and parent.type in ("assignment_expression", "update_expression") and (
            parent.child_by_field_name("left") is None or parent.child_by_field_name("left") == self.node)  # fmt: skip

    @property
    def statement(self) -> Node:
        return statement_of(self.node)


def extents(program: Program) -> list[str]:
    """The user's names of M, N, K and the leading dimensions, each once."""
    return list(dict.fromkeys(program.names[role] for role in (*EXTENTS, *LEADING) if role in program.names))


def operands(program: Program) -> dict[str, str]:
    """The role of each operand, by the user's name."""
    return {program.names[role]: role for role in SHAPES if role in program.names}


def global_accesses(program: Program) -> Iterator[GlobalAccess]:
    """The subscripts of A, B and C in the kernel and what it calls."""
    roles = operands(program)
    for function in program.reached:
        code = function.code
        for node in below(function.body, "subscript_expression"):
            named, listed = node.child_by_field_name("argument"), node.child_by_field_name("indices")
            if named is None or listed is None or code.of(named) not in roles or listed.named_child_count != 1:
                continue
            index = listed.named_children[0]
            yield GlobalAccess(code, function, node, roles[code.of(named)], index, *_parts(program, code, index))
        yield from _pointer_sums(program, function)


def _pointer_sums(program: Program, function: Function) -> Iterator[GlobalAccess]:
    """`A + row * K` and `A += row * K`."""
    code, roles = function.code, operands(program)
    for node in below(function.body, "binary_expression", "assignment_expression"):
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            continue
        if node.type == "assignment_expression":
            if _sign(code, node) == "+=" and code.of(left) in roles:
                yield GlobalAccess(code, function, node, roles[code.of(left)], right, *_parts(program, code, right),
                                   is_pointer=True)  # fmt: skip
            continue
        parent = node.parent
        if _sign(code, node) != "+" or (parent is not None and _sign(code, parent) == "+"):
            continue
        first = next(_terms(code, node))
        if code.of(first) in roles:
            yield GlobalAccess(code, function, node, roles[code.of(first)], node, *_parts(program, code, node),
                               is_pointer=True)  # fmt: skip


def _parts(program: Program, code: Code, index: Node) -> tuple[str, Node | None, str]:
    """Row, leading dimension and column of `row * ld + column`, in any order of the factors and terms."""
    arrays = operands(program)
    known = set(extents(program))
    terms = list(_terms(code, index))
    for term in terms:
        product = _bare(term)
        if product.type != "binary_expression" or _sign(code, product) != "*":
            continue
        left, right = product.child_by_field_name("left"), product.child_by_field_name("right")
        if left is None or right is None:
            continue
        for row, leading in ((left, right), (right, left)):
            if code.of(leading) in known:
                rest = [code.of(other) for other in terms if other.id != term.id and code.of(other) not in arrays]
                return _plain(code.of(row)), leading, " + ".join(rest) or "0"
    return "", None, ""


def _plain(text: str) -> str:
    """Without a cast and without needless parentheses."""
    text = re.sub(r"^\(\s*(?:size_t|long long|int64_t|unsigned|long)\s*\)\s*", "", text.strip())
    return text[1:-1].strip() if text.startswith("(") and text.endswith(")") and text.count("(") == 1 else text


def _terms(code: Code, node: Node) -> Iterator[Node]:
    bare = _bare(node)
    if bare.type == "binary_expression" and _sign(code, bare) == "+":
        for side in ("left", "right"):
            part = bare.child_by_field_name(side)
            if part is not None:
                yield from _terms(code, part)
    else:
        yield node


def _bare(node: Node) -> Node:
    while node.type == "parenthesized_expression" and node.named_child_count == 1:
        node = node.named_children[0]
    return node


def _sign(code: Code, node: Node) -> str:
    operator = node.child_by_field_name("operator")
    return code.of(operator) if operator is not None else ""


def index_expressions(program: Program) -> Iterator[tuple[Function, Node]]:
    """Expressions that become addresses: subscripts, and what is added to or assigned from a pointer or an index."""
    kernel = program.kernel
    if kernel is None:
        return
    for function in program.reached:
        yield from ((function, node) for node in below(function.body, "subscript_argument_list"))
        for node in below(function.body, "assignment_expression", "init_declarator", "binary_expression",
                          "pointer_expression"):  # fmt: skip
            text = function.code.of(node)
            if node.type in ("assignment_expression", "init_declarator") and _computes(text) and len(text) < 300:
                yield function, node


def _computes(text: str) -> bool:
    return any(sign in text for sign in "*/%")


def passed_leading(program: Program) -> Iterator[tuple[Code, Node, str]]:
    """Extents that are passed on with a pointer to an operand, as to `load_matrix_sync`, with the operand's role."""
    known = extents(program)
    for function in program.reached:
        code, roles = function.code, operands(program) | _local_pointers(program, function)
        for node in below(function.body, "argument_list"):
            of = [roles[name] for name in map(code.of, below(node, "identifier")) if name in roles]
            if len(set(of)) == 1:
                yield from ((code, each, of[0]) for each in node.named_children if code.of(each) in known)


def _local_pointers(program: Program, function: Function) -> dict[str, str]:
    """The role of each local pointer into an operand: `float* out = C + row * N`."""
    code, roles = function.code, operands(program)
    found: dict[str, str] = {}
    for node in below(function.body, "init_declarator"):
        named, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        if named is None or value is None or named.type != "pointer_declarator":
            continue
        of = {roles[name] for name in map(code.of, below(value, "identifier")) if name in roles}
        if len(of) == 1:
            found[code.of(named).lstrip("*& ").removeprefix("__restrict__").strip()] = of.pop()
    return found
