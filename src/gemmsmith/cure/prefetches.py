"""Loops that load the next tile while they use this one: the tile that was loaded last must be used, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.accesses import operands
from gemmsmith.cure.code import Function, Program, below
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.shared_arrays import shared_names

if TYPE_CHECKING:
    from tree_sitter import Node

_ZERO = re.compile(r"0u?")
_STORE = re.compile(r"(\w+)\s*(?:\[[^;=]*\])+\s*=[^=]")
_AHEAD = re.compile(r"(?P<counter>\w+)\s*\+\s*(?:1|\w+)")


def unused_tiles(program: Program) -> Iterator[Candidate]:
    """One more iteration of a loop over k-tiles that ends when the last tile is loaded: `k < K` becomes `k < K + BK`
    where it starts at BK, `t + 1 < tiles` and `t < tiles - 1` become `t < tiles`. Then what the loop does with a tile
    once more after it."""
    for function in program.reached:
        for loop in below(function.body, "for_statement"):
            if _loads(program, function, loop):
                yield from _one_more(function, loop)
                yield from _after(program, function, loop)


def _loads(program: Program, function: Function, loop: Node) -> bool:
    """Whether a loop reads A or B, multiplies, and has a barrier: the loop over k-tiles."""
    text = function.code.of(loop)
    named = any(re.search(rf"\b{re.escape(name)}\b", text) for name, role in operands(program).items() if role in "AB")
    return named and "sync" in text


def _one_more(function: Function, loop: Node) -> Iterator[Candidate]:
    code, test = function.code, loop.child_by_field_name("condition")
    left, right = (test.child_by_field_name(side) if test is not None else None for side in ("left", "right"))
    if test is None or left is None or right is None or not re.search(r"[^<]<[^<=]", code.of(test)):
        return
    line, start, end = code.line(loop.start_byte), _start(function, loop), code.of(right)
    cause = f"the loop in line {line} ends when the last tile is loaded; that tile is never multiplied"
    if start and not _ZERO.fullmatch(start) and left.type == "identifier":
        yield Candidate("unused-tile", cause, f"let it run once more: write `{end} + {start}` for `{end}` in line "
                        f"{line}",
                        (Edit(code.path, right.start_byte, right.end_byte, f"{end} + {start}"),))  # fmt: skip
    if ahead := _AHEAD.fullmatch(code.of(left)):
        yield Candidate("unused-tile", cause, f"let it run once more: write `{ahead['counter']} < {end}` in line "
                        f"{line}",
                        (Edit(code.path, left.start_byte, left.end_byte, ahead["counter"]),))  # fmt: skip


def _start(function: Function, loop: Node) -> str:
    """What the loop's counter starts at."""
    first = loop.child_by_field_name("initializer")
    for each in below(first, "init_declarator", "assignment_expression") if first is not None else ():
        value = each.child_by_field_name("value") or each.child_by_field_name("right")
        return function.code.of(value) if value is not None else ""
    return ""


def _after(program: Program, function: Function, loop: Node) -> Iterator[Candidate]:
    """The statements of the loop that load nothing and do not name its counter, once more after it."""
    code, body = function.code, loop.child_by_field_name("body")
    first = loop.child_by_field_name("initializer")
    if body is None or body.type != "compound_statement" or first is None:
        return
    named = next(iter(re.findall(r"(\w+)\s*=", code.of(first))), "")
    loads = [name for name, role in operands(program).items() if role in "AB"]
    left_out = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in (*loads, named) if name))
    kept = [each for each in body.named_children if each.type != "comment" and not left_out.search(code.of(each))]
    text = "\n".join(code.of(each) for each in kept)
    if len(kept) == len(body.named_children) or "sync" not in text or "for" not in text:
        return
    if multiplied := _multiplied(program, function, kept):
        yield _repeated(function, loop, multiplied)
    yield _repeated(function, loop, text)


def _multiplied(program: Program, function: Function, kept: list[Node]) -> str:
    """Of the statements that are repeated those that read the tile, without what stores the next one and without
    barriers that only this store needs; empty if that leaves nothing out."""
    code, arrays = function.code, shared_names(program)
    stores = [each for each in kept if (written := _STORE.match(code.of(each))) and written[1] in arrays]
    first = kept.index(stores[0]) if stores else len(kept)
    while first and "sync" in code.of(kept[first - 1]):
        first -= 1
    rest = kept[first:]
    only_stores = all(each in stores or "sync" in code.of(each) for each in rest)
    return "\n".join(code.of(each) for each in kept[:first]) if stores and first and only_stores else ""


def _repeated(function: Function, loop: Node, text: str) -> Candidate:
    """Statements of a loop once more after it."""
    code = function.code
    line, last = code.line(loop.start_byte), code.last_line(loop)
    new = "".join(f"\n{' ' * 4}{each}" for each in text.split("\n"))
    return Candidate("unused-tile", f"the loop in line {line} ends when the last tile is loaded; that tile is never "
                     "multiplied", f"repeat what the loop does with a tile after line {last}",
                     (Edit(code.path, loop.end_byte, loop.end_byte, new,
                           (loop.end_byte, loop.end_byte, " " + " ".join(_uncommented(text).split()))),))  # fmt: skip


def _uncommented(text: str) -> str:
    """Statements on one line must not begin with a comment or end in a directive."""
    return "\n".join(re.sub(r"//.*|^\s*#.*", "", line) for line in text.split("\n"))
