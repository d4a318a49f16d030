"""Reductions that halve or double a distance, by shuffles or in shared memory: where they start and end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.code import LOOPS, Code, Program, below
from gemmsmith.cure.edit import Candidate, Edit

if TYPE_CHECKING:
    from tree_sitter import Node

# `__shfl_down_sync(…)`, `tile.shfl_down(…)`, or `s[t] += s[t + d]`.
_REDUCTION = re.compile(r"shfl_|\b(\w+)\s*\[[^\]]*\]\s*(?:\+=|=\s*\1\s*\[[^\]]*\]\s*\+)\s*\1\s*\[")
_DISTANCES = ("4", "8", "16", "32")
# The last distance of a reduction is 1: `d > 1` leaves it out.
_ENDS = {(">", "1"): "> 0", (">", "2"): "> 0", (">=", "2"): ">= 1", (">=", "4"): ">= 1", ("!=", "1"): "!= 0"}
_STEPS = {("/=", "4"): "/= 2", (">>=", "2"): ">>= 1", ("*=", "4"): "*= 2", ("<<=", "2"): "<<= 1"}


def wrong_distances(program: Program) -> Iterator[Candidate]:
    """Reductions by halving or doubling a distance: a last distance other than 1, steps over a distance, a wrong first
    distance."""
    for function in program.reached:
        code = function.code
        loops = [loop for loop in below(function.body, *LOOPS) if _REDUCTION.search(code.of(loop))]
        loops = [loop for loop in loops if not any(_holds(loop, other) for other in loops)]
        for loop in loops:
            yield from _ends(function.code, loop)
        for loop in loops:
            yield from _starts(function.code, loop)


def _holds(outer: Node, inner: Node) -> bool:
    return outer.id != inner.id and outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte


def _ends(code: Code, loop: Node) -> Iterator[Candidate]:
    line = code.line(loop.start_byte)
    for part, known, what in (("condition", _ENDS, "ends"), ("update", _STEPS, "goes on")):
        node = loop.child_by_field_name(part)
        if node is not None and node.type in ("condition_clause", "parenthesized_expression"):
            node = next(below(node, "binary_expression"), None)
        operator = node.child_by_field_name("operator") if node is not None else None
        right = node.child_by_field_name("right") if node is not None else None
        new = known.get((code.of(operator), code.of(right))) if operator is not None and right is not None else None
        if node is None or operator is None or right is None or new is None:
            continue
        yield Candidate("reduction-distance", f"the reduction in line {line} {what} with `{code.of(node)}`, so that "
                        "some partial sums are never added",
                        f"write `{code.text[node.start_byte : operator.start_byte]}{new}` in line {line}",
                        (Edit(code.path, operator.start_byte, right.end_byte, new),))  # fmt: skip


def _starts(code: Code, loop: Node) -> Iterator[Candidate]:
    start = loop.child_by_field_name("initializer")
    for each in below(start, "number_literal") if start is not None else ():
        for new in ("16", "8", "32"):
            if code.of(each) in _DISTANCES and new != code.of(each):
                line = code.line(each.start_byte)
                yield Candidate("reduction-distance", f"the reduction in line {line} starts at distance "
                                f"{code.of(each)}",
                                f"start at {new} in line {line}",
                                (Edit(code.path, each.start_byte, each.end_byte, new),))  # fmt: skip
