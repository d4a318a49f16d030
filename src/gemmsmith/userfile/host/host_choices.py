"""What an if of host code makes of a variable, as one expression: ``c ? 64 : 32``; and what a while loop does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemmsmith.userfile.text.declared import text_of
from gemmsmith.userfile.text.syntax import descend, words

if TYPE_CHECKING:
    from tree_sitter import Node

NO_VALUE = "no_value"  # a name that nothing declares
_ANYWHERE: frozenset[str] = frozenset()
_MEMBER = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
_COMPARISON = re.compile(r"[=!<>]=")
_CHANGES = ("assignment_expression", "update_expression", "call_expression")


def path_of(text: str) -> str:
    """``p->dims . x`` as ``p.dims.x``."""
    return re.sub(r"\s+", "", text).replace("->", ".").removeprefix("this.")


def assigned_in(code: str, node: Node) -> set[str]:
    """Variables and members that a statement assigns, or counts up or down, as a whole or in an axis."""
    side = {"assignment_expression": "left", "update_expression": "argument"}
    found = (n.child_by_field_name(side[n.type]) for n in descend(node, _ANYWHERE) if n.type in side)
    return {name for left in found if _MEMBER.fullmatch(name := _owner(path_of(text_of(code, left)))[0])}


def _owner(path: str) -> tuple[str, str]:
    """``grid.x`` as "grid" and "x"; any other variable with ""."""
    owner, _, axis = path.rpartition(".")
    return (owner, axis) if axis in ("x", "y", "z") and owner.isidentifier() else (path, "")


def _with_axis(before: str, axis: str, value: str) -> str:
    """The dim3 ``before`` with another value in one axis."""
    return f"dim3({', '.join(value if each == axis else f'({before}).{each}' for each in 'xyz')})"


def as_expression(code: str, node: Node | None, name: str, before: str, kind: str = "") -> str:
    """The value of ``name``, which was ``before``, after a statement; '' if that is no plain choice.

    kind  the type that a value is converted to where it is asked for: ``n = n / 4 * 4``
    """
    if node is None:
        return before
    if node.type == "else_clause":
        return as_expression(code, node.named_children[0], name, before, kind) if node.named_children else before
    if node.type == "if_statement":
        condition = node.child_by_field_name("condition")
        tested = condition.child_by_field_name("value") if condition is not None else None
        then = as_expression(code, node.child_by_field_name("consequence"), name, before, kind)
        other = as_expression(code, node.child_by_field_name("alternative"), name, before, kind)
        if tested is None or not then or not other:
            return ""
        asked = replaced(words(text_of(code, tested)), name, before, kind)
        return f"(({asked}) ? ({then}) : ({other}))"
    if node.type == "compound_statement":
        for child in node.named_children:
            if child.type != "comment" and not (before := as_expression(code, child, name, before, kind)):
                return ""
        return before
    if node.type == "expression_statement" and node.named_children[0].type == "update_expression":
        counted = node.named_children[0]
        owner, axis = _owner(path_of(text_of(code, counted.child_by_field_name("argument"))))
        if owner != name:
            return before
        step = f"{'-' if '--' in text_of(code, counted) else '+'} 1"
        return _with_axis(before, axis, f"({before}).{axis} {step}") if axis else f"({_cast(kind)}({before})) {step}"
    if name not in assigned_in(code, node):
        return before
    inner = node.named_children[0] if node.type == "expression_statement" and node.named_children else None
    if inner is None or inner.type != "assignment_expression":
        return ""
    left, right = (text_of(code, inner.child_by_field_name(side)) for side in ("left", "right"))
    owner, axis = _owner(path_of(left))
    if owner != name or "=" in _COMPARISON.sub("", right):
        return ""
    sign = text_of(code, inner.child_by_field_name("operator")).removesuffix("=")
    value = replaced(words(right), name, before, kind)
    if axis:
        return _with_axis(before, axis, f"({before}).{axis} {sign} ({value})" if sign else f"({value})")
    return f"({_cast(kind)}({before})) {sign} ({value})" if sign else value


def replaced(text: str, name: str, before: str, kind: str = "") -> str:
    """``text`` with the value that ``name`` had before; members of ``name`` stay."""
    own = rf"(?<![\w.:>]){re.escape(name)}\b(?!\s*(?:[(.\[]|->))"
    return re.sub(own, lambda _: f"({_cast(kind)}({before}))", text)


def _cast(kind: str) -> str:
    return f"({kind})" if kind else ""


@dataclass(frozen=True)
class WhileLoop:
    """``while (side * 32 < M) side *= 2;``: the only variable that it changes, and its next value."""

    name: str
    condition: str
    following: str


def while_loop(code: str, node: Node) -> WhileLoop | None:
    """A loop that changes one variable by one plain statement; None for any other."""
    condition, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
    tested = condition.child_by_field_name("value") if condition is not None else None
    if body is not None and body.type == "compound_statement" and len(body.named_children) == 1:
        body = body.named_children[0]
    inner = body.named_children[0] if body is not None and body.type == "expression_statement" else None
    if tested is None or inner is None or any(n.type in _CHANGES for n in descend(tested, _ANYWHERE)):
        return None
    if inner.type == "update_expression":
        name, sign, right = path_of(text_of(code, inner.child_by_field_name("argument"))), "+", "1"
        sign = "-" if "--" in text_of(code, inner) else "+"
    elif inner.type == "assignment_expression":
        name = path_of(text_of(code, inner.child_by_field_name("left")))
        sign = text_of(code, inner.child_by_field_name("operator")).removesuffix("=")
        right = words(text_of(code, inner.child_by_field_name("right")))
    else:
        return None
    if not name.isidentifier() or "=" in right.replace("==", ""):
        return None
    following = f"({name}) {sign} ({right})" if sign else right
    return WhileLoop(name, words(text_of(code, tested)), following)
