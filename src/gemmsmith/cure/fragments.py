"""Fragments of mma.m16n8k16 that a kernel loads or stores itself: rows and columns as PTX lays them out.

Lane `l` holds rows g and g + 8, g = l / 4. Of C it holds columns 2t and 2t + 1, t = l % 4; of A (16-bit elements) the
pairs of columns that start at 2t and 2t + 8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.accesses import GlobalAccess, global_accesses
from gemmsmith.cure.code import Function, Program, below
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.wording import in_lines

if TYPE_CHECKING:
    from tree_sitter import Node

_MMA = re.compile(r"mma\.sync\.aligned\.m16n8k(?:16|8)\b")
# By the fragment's register: what is added to row g and to column 2t.
_PLACES = {"C": ((0, 0), (0, 1), (8, 0), (8, 1)), "D": ((0, 0), (0, 1), (8, 0), (8, 1)),
           "A": ((0, 0), (8, 0), (0, 8), (8, 8))}  # fmt: skip
_LDMATRIX = re.compile(r"ldmatrix\.sync\.aligned\.m8n8(?P<count>\.x[124])(?P<trans>\.trans)?")
_GROUP = re.compile(r"(?:\w+|\([^()]*\)|threadIdx\.x)\s*(?:/\s*4|>>\s*2)")
_IN_GROUP = re.compile(r"(?:\w+|\([^()]*\)|threadIdx\.x)\s*(?:%\s*4|&\s*3)")


def wrong_fragments(program: Program) -> Iterator[Candidate]:
    """The four accesses of a fragment, with the rows and columns that its registers have."""
    if not any(_MMA.search(code.text) for code in program.files):
        return
    for function in program.reached:
        group, inside = _lane_variable(function, _GROUP), _lane_variable(function, _IN_GROUP)
        if not group or not inside:
            continue
        own = [access for access in global_accesses(program) if access.function is function and access.row]
        for role, places in _PLACES.items():
            found = [(access, _register(access)) for access in own if access.role == role and not access.is_pointer]
            by_register = {number: access for access, number in found if number is not None}
            if sorted(by_register) == list(range(len(places))):
                yield from _rewritten(role, by_register, group, inside)


def transposed_loads(program: Program) -> Iterator[Candidate]:
    """`ldmatrix` with `.trans`, where it has none, and without it, where it has one."""
    for function in program.reached:
        code = function.code
        for match in _LDMATRIX.finditer(code.text, function.body.start_byte, function.body.end_byte):
            line, has, at = code.line(match.start()), match["trans"] is not None, match.end("count")
            does, new = ("transposes", "") if has else ("does not transpose", ".trans")
            yield Candidate("ldmatrix-transpose", f"the ldmatrix in line {line} {does} what it loads",
                            f"write `{match['count']}{new}` in line {line}",
                            (Edit(code.path, at, match.end("trans") if has else at, new),))  # fmt: skip


def _rewritten(role: str, found: dict[int, GlobalAccess], group: str, inside: str) -> Iterator[Candidate]:
    edits, lines = [], []
    for number, access in sorted(found.items()):
        down, right = _PLACES[role][number]
        row = _with(access.row, group, group, down)
        column = _with(access.column, inside, f"{inside} * 2", right)
        leading = access.code.of(access.leading) if access.leading is not None else ""
        text = f"({row}) * {leading} + {column}"
        if "".join(text.split()) != "".join(access.code.of(access.index).split()):
            lines.append(access.line)
            edits.append(Edit(access.code.path, access.index.start_byte, access.index.end_byte, text))
    if edits:
        of = (
            f"columns {inside} * 2 and {inside} * 2 + 1"
            if role != "A"
            else f"columns {inside} * 2 and {inside} * 2 + 8"
        )
        where = in_lines(lines)
        yield Candidate("wrong-fragment", f"mma's fragment of {role} has rows {group} and {group} + 8, {of}; {where} "
                        f"{'uses' if len(lines) == 1 else 'use'} others", f"write these indices in {where}",
                        tuple(edits))  # fmt: skip


def _with(terms: str, variable: str, scaled: str, more: int) -> str:
    """A sum without its numbers and its term of a lane's variable, then with the right ones."""
    kept = [term.strip() for term in terms.split("+")]
    kept = [term for term in kept if not term.isdecimal() and not re.search(rf"\b{variable}\b", term)]
    return " + ".join((*kept, scaled, *([str(more)] if more else ())))


def _lane_variable(function: Function, pattern: re.Pattern[str]) -> str:
    """The variable that is set to a lane's group, or to its number in the group."""
    code = function.code
    for node in below(function.body, "init_declarator"):
        named, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        if named is not None and value is not None and pattern.fullmatch(code.of(value).strip()):
            return code.of(named)
    return ""


def _register(access: GlobalAccess) -> int | None:
    """The number of the fragment's register that an access loads or stores: 2 of `C[…] = c[2]` and `a[2] = A[…]`."""
    node: Node | None = access.node
    while node is not None and node.type != "assignment_expression":
        node = node.parent
    if node is None:
        return None
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    other = right if access.is_store else left
    match = re.search(r"\w\[(\d)\]\)?$", access.code.of(other).strip()) if other is not None else None
    return int(match[1]) if match else None
