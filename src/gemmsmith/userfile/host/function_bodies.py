"""A function's body as a syntax tree: what it returns, what it calls, the constants that it declares."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from gemmsmith.userfile.text.declared import text_of, variables
from gemmsmith.userfile.text.parts import FunctionSource
from gemmsmith.userfile.text.syntax import descend, last_name, parse, words

if TYPE_CHECKING:
    from tree_sitter import Node

_ANYWHERE: frozenset[str] = frozenset()


@lru_cache(maxsize=256)
def body_of(text: str) -> tuple[str, Node]:
    code = "void f() {" + text + "\n}"
    root = parse(code)
    body = next((n for n in descend(root, frozenset({"translation_unit", "function_definition"}))
                 if n.type == "compound_statement"), root)  # fmt: skip
    return code, body


SHIFT = len("void f() {")


def body_tree(function: FunctionSource) -> tuple[str, Node, int]:
    """The tree of a function's body: its text, its node, and what to subtract from offsets to get those of the body."""
    return (*body_of(function.body), SHIFT)


def initial_values(text: str) -> Mapping[str, str]:
    """Constants declared in a body of device code, wherever they are; the first one of each name."""
    found: dict[str, str] = {}
    code, body = body_of(text)
    if "const" not in text:
        return found
    for node in descend(body, _ANYWHERE):
        if node.type == "declaration":
            for variable in variables(code, node):
                if variable.const and variable.value:
                    found.setdefault(variable.name, variable.value)
    return found


def returns(function: FunctionSource) -> Iterator[tuple[int, str]]:
    """The function's return statements: offset in the body and expression."""
    code, body, shift = body_tree(function)
    for node in descend(body, _ANYWHERE):
        if node.type == "return_statement" and node.named_children:
            yield node.start_byte - shift, words(text_of(code, node.named_children[0]))


@lru_cache(maxsize=1024)
def calls_of(function: FunctionSource, name: str) -> tuple[tuple[int, str, tuple[str, ...]], ...]:
    """Calls of ``name`` in the body: offset, the called expression, the arguments."""
    if not re.search(rf"\b{re.escape(name)}\s*[<(]", function.body):
        return ()
    code, body, shift = body_tree(function)
    found = []
    for node in descend(body, _ANYWHERE):
        if node.type == "call_expression":
            called = text_of(code, node.child_by_field_name("function"))
            if last_name(called) == name:
                given = node.child_by_field_name("arguments")
                texts = tuple(words(text_of(code, c)) for c in given.named_children) if given is not None else ()
                found.append((node.start_byte - shift, re.sub(r"\btemplate\s+", "", words(called)), texts))
    return tuple(found)
