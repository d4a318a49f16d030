"""A source file as text and as a syntax tree with the same lines and columns, for messages that point into it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gemmsmith.userfile.files.user_bundle import read_text
from gemmsmith.userfile.text.declared import innermost, text_of
from gemmsmith.userfile.text.syntax import descend, parse, words
from gemmsmith.userfile.text.tokens import Macro, Text, normalized

if TYPE_CHECKING:
    from tree_sitter import Node

_LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")
_STATEMENTS = (*_LOOPS, "expression_statement", "declaration", "return_statement", "if_statement", "switch_statement",
               "compound_statement", "asm_statement", "gnu_asm_expression")  # fmt: skip


@dataclass(frozen=True)
class Span:
    """Part of one line: the line from 1, the column from 0, the length; and the text of all that is meant."""

    line: int
    column: int
    length: int
    text: str


@dataclass(frozen=True)
class SourceLoop:
    """A loop as written. ``variable`` starts at ``start`` and grows by ``step``, as texts; empty where that is not so.

    ``own`` are the lines of its statements that are in no loop inside it; ``update`` is the column, from 1, of what
    changes the variable.
    """

    line: int
    last_line: int
    column: int
    variable: str = ""
    start: str = ""
    step: str = ""
    update: int = 0
    own: frozenset[int] = frozenset()


class SourceTree:
    """One file. Comments, literals and directives are blank in ``code``, and nothing moves."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._text = Text(normalized(read_text(path)))

    @cached_property
    def lines(self) -> list[str]:
        """The file as its author wrote it."""
        return self._text.text.split("\n")

    @cached_property
    def code(self) -> str:
        return self._text.bare.encode("ascii", "replace").decode("ascii")

    @cached_property
    def root(self) -> Node:
        return parse(self.code)

    @property
    def macros(self) -> tuple[Macro, ...]:
        return self._text.macros

    def text(self, node: Node | None) -> str:
        return words(text_of(self.code, node))

    def statement(self, line: int, column: int = 0) -> Node | None:
        """The statement that begins at a line and column (from 1), or the innermost one there."""
        rows = self.code.split("\n")
        if not 0 < line <= len(rows) or not rows[line - 1].strip():
            return None
        row = rows[line - 1]
        at = column - 1
        if not (0 <= at < len(row)) or row[at].isspace():
            at = len(row) - len(row.lstrip())
        node = self.root.descendant_for_point_range((line - 1, at), (line - 1, at + 1))
        while node is not None and node.type not in _STATEMENTS:
            node = node.parent
        return node

    def function(self, line: int) -> Node | None:
        """The function around a line."""
        node = self.statement(line)
        while node is not None and node.type != "function_definition":
            node = node.parent
        return node

    def loops(self, line: int, column: int = 0) -> tuple[SourceLoop, ...]:
        """The loops around the statement at a place, the outermost first; a loop's own head is inside it."""
        node, found = self.statement(line, column), []
        while node is not None and node.type != "function_definition":
            if node.type in _LOOPS:
                found.append(self._loop(node))
            node = node.parent
        return tuple(reversed(found))

    def span(self, node: Node) -> Span:
        """Where a node is; of one over several lines, its first."""
        (row, column), (last, end) = node.start_point, node.end_point
        length = end - column if last == row else len(self.lines[row].rstrip()) - column
        return Span(row + 1, column, max(1, length), self.text(node))

    def _loop(self, node: Node) -> SourceLoop:
        variable = start = step = ""
        column = 0
        initial, update = node.child_by_field_name("initializer"), node.child_by_field_name("update")
        if node.type == "for_statement" and initial is not None and update is not None:
            column = update.start_point[1] + 1
            variable, start = self._initial(initial)
            changed, step = self._step(update)
            if changed != variable:
                variable = start = step = ""
        body = node.child_by_field_name("body")
        own = frozenset(self._own_lines(body)) if body is not None else frozenset()
        return SourceLoop(node.start_point[0] + 1, node.end_point[0] + 1, node.start_point[1], variable, start, step,
                          column, own)  # fmt: skip

    def _initial(self, node: Node) -> tuple[str, str]:
        if node.type == "declaration":
            made = [child for child in node.named_children if child.type == "init_declarator"]
            if len(made) == 1:
                return self.text(innermost(made[0])), self.text(made[0].child_by_field_name("value"))
        if node.type == "assignment_expression" and self.text(node.child_by_field_name("operator")) == "=":
            return self.text(node.child_by_field_name("left")), self.text(node.child_by_field_name("right"))
        return "", ""

    def _step(self, node: Node) -> tuple[str, str]:
        if node.type == "update_expression":
            name = self.text(node.child_by_field_name("argument"))
            return name, "1" if "++" in self.text(node) else "-1"
        operator = self.text(node.child_by_field_name("operator"))
        left, right = (self.text(node.child_by_field_name(side)) for side in ("left", "right"))
        if node.type == "assignment_expression" and operator in ("+=", "-="):
            return left, right if operator == "+=" else f"-({right})"
        return "", ""

    def _own_lines(self, body: Node) -> set[int]:
        """The first lines of the simple statements of a loop's body that are in no loop inside it."""
        found, stack = set(), [body]
        while stack:
            node = stack.pop()
            if node.type in _LOOPS or node.type == "lambda_expression":
                continue
            if node.type in ("expression_statement", "declaration", "return_statement"):
                found.add(node.start_point[0] + 1)
            else:
                stack += node.named_children
        return found


def nodes(node: Node) -> list[Node]:
    """A node and all below it."""
    return list(descend(node, frozenset()))
