"""Indices of scales and zero points: another operator, extent or variable: `scales[(k / GROUP) * N + n]`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING

from gemmsmith.cure.accesses import global_accesses
from gemmsmith.cure.code import Code, Program, below
from gemmsmith.cure.edit import Candidate, Edit

if TYPE_CHECKING:
    from tree_sitter import Node

_OTHER = {"/": "%", "%": "/"}


def wrong_scales(program: Program) -> Iterator[Candidate]:
    """Each part of each such index, replaced by what else it may be."""
    found = list(_indices(program))
    kinds = (
        [each for code, array, index in found for each in _operators(code, array, index)],
        [each for code, array, index in found for each in _extents(program, code, array, index)],
        [each for code, array, index in found for each in _variables(program, code, array, index)],
    )
    for some in zip_longest(*kinds):  # one of each: a trial of such a product takes seconds
        yield from (each for each in some if each is not None)


def _indices(program: Program) -> Iterator[tuple[Code, str, Node]]:
    for function in program.reached:
        code = function.code
        for node in below(function.body, "subscript_expression"):
            array, listed = node.child_by_field_name("argument"), node.child_by_field_name("indices")
            if array is not None and listed is not None and code.of(array) in program.scales:
                yield code, code.of(array), listed


def _operators(code: Code, array: str, index: Node) -> Iterator[Candidate]:
    """`k % GROUP` for `k / GROUP`."""
    for node in below(index, "binary_expression"):
        sign, left, right = (node.child_by_field_name(part) for part in ("operator", "left", "right"))
        if sign is not None and left is not None and right is not None and code.of(sign) in _OTHER:
            new = f"{code.of(left)} {_OTHER[code.of(sign)]} {code.of(right)}"
            yield _made(code, array, index, node, new)


def _variables(program: Program, code: Code, array: str, index: Node) -> Iterator[Candidate]:
    """`scale_b[row]` for `scale_b[col]`: another variable of the indices of A, B and C."""
    parts = [part.strip() for access in global_accesses(program) for part in (access.row, *access.column.split("+"))]
    known = [name for name in dict.fromkeys(parts) if name.isidentifier() and name not in program.names.values()]
    for node in below(index, "identifier"):
        for name in known if code.of(node) in known else ():
            if name != code.of(node):
                yield _made(code, array, index, node, name)


def _extents(program: Program, code: Code, array: str, index: Node) -> Iterator[Candidate]:
    """`g * K + n` for `g * N + n`."""
    extents = [program.names[role] for role in "NKM" if role in program.names]
    for node in below(index, "identifier"):
        for name in extents if code.of(node) in extents else ():
            if name != code.of(node):
                yield _made(code, array, index, node, name)


def _made(code: Code, array: str, index: Node, node: Node, new: str) -> Candidate:
    line, old = code.line(node.start_byte), " ".join(code.of(node).split())
    text = code.text[index.start_byte : node.start_byte] + new + code.text[node.end_byte : index.end_byte]
    return Candidate("wrong-scale-index", f"the index of {array} in line {line} has `{old}`, where `{new}` belongs",
                     f"write `{array}{' '.join(text.split())}` in line {line}",
                     (Edit(code.path, node.start_byte, node.end_byte, new),))  # fmt: skip
