"""Assignments to the registers of a fragment, one after another, of which two are interchanged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from gemmsmith.cure.code import Function, Program, below
from gemmsmith.cure.edit import Candidate, Edit

if TYPE_CHECKING:
    from tree_sitter import Node

_REGISTER = re.compile(r"(?P<array>\w+(?:\[[^\]]*\])*)\[(?P<number>\d)\]$")
_MOST = 8  # registers of a fragment


def interchanged(program: Program) -> Iterator[Candidate]:
    """`a[1] = x; a[2] = y;` becomes `a[1] = y; a[2] = x;`: of the four registers of A the two in the middle first."""
    for function in program.reached:
        for array, found in _fragments(function).items():
            numbers = sorted(found)
            pairs = sorted(combinations(numbers, 2), key=lambda pair: (pair != (1, 2), pair[1] - pair[0], pair))
            for one, other in pairs:
                yield _swapped(function, array, one, other, found)


def _fragments(function: Function) -> dict[str, dict[int, Node]]:
    """What is assigned to each register, by the array's text: where each has one assignment, in one block."""
    code = function.code
    found: dict[str, dict[int, list[Node]]] = {}
    for node in below(function.body, "assignment_expression"):
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        match = _REGISTER.fullmatch(code.of(left)) if left is not None else None
        if match and right is not None and right.type != "number_literal":
            found.setdefault(match["array"], {}).setdefault(int(match["number"]), []).append(right)
    return {array: {number: nodes[0] for number, nodes in numbers.items()} for array, numbers in found.items()
            if 1 < len(numbers) <= _MOST and all(len(nodes) == 1 for nodes in numbers.values())}  # fmt: skip


def _swapped(function: Function, array: str, one: int, other: int, found: dict[int, Node]) -> Candidate:
    code, first, second = function.code, found[one], found[other]
    lines = code.line(first.start_byte), code.line(second.start_byte)
    where = f"lines {lines[0]} and {lines[1]}" if lines[0] != lines[1] else f"line {lines[0]}"
    return Candidate("interchanged-registers", f"registers {one} and {other} of the fragment `{array}` are "
                     f"interchanged in {where}: mma expects in {array}[{one}] what is in {array}[{other}], and "
                     "the other way round",
                     f"swap what `{array}[{one}]` and `{array}[{other}]` are set to",
                     (Edit(code.path, first.start_byte, first.end_byte, code.of(second)),
                      Edit(code.path, second.start_byte, second.end_byte, code.of(first))))  # fmt: skip
