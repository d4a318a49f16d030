"""Shared tiles that keep old values beyond the edges: `if (inside) As[..] = A[..];` without an `else`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.code import Code, Function, Program, below
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.slots import children, indent_at

if TYPE_CHECKING:
    from tree_sitter import Node

_SHARED = re.compile(r"__shared__[^;]*")


def unfilled_tiles(program: Program) -> Iterator[Candidate]:
    """Zeros where the guard does not hold: for all such stores, then for each."""
    found = [made for function in program.reached for made in _unfilled(program, function)]
    if len(found) > 1:
        names = " and ".join(dict.fromkeys(array for array, _, _ in found))
        lines = ", ".join(str(line) for line in dict.fromkeys(line for _, line, _ in found))
        yield Candidate("unfilled-tile", f"where the guards in lines {lines} do not hold, {names} keep what was there "
                        "before", "store 0 there", tuple(edit for _, _, edit in found))  # fmt: skip
    for array, line, edit in found:
        yield Candidate("unfilled-tile", f"where the guard in line {line} does not hold, {array} keeps what was there "
                        "before", f"store 0 there: add `{edit.text.strip()}` to line {line}", (edit,))  # fmt: skip


def _unfilled(program: Program, function: Function) -> Iterator[tuple[str, int, Edit]]:
    code = function.code
    text = " ".join(_SHARED.findall("\n".join(each.text for each in program.files)))
    shared = set(re.findall(r"\b(\w+)\s*(?=\[|,|$)", text))
    for node in below(function.body, "if_statement"):
        body = node.child_by_field_name("consequence")
        if body is None or node.child_by_field_name("alternative") is not None:
            continue
        stored = _stored(code, body)
        name = re.split(r"\W", code.of(stored))[0] if stored is not None else ""
        if stored is None or name not in shared:
            continue
        line, target = code.last_line(node), code.of(stored)
        lead = indent_at(code.text, node.start_byte)
        several = code.line(node.start_byte) != line
        shown = f"\n{lead}else {target} = 0;" if several else f" else {target} = 0;"
        at = node.end_byte
        yield name, line, Edit(code.path, at, at, shown, (at, at, f" else {target} = 0;"))


def _stored(code: Code, body: Node) -> Node | None:
    """What the branch assigns to, if that is all it does."""
    listed = children(body) if body.type == "compound_statement" else [body]
    if len(listed) != 1 or listed[0].type != "expression_statement" or not listed[0].named_children:
        return None
    assigned = listed[0].named_children[0]
    sign = assigned.child_by_field_name("operator")
    left = assigned.child_by_field_name("left") if assigned.type == "assignment_expression" else None
    plain = left is not None and left.type == "subscript_expression" and sign is not None and code.of(sign) == "="
    return left if plain else None
