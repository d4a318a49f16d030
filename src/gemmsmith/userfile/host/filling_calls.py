"""Calls in host code that are passed a variable and may change it: ``plan(M, N, &grid, block);``"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gemmsmith.userfile.text.declared import text_of
from gemmsmith.userfile.text.syntax import descend, last_name, words

if TYPE_CHECKING:
    from tree_sitter import Node

_ANYWHERE: frozenset[str] = frozenset()
_CERTAIN = frozenset({"declaration", "expression_statement", "if_statement"})  # of an if: its condition


@dataclass
class FillingCall:
    """A call that is passed a variable.

    start, place  where the call is in the code; which of its arguments the variable is
    by_address    whether the variable's address is passed
    since         members of the variable that are assigned after the call
    """

    function: str
    arguments: tuple[str, ...]
    start: int
    place: int
    by_address: bool
    since: set[str] = field(default_factory=set)


def filling_calls(code: str, node: Node) -> Iterator[tuple[str, FillingCall]]:
    """Variables that calls in a statement are passed, each with its call, where the statement certainly makes it."""
    if node.type not in _CERTAIN:
        return
    part = node.child_by_field_name("condition") if node.type == "if_statement" else node
    for inner in descend(part, _ANYWHERE) if part is not None else ():
        listed = inner.child_by_field_name("arguments") if inner.type == "call_expression" else None
        if listed is None:
            continue
        name = last_name(text_of(code, inner.child_by_field_name("function")))
        passed = [child for child in listed.named_children if child.type != "comment"]
        arguments = tuple(words(text_of(code, child)) for child in passed)
        for place, text in enumerate(arguments):
            variable = text.removeprefix("&").strip()
            if variable.isidentifier() and name.isidentifier():
                yield variable, FillingCall(name, arguments, inner.start_byte, place, text.startswith("&"))
