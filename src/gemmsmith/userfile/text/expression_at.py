"""The expression of a source line that an access means: ``As[ty][k]`` of ``sum += As[ty][k] * Bs[k][tx];``.

The compiler tells the statement. Which of its expressions is meant follows from the array's name and from whether the
access reads or writes; where that leaves several, none is named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemmsmith.userfile.text.source_tree import SourceTree, Span, nodes

if TYPE_CHECKING:
    from tree_sitter import Node

_COMPOUND = ("for_statement", "while_statement", "do_statement", "if_statement", "switch_statement",
             "compound_statement", "for_range_loop")  # fmt: skip
_PARTS = ("binary_expression", "pointer_expression", "parenthesized_expression", "cast_expression")
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Expression:
    """An access as written: the array's or pointer's own name, the texts of its indices, and its place."""

    name: str
    indices: tuple[str, ...]
    span: Span
    reads: bool
    writes: bool

    @property
    def text(self) -> str:
        return self.span.text

    @property
    def root(self) -> str:
        """The variable: t of ``t[s].As[i]``."""
        found = _NAME.match(self.name)
        return found[0] if found is not None else self.name


def expression_at(
    tree: SourceTree, line: int, column: int, name: str, writes: bool | None, others: frozenset[str] = frozenset(),
    member: str = "",
) -> Expression | None:  # fmt: skip
    """The access to ``name`` in the statement at a place, if there is one, and not several that differ.

    ``writes``: whether it writes; None if it may do either. ``others`` are names of other arrays: an expression with an
    unknown name may be a pointer to the array that is meant, one of these may not. ``member``: of a struct, the member
    that is accessed.
    """
    statement = tree.statement(line, column)
    if statement is None:
        return None
    found = [e for e in _accesses(tree, statement) if _is_on(statement, line, e) and _fits(e, writes)]
    roots = pointer_roots(tree, line)
    if member and (parts := [e for e in found if _is_member(e, member, others)]):
        return parts[0] if len({e.text for e in parts}) == 1 else None
    own = [e for e in found if e.name == name]
    derived = [e for e in found if name in roots.get(e.name, ())]
    unknown = [e for e in found if e.name not in others and not roots.get(e.name, frozenset()) & others]
    for some in (own, derived, unknown, [e for e in _mentions(tree, statement, name) if _is_on(statement, line, e)]):
        if some and len({e.text for e in some}) == 1:
            return some[0]
        if some:
            return None
    return None


def statement_span(tree: SourceTree, line: int, column: int) -> Span | None:
    """The statement at a place, as far as it is on one line; of a loop or a condition, its head."""
    statement = tree.statement(line, column)
    if statement is None or statement.type == "compound_statement":
        text = tree.lines[line - 1].rstrip() if 0 < line <= len(tree.lines) else ""
        start = len(text) - len(text.lstrip())
        return Span(line, start, max(1, len(text) - start), text.strip()) if text.strip() else None
    span = tree.span(statement)
    if span.line != line:  # the place is inside a longer statement
        text = tree.lines[line - 1].rstrip()
        start = len(text) - len(text.lstrip())
        return Span(line, start, max(1, len(text) - start), text.strip())
    return span


def _is_on(statement: Node, line: int, expression: Expression) -> bool:
    """Of a loop or a condition, only what is on its own line is meant, not the statements below it."""
    return statement.type not in _COMPOUND or expression.span.line == line


def _is_member(expression: Expression, member: str, others: frozenset[str]) -> bool:
    """Whether ``t[s].As[i]`` or ``tile->As[i]`` is an access to member As of what may be the struct that is meant."""
    return expression.root not in others and bool(re.search(rf"(?:\.|->)\s*{re.escape(member)}$", expression.name))


def _fits(expression: Expression, writes: bool | None) -> bool:
    return writes is None or (expression.writes if writes else expression.reads)


def _accesses(tree: SourceTree, statement: Node) -> list[Expression]:
    """Subscripts and dereferenced pointers of a statement."""
    found = []
    for node in nodes(statement):
        parent = node.parent
        if node.type == "subscript_expression":
            inner = parent is not None and parent.type == "subscript_expression" and _is_field(parent, "argument", node)
            base, indices = _chain(tree, node)
            if not inner and base:
                found.append(_expression(tree, statement, node, base, indices))
        elif node.type == "pointer_expression" and tree.code[node.start_byte] == "*":
            argument = node.child_by_field_name("argument")
            name = _NAME.search(tree.text(argument))
            if name and argument is not None and argument.type in ("identifier", "parenthesized_expression"):
                found.append(_expression(tree, statement, node, name[0], ()))
    return found


def _chain(tree: SourceTree, node: Node) -> tuple[str, tuple[str, ...]]:
    """The name and the indices of ``name[i][j]``; no name where something else is indexed."""
    indices: list[str] = []
    here: Node | None = node
    while here is not None and here.type == "subscript_expression":
        listed = here.child_by_field_name("indices")
        indices.append(tree.text(listed)[1:-1].strip())
        here = here.child_by_field_name("argument")
    if here is None or here.type not in ("identifier", "field_expression", "qualified_identifier"):
        return "", ()
    return tree.text(here), tuple(reversed(indices))


def _mentions(tree: SourceTree, statement: Node, name: str) -> list[Expression]:
    """Arguments of calls and macros that name the array: ``load_matrix_sync(a, As + 16, 32)``, ``AS(ty, k)``."""
    macros = {macro.name for macro in tree.macros if macro.parameters is not None
              and re.search(rf"\b{re.escape(name)}\b", macro.body)}  # fmt: skip
    found = []
    for node in nodes(statement):
        if node.type == "call_expression" and tree.text(node.child_by_field_name("function")) in macros:
            found.append(_expression(tree, statement, node, name, ()))
        elif node.type == "identifier" and tree.text(node) == name:
            at = node
            while at.parent is not None and at.parent.type in _PARTS:
                at = at.parent
            found.append(_expression(tree, statement, at, name, ()))
    return found


def _expression(tree: SourceTree, statement: Node, node: Node, name: str, indices: tuple[str, ...]) -> Expression:
    reads, writes = _effect(tree, statement, node)
    return Expression(name, indices, tree.span(node), reads, writes)


def _effect(tree: SourceTree, statement: Node, node: Node) -> tuple[bool, bool]:
    """Whether an expression may be read and written where it stands."""
    passed = False  # to a function, which may do either
    while node is not statement and node.parent is not None:
        parent = node.parent
        if parent.type == "subscript_argument_list":
            return True, False
        if parent.type == "update_expression":
            return True, True
        if parent.type == "assignment_expression":
            if _is_field(parent, "right", node):
                return True, passed
            plain = tree.text(parent.child_by_field_name("operator")) == "="
            return passed or not plain, True
        if parent.type in ("init_declarator", "return_statement", "condition_clause"):
            return True, passed
        passed = passed or parent.type == "argument_list"
        node = parent
    return True, passed


def _is_field(parent: Node, name: str, node: Node) -> bool:
    child = parent.child_by_field_name(name)
    return child is not None and child.start_byte == node.start_byte and child.end_byte == node.end_byte


def pointer_roots(tree: SourceTree, line: int) -> dict[str, frozenset[str]]:
    """For each pointer or reference that the function around a line declares: the names that it is made from."""
    function = tree.function(line)
    made: dict[str, set[str]] = {}
    for node in nodes(function) if function is not None else ():
        if node.type != "init_declarator":
            continue
        declarator, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        kind = tree.text(node.parent.child_by_field_name("type")) if node.parent is not None else ""
        pointer = declarator is not None and declarator.type in ("pointer_declarator", "reference_declarator")
        name = _NAME.search(tree.text(declarator).lstrip("*& "))
        if name and value is not None and (pointer or kind == "auto"):
            words = {tree.text(n) for n in nodes(value) if n.type == "identifier"}
            made.setdefault(re.sub(r"^(?:__restrict__|const)\s+", "", name[0]), set()).update(words)
    for _ in range(4):
        for words in made.values():
            words |= {root for word in tuple(words) for root in made.get(word, ())}
    return {name: frozenset(words) for name, words in made.items()}
