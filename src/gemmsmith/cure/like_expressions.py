"""Indices that are computed from the same variables in two ways: one of them may be wrong, as `row + i` in a load where
the store has `row * TM + i`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.accesses import extents
from gemmsmith.cure.code import Code, Function, Program, below
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.wording import flat

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST = 12
_VARIABLE = re.compile(r"(?<![\w.])[a-z_]\w*(?:\.[xyz]\b)?(?!\w*\s*[.(])")


def unlike_expressions(program: Program) -> Iterator[Candidate]:
    """Each such expression replaced by the other; two indices of one array first."""
    near: list[Candidate] = []
    far: list[Candidate] = []
    known = set(extents(program))
    for function in program.reached:
        found = [*_declared(function), *_sums(function)]
        for array, node, variables in found:
            for other_array, other, same in found:
                old, new = (flat(function.code.of(each)) for each in (node, other))
                if variables != same or _spelled(old) == _spelled(new) or _inside(node, other):
                    continue
                if array == other_array:
                    near.append(_candidate(function.code, node, old, new, other))
                elif _names(old) & known == _names(new) & known:  # rows of a matrix and of its tile differ in length
                    far.append(_candidate(function.code, node, old, new, other))
    yield from list(dict.fromkeys((*near, *far)))[:_MOST]


def _names(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", text))


def _sums(function: Function) -> Iterator[tuple[str, Node, frozenset[str]]]:
    """The sums of two variables or more in the indices of a function, with the array's name."""
    code = function.code
    for access in below(function.body, "subscript_expression"):
        array, listed = access.child_by_field_name("argument"), access.child_by_field_name("indices")
        for node in below(listed, "binary_expression") if array is not None and listed is not None else ():
            sign = node.child_by_field_name("operator")
            variables = frozenset(_VARIABLE.findall(code.of(node)))
            if array is not None and sign is not None and code.of(sign) == "+" and len(variables) > 1:
                yield code.of(array).split("[")[0], node, variables


def _declared(function: Function) -> Iterator[tuple[str, Node, frozenset[str]]]:
    """Sums that a variable is declared with: `int cc = col + c * TILE`."""
    code = function.code
    for declared in below(function.body, "init_declarator"):
        node = declared.child_by_field_name("value")
        if node is None or node.type != "binary_expression" or node.child_by_field_name("operator") is None:
            continue
        variables = frozenset(_VARIABLE.findall(code.of(node)))
        if len(variables) > 1 and re.search(r"\+", code.of(node)):
            yield "", node, variables


def _candidate(code: Code, node: Node, old: str, new: str, other: Node) -> Candidate:
    line, at = code.line(node.start_byte), code.line(other.start_byte)
    return Candidate("unlike-index", f"line {line} computes an index as `{old}`, where line {at} has `{new}`",
                     f"write `{new}` in line {line}",
                     (Edit(code.path, node.start_byte, node.end_byte, new),))  # fmt: skip


def _spelled(text: str) -> str:
    """The terms of a sum in alphabetical order, without spaces."""
    return "+".join(sorted("".join(term.split()) for term in text.split("+")))


def _inside(one: Node, other: Node) -> bool:
    return (one.start_byte <= other.start_byte and other.end_byte <= one.end_byte) or (
        other.start_byte <= one.start_byte and one.end_byte <= other.end_byte
    )
