"""Lambdas that host code computes a number with: ``auto blocks = [](int n) { return (n + 15) / 16; };``"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gemmsmith.userfile.text.declared import innermost, text_of
from gemmsmith.userfile.text.syntax import descend, words

if TYPE_CHECKING:
    from tree_sitter import Node

_ANYWHERE: frozenset[str] = frozenset()

_LAMBDA = re.compile(
    r"\[[^\]]*\]\s*\(([^()]*)\)\s*(?:(?:mutable|constexpr|noexcept)\s*)*(?:->\s*[\w:\s]+?)?\s*"
    r"\{\s*return\b\s*([^;{}]*);\s*\}"
)
_NAME = re.compile(r"(\w+)\s*$")


def returned_text(value: str) -> tuple[tuple[str, ...], str] | None:
    """The names of the parameters and what is returned, of a lambda with one statement; None for anything else."""
    found = _LAMBDA.fullmatch(value.strip())
    if found is None:
        return None
    named = [_NAME.search(part) for part in found[1].split(",") if part.strip()]
    names = tuple(match[1] for match in named if match is not None)
    return (names, found[2]) if len(names) == len(named) else None


def lambda_arguments(code: str, node: Node) -> dict[str, tuple[str, int] | None]:
    """The parameters of a lambda, with what its first call in the same function passes and where that call is; None for
    those of a lambda that is not called by its name."""
    declarator, outer = node.child_by_field_name("declarator"), node.parent
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    found = [innermost(each.child_by_field_name("declarator")) for each in listed.named_children] if listed else []
    names = [text_of(code, each) for each in found if each is not None]
    own = outer.child_by_field_name("declarator") if outer is not None and outer.type == "init_declarator" else None
    body = outer
    while body is not None and body.parent is not None and body.type != "compound_statement":
        body = body.parent
    for call in descend(body, _ANYWHERE) if own is not None and body is not None and names else ():
        if call.type == "call_expression" and text_of(code, call.child_by_field_name("function")) == text_of(code, own):
            given = call.child_by_field_name("arguments")
            texts = [words(text_of(code, each)) for each in given.named_children] if given is not None else []
            return {
                **dict.fromkeys(names),
                **{name: (text, call.start_byte) for name, text in zip(names, texts, strict=False)},
            }
    return dict.fromkeys(names)
