"""Counters of nested loops: `rb[i]` in a loop over j, where `rb[j]` belongs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.code import Code, Program, above, below
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.wording import changed

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST = 12


def missing_counters(program: Program) -> Iterator[Candidate]:
    """A counter that picks the element on one side of an assignment and none on the other: put for another there, as
    in `acc[i][j] += ra[i] * rb[i]` and `C[r + i] = acc[i][j]`."""
    for function in program.reached:
        code = function.code
        for statement in below(function.body, "assignment_expression"):
            left, sign, right = (statement.child_by_field_name(part) for part in ("left", "operator", "right"))
            if left is None or right is None or sign is None:
                continue
            counters = _counters(code, statement)
            adds = code.of(sign) == "+=" or code.of(left) in code.of(right)  # a sum runs over counters of its own
            sides = [(left, right)] if adds else [(left, right), (right, left)]
            for one, other in sides:
                has, named = _names(code, one), _names(code, other)
                lacking = [name for name in counters if name in has and name not in named]
                for each in _indices(code, other, counters) if named else ():
                    yield from (_replaced(code, each, name) for name in lacking)


def other_counters(program: Program) -> Iterator[Candidate]:
    """Any counter in an index replaced by another one that counts up by one."""
    made = 0
    for function in program.reached:
        code = function.code
        for node in below(function.body, "subscript_argument_list"):
            counters = _counters(code, node)
            for each in _identifiers(code, node, counters):
                for new in (name for name in counters if name != code.of(each)):
                    if made < _MOST:
                        made += 1
                        yield _replaced(code, each, new)


def _counters(code: Code, node: Node) -> list[str]:
    """The counters of the `for (…; ++i)` loops around a node, the innermost first."""
    found = []
    for loop in above(node):
        update = loop.child_by_field_name("update") if loop.type == "for_statement" else None
        if update is not None and update.type == "update_expression":
            found.append(code.of(update).strip("+- "))
    return found


def _indices(code: Code, node: Node, names: list[str]) -> Iterator[Node]:
    """The places of ``names`` in the indices of an expression."""
    for index in below(node, "subscript_argument_list"):
        yield from _identifiers(code, index, names)


def _identifiers(code: Code, node: Node, names: list[str]) -> Iterator[Node]:
    return (each for each in below(node, "identifier") if code.of(each) in names)


def _names(code: Code, node: Node) -> set[str]:
    """The names in the indices of an expression."""
    return {code.of(each) for index in below(node, "subscript_argument_list") for each in below(index, "identifier")}


def _replaced(code: Code, node: Node, new: str) -> Candidate:
    line, old = code.line(node.start_byte), code.of(node)
    return Candidate("wrong-counter", f"line {line} uses the loop counter {old} in an index; it should be {new}",
                     f"write `{new}` for `{old}` in line {line}: `{changed(code, node, new)}`",
                     (Edit(code.path, node.start_byte, node.end_byte, new),))  # fmt: skip
