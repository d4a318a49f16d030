"""A user's files as text with syntax trees: which functions there are, and which statement a line belongs to."""

from __future__ import annotations

import bisect
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gemmsmith.userfile.text.syntax import parse

if TYPE_CHECKING:
    from tree_sitter import Node

LOOPS = frozenset({"for_statement", "while_statement", "do_statement"})
_SIMPLE = frozenset({"expression_statement", "declaration", "return_statement", "for_statement", "while_statement",
                     "do_statement", "if_statement", "break_statement", "continue_statement"})  # fmt: skip


@dataclass(eq=False)
class Code:
    """One file."""

    path: Path
    text: str

    @cached_property
    def root(self) -> Node:
        return parse(self.text)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def line(self, offset: int) -> int:
        """The line, from 1, of a character."""
        return bisect.bisect_right(self._starts, offset)

    def of(self, node: Node) -> str:
        return self.text[node.start_byte : node.end_byte]

    def last_line(self, node: Node) -> int:
        return self.line(max(node.start_byte, node.end_byte - 1))


@dataclass(frozen=True, eq=False)
class Function:
    """A function, or a lambda that has a name."""

    code: Code
    name: str
    head: str
    body: Node

    @property
    def starts(self) -> int:
        """The line of its first word."""
        return self.code.line(self.body.start_byte - len(self.head))

    def holds(self, line: int) -> bool:
        return self.code.line(self.body.start_byte) <= line <= self.code.last_line(self.body)


@dataclass(eq=False)
class Program:
    """A kernel with the files that it is made of.

    files   the file that is compiled first, then its headers, then the file that launches it
    entry   the kernel's plain name
    names   the user's own name of each role: {"M": "rows", "A": "d_A"}
    grid    where the grid is written: file and line; None where that is not known
    line    of the kernel's name, which tells overloads apart; 0: not known
    second  the plain name of the kernel that finishes the product; empty where one kernel makes it
    scales  the names of arrays of scales and zero points
    """

    files: tuple[Code, ...]
    entry: str
    names: Mapping[str, str]
    grid: tuple[Path, int] | None = None
    line: int = 0
    second: str = ""
    scales: tuple[str, ...] = ()
    _functions: list[Function] = field(default_factory=list)

    def file(self, name: str) -> Code | None:
        """The file that a message calls ``name``."""
        parts = Path(name).parts
        found = [code for code in self.files if code.path.parts[-len(parts) :] == parts]
        return found[0] if found else next((c for c in self.files if c.path.name == parts[-1]), None) if parts else None

    @property
    def functions(self) -> list[Function]:
        if not self._functions:
            self._functions = [function for code in self.files for function in _functions(code)]
        return self._functions

    @property
    def kernel(self) -> Function | None:
        named = [f for f in self.functions if f.name == self.entry and "__global__" in f.head]
        return next((f for f in named if f.starts <= self.line <= f.code.line(f.body.start_byte)),
                    next(iter(named), None))  # fmt: skip

    @cached_property
    def reached(self) -> tuple[Function, ...]:
        """The kernel, the one that finishes its product, then the device functions and lambdas that they call."""
        if self.kernel is None:
            return ()
        finishes = [f for f in self.functions if self.second and f.name == self.second and "__global__" in f.head]
        found = [self.kernel, *finishes[:1]]
        queue = [*found]
        while queue:
            words = set(re.findall(r"\b(\w+)\s*(?:<[^;{}()]*>)?\s*\(", queue[0].code.of(queue[0].body)))
            queue.pop(0)
            for function in self.functions:
                if function.name in words and function not in found and "__global__" not in function.head:
                    found.append(function)
                    queue.append(function)
        return tuple(found)


def below(node: Node, *types: str) -> Iterator[Node]:
    """Nodes of these types at or below ``node``, in order."""
    stack = [node]
    while stack:
        here = stack.pop()
        if not types or here.type in types:
            yield here
        stack += reversed(here.named_children)


def above(node: Node) -> Iterator[Node]:
    """The ancestors of ``node``, the nearest first."""
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def statement_of(node: Node) -> Node:
    """The innermost statement that ``node`` is part of."""
    here = node
    while here.type not in _SIMPLE or (here.type == "declaration" and here.parent and here.parent.type in LOOPS):
        if here.parent is None:
            return node
        here = here.parent
    return here


def statements_at(function: Function, line: int) -> list[Node]:
    """The innermost statements of a function that stand on ``line``."""
    code, found = function.code, []
    for node in below(function.body, *_SIMPLE):
        if statement_of(node) is not node and statement_of(node).id != node.id:
            continue
        if code.line(node.start_byte) <= line <= code.last_line(node):
            found.append(node)
    return [n for n in found if not any(o.id != n.id and _inside(o, n) for o in found)]


def _inside(inner: Node, outer: Node) -> bool:
    return outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte


def _functions(code: Code) -> Iterator[Function]:
    for node in below(code.root, "function_definition", "init_declarator"):
        if node.type == "function_definition":
            body, name = node.child_by_field_name("body"), _name(code, node)
            if body is not None and name:
                yield Function(code, name, code.text[node.start_byte : body.start_byte], body)
            continue
        value = node.child_by_field_name("value")
        if value is not None and value.type == "lambda_expression":
            body, named = value.child_by_field_name("body"), node.child_by_field_name("declarator")
            if body is not None and named is not None:
                yield Function(code, code.of(named), "", body)


def _name(code: Code, node: Node) -> str:
    declarator = node.child_by_field_name("declarator")
    for inner in below(declarator, "function_declarator") if declarator is not None else ():
        named = inner.child_by_field_name("declarator")
        if named is not None:
            return re.split(r"<", code.of(named))[0].rsplit("::", 1)[-1].strip()
    return ""


def binary_expressions(code: Code, root: Node, signs: Container[str]) -> Iterator[tuple[Node, str, Node, Node]]:
    """Each with one of these operators: the whole, its operator, left and right side."""
    for node in below(root, "binary_expression"):
        sign, left, right = (node.child_by_field_name(part) for part in ("operator", "left", "right"))
        if sign is not None and left is not None and right is not None and code.of(sign) in signs:
            yield node, code.of(sign), left, right


def subscripts(code: Code, root: Node) -> Iterator[tuple[str, Node]]:
    """The array's name, and each index."""
    for node in below(root, "subscript_expression"):
        listed, array = node.child_by_field_name("indices"), node.child_by_field_name("argument")
        while array is not None and array.type == "subscript_expression":
            array = array.child_by_field_name("argument")
        if listed is not None and array is not None and array.type == "identifier":
            yield code.of(array), listed
