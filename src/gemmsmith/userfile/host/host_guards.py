"""Statements of host code after which something is known to hold: asserts, checks, an ``if`` that leaves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gemmsmith.userfile.text.declared import text_of
from gemmsmith.userfile.text.syntax import last_name, words

if TYPE_CHECKING:
    from tree_sitter import Node

_CHECK = re.compile(r"(?:\w+_)?(?:assert|assertm|check|dcheck|enforce|require|expect)s?(?:_(\w+))?", re.IGNORECASE)
_COMPARED = {"eq": "==", "ne": "!=", "neq": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_LEAVES = frozenset({"return_statement", "throw_statement", "break_statement", "continue_statement", "goto_statement"})
_ENDS = frozenset(("exit", "_exit", "abort", "quick_exit", "terminate", "__builtin_trap"))
_STOPS = re.compile(r"\b(?:return|throw|goto|break|continue|asm|__asm__)\b")
_ASSIGNS = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)|(?:<<|>>)=")
_STRING = re.compile(r'"(?:\\.|[^"\\])*"')
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_PRINTS = frozenset(("if", "while", "void", "printf", "fprintf", "puts", "fputs", "fflush", "perror", "sizeof"))
_TESTS = frozenset({"binary_expression", "unary_expression", "parenthesized_expression"})


def known_after(code: str, node: Node) -> list[tuple[str, bool]]:
    """Conditions, and whether they hold, where the statement ``node`` has run to its end."""
    if node.type == "if_statement":
        return _after_if(code, node)
    if node.type != "expression_statement" or not node.named_children:
        return []
    call = node.named_children[0]
    found = _checked(code, call) if call.type == "call_expression" else ""
    return [(found, True)] if found else []


def leaves_case(code: str, node: Node) -> bool:
    """Whether a case of a switch ends with a statement after which the next one is not run."""
    last = next((each for each in reversed(node.named_children) if each.type != "comment"), None)
    if last is None:
        return False
    if last.type in ("compound_statement", "else_clause"):
        return leaves_case(code, last)
    if last.type == "if_statement" and (other := last.child_by_field_name("alternative")) is not None:
        then = last.child_by_field_name("consequence")
        return leaves(code, then) and (leaves(code, other) or leaves_case(code, other))
    return leaves(code, last)


def check_name(code: str, node: Node) -> str:
    """The name of the check that a statement is; '' for others."""
    call = node.named_children[0] if node.type == "expression_statement" and node.named_children else None
    is_call = call is not None and call.type == "call_expression"
    return last_name(text_of(code, call.child_by_field_name("function"))) if call is not None and is_call else ""


def only_tells(body: str, returns: bool = False) -> bool:
    """Whether a macro or a function that is called as a check prints at most, and host code goes on. ``returns``: a
    return leaves the check alone, which is a function."""
    stops = [each for each in _STOPS.findall(body) if not (returns and each == "return")]
    return not stops and set(_CALLED.findall(body)) <= _PRINTS


def assigns(body: str) -> bool:
    """Whether a macro or a function changes a variable: ``++errors``, ``ok = false``."""
    return _ASSIGNS.search(_STRING.sub("", body)) is not None


def condition_text(code: str, node: Node) -> str:
    """The condition of an if."""
    condition = node.child_by_field_name("condition")
    value = condition.child_by_field_name("value") if condition is not None else None
    return words(text_of(code, value if value is not None else condition))


def _after_if(code: str, node: Node) -> list[tuple[str, bool]]:
    """An if whose branch leaves: what follows runs where the condition does not hold."""
    then, other = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
    if other is not None and other.type == "else_clause":
        other = _without_else(other)
    if leaves(code, then):
        more = _after_if(code, other) if other is not None and other.type == "if_statement" else []
        return [(condition_text(code, node), False), *more]
    return [(condition_text(code, node), True)] if other is not None and leaves(code, other) else []


def leaves(code: str, node: Node | None) -> bool:
    """Whether a branch ends with a return, or ends the program."""
    if node is not None and node.type == "else_clause":
        node = _without_else(node)
    if node is not None and node.type == "compound_statement":
        node = next((each for each in reversed(node.named_children) if each.type != "comment"), None)
    if node is None:
        return False
    if node.type == "expression_statement" and node.named_children:
        call = node.named_children[0]
        if call.type == "throw_expression":
            return True
        return (
            call.type == "call_expression" and last_name(text_of(code, call.child_by_field_name("function"))) in _ENDS
        )
    return node.type in _LEAVES


def _without_else(node: Node) -> Node | None:
    return next((each for each in node.named_children if each.type != "comment"), None)


def _checked(code: str, call: Node) -> str:
    """What a call asserts: the comparison in ``assert(K % 8 == 0)`` and ``CHECK_EQ(K % 8, 0)``; '' for others, such as
    ``CUDA_CHECK(cudaMalloc(…))``."""
    name = _CHECK.fullmatch(last_name(text_of(code, call.child_by_field_name("function"))))
    listed = call.child_by_field_name("arguments")
    given = [each for each in listed.named_children if each.type != "comment"] if listed is not None else []
    if name is None or not given:
        return ""
    compared = _COMPARED.get((name[1] or "").lower(), "")
    if compared and len(given) > 1:
        return f"({words(text_of(code, given[0]))}) {compared} ({words(text_of(code, given[1]))})"
    return words(text_of(code, given[0])) if given[0].type in _TESTS else ""
