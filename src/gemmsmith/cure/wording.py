"""How causes quote the source: a text on one line, lines by number, the expression around a change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gemmsmith.cure.code import Code

if TYPE_CHECKING:
    from tree_sitter import Node

_LONGEST = 80  # characters that are quoted
_STATEMENTS = ("subscript_expression", "assignment_expression", "declaration", "init_declarator", "call_expression",
               "expression_statement")  # fmt: skip


def flat(text: str, longest: int = _LONGEST) -> str:
    """A text on one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest].rstrip()} …"


def in_lines(lines: Iterable[int]) -> str:
    """'line 7', 'lines 7 and 9', 'lines 7, 9 and 12'."""
    listed = [str(line) for line in sorted(set(lines))]
    return f"line{'s' * (len(listed) > 1)} {' and '.join(filter(None, (', '.join(listed[:-1]), listed[-1])))}"


def changed(code: Code, node: Node, new: str) -> str:
    """The subscript, call, assignment or declaration around ``node``, with ``new`` in its place."""
    outer = node
    while outer.parent is not None and outer.type not in _STATEMENTS:
        outer = outer.parent
    return flat(code.text[outer.start_byte : node.start_byte] + new + code.text[node.end_byte : outer.end_byte])
