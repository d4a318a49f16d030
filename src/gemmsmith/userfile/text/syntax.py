"""CUDA C++ as a syntax tree, by tree-sitter. It is imported on first use: rungs do not need it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

# Attributes with arguments that the grammar does not know. They are blanked for the parser only.
_ATTRIBUTE = re.compile(r"\b(?:__cluster_dims__|__maxnreg__|__block_size__|__align__|__nv_pure__)\b\s*(?:\(|(?=\W))")


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter_cuda
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_cuda.language()))


def parse(code: str) -> Node:
    """The tree of ``code``, which is ASCII, so that offsets in text and tree are the same."""
    return _parser().parse(_without_attributes(code).encode("ascii", "replace")).root_node


def _without_attributes(code: str) -> str:
    pieces, last = [], 0
    for match in _ATTRIBUTE.finditer(code):
        if match.start() < last:
            continue
        end = match.end()
        if match[0].endswith("("):
            depth = 1
            while end < len(code) and depth:
                depth += (code[end] == "(") - (code[end] == ")")
                end += 1
        pieces += [code[last : match.start()], re.sub(r"[^\n]", " ", code[match.start() : end])]
        last = end
    return "".join([*pieces, code[last:]])


def descend(node: Node, into: frozenset[str]) -> Iterator[Node]:
    """``node`` and what is below it in order, entering only nodes of the types ``into``; all if that is empty."""
    stack = [node]
    while stack:
        here = stack.pop()
        yield here
        if not into or here.type in into:
            stack += reversed(here.named_children)


def words(text: str) -> str:
    """``text`` with single blanks, and none beside brackets that need none."""
    return " ".join(text.split())


@lru_cache(maxsize=4096)
def expression(text: str) -> tuple[str, Node] | None:
    """The tree of one C++ expression, with the text that its offsets refer to; None if it is none."""
    code = f"auto x = ({text});".encode("ascii", "replace").decode("ascii")
    root = parse(code)
    for node in descend(root, frozenset({"translation_unit", "declaration", "init_declarator"})):
        if node.type == "parenthesized_expression" and not node.has_error and node.named_child_count == 1:
            return code, node.named_children[0]
    return None


def last_name(spelled: str) -> str:
    """The name itself: "run" of ``ns::Tiled<64, Row<8>>::run<1>``, of ``Policy::template run<1>`` and of ``op.run``."""
    while (without := re.sub(r"<[^<>]*>", "", spelled)) != spelled:
        spelled = without
    return re.split(r"::|\.|->", spelled.partition("<")[0])[-1].strip().removeprefix("template ").strip()
