"""Functions of a warp: member masks that leave out lanes, and the distances of reductions by shuffles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.code import Code, Program, below
from gemmsmith.cure.edit import Candidate, Edit

if TYPE_CHECKING:
    from tree_sitter import Node

_MASK = re.compile(
    r"\b__(?:shfl\w*_sync|syncwarp|ballot_sync|any_sync|all_sync|reduce_\w+_sync)\s*\(\s*(0[xX][0-9a-fA-F]+)"
)
_DISTANCES = ("4", "8", "16", "32")
# The last distance of a reduction is 1: `d > 1` leaves it out.
_ENDS = {(">", "1"): "> 0", (">", "2"): "> 0", (">=", "2"): ">= 1", (">=", "4"): ">= 1", ("!=", "1"): "!= 0"}
_STEPS = {("/=", "4"): "/= 2", (">>=", "2"): ">>= 1", ("*=", "4"): "*= 2", ("<<=", "2"): "<<= 1"}


def masks(program: Program) -> Iterator[Candidate]:
    """Member masks of warp-wide functions that leave out lanes."""
    for function in program.reached:
        code = function.code
        for match in _MASK.finditer(code.text, function.body.start_byte, function.body.end_byte):
            if int(match[1], 16) != 0xFFFFFFFF:
                line = code.line(match.start(1))
                yield Candidate("wrong-mask", f"the member mask {match[1]} of line {line} leaves out lanes",
                                f"write `0xffffffff` in line {line}",
                                (Edit(code.path, match.start(1), match.end(1), "0xffffffff"),))  # fmt: skip


def shuffles(program: Program) -> Iterator[Candidate]:
    """Reductions by shuffles: a last distance other than 1, steps over a distance, a wrong first distance."""
    for function in program.reached:
        loops = [loop for loop in below(function.body, "for_statement") if "__shfl" in function.code.of(loop)]
        for loop in loops:
            yield from _ends(function.code, loop)
        for loop in loops:
            yield from _starts(function.code, loop)


def _ends(code: Code, loop: Node) -> Iterator[Candidate]:
    line = code.line(loop.start_byte)
    for part, known, what in (("condition", _ENDS, "end"), ("update", _STEPS, "go on")):
        node = loop.child_by_field_name(part)
        operator = node.child_by_field_name("operator") if node is not None else None
        right = node.child_by_field_name("right") if node is not None else None
        new = known.get((code.of(operator), code.of(right))) if operator is not None and right is not None else None
        if node is None or operator is None or right is None or new is None:
            continue
        yield Candidate("shuffle-distance", f"the shuffles of line {line} {what} with `{code.of(node)}`, so that some "
                        "lanes are never added", f"write `{code.text[node.start_byte : operator.start_byte]}{new}` in "
                        f"line {line}", (Edit(code.path, operator.start_byte, right.end_byte, new),))  # fmt: skip


def _starts(code: Code, loop: Node) -> Iterator[Candidate]:
    start = loop.child_by_field_name("initializer")
    for each in below(start, "number_literal") if start is not None else ():
        for new in ("16", "8", "32"):
            if code.of(each) in _DISTANCES and new != code.of(each):
                line = code.line(each.start_byte)
                yield Candidate("shuffle-distance", f"the shuffles of line {line} start at distance {code.of(each)}",
                                f"start at {new} in line {line}",
                                (Edit(code.path, each.start_byte, each.end_byte, new),))  # fmt: skip
