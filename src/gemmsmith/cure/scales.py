"""Indices of scales and zero points: another operator, extent or variable: `scales[(k / GROUP) * N + n]`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING

from gemmsmith.cure.accesses import global_accesses
from gemmsmith.cure.code import Code, Program, below, binary_expressions, subscripts
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
        for array, index in subscripts(function.code, function.body):
            if array in program.scales:
                yield function.code, array, index


def _operators(code: Code, array: str, index: Node) -> Iterator[Candidate]:
    """`k % GROUP` for `k / GROUP`."""
    for node, sign, left, right in binary_expressions(code, index, _OTHER):
        yield _made(code, array, index, node, f"{code.of(left)} {_OTHER[sign]} {code.of(right)}")


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
    return Candidate("wrong-scale-index", f"the index of {array} in line {line} has `{old}`; it should be `{new}`",
                     f"write `{array}{' '.join(text.split())}` in line {line}",
                     (Edit(code.path, node.start_byte, node.end_byte, new),))  # fmt: skip
