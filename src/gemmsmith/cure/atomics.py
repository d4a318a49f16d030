"""Blocks or threads that add to one element without an atomic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.code import Code, Program, below, statements_at
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.fault import Fault

if TYPE_CHECKING:
    from tree_sitter import Node


def _added(code: Code, right: Node, target: str) -> str:
    """x of `target + x` and `x + target`; empty for anything else."""
    one, sign, two = (right.child_by_field_name(part) for part in ("left", "operator", "right"))
    if right.type != "binary_expression" or one is None or two is None or sign is None or code.of(sign) != "+":
        return ""
    same = ["".join(code.of(side).split()) == "".join(target.split()) for side in (one, two)]
    return code.of(two) if same[0] else code.of(one) if same[1] else ""


def atomics(program: Program, fault: Fault) -> Iterator[Candidate]:
    """`C[i] += x` becomes `atomicAdd(&C[i], x)`."""
    alone = {race.first.place for race in fault.races if race.first.place == race.second.place}
    for race in (race for race in fault.races if race.is_global or race.first.place in alone):
        for name, line in dict.fromkeys((race.first.place, race.second.place)):
            code = program.file(name)
            for function in (f for f in program.functions if f.code is code and f.holds(line)):
                for statement in statements_at(function, line):
                    for node in below(statement, "assignment_expression"):
                        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
                        sign = node.child_by_field_name("operator")
                        if left is None or right is None or sign is None:
                            continue
                        target, added, operator = (function.code.of(part) for part in (left, right, sign))
                        if operator == "=":
                            added = _added(function.code, right, target)
                        if operator not in ("=", "+=") or not added:
                            continue
                        new = f"atomicAdd(&{target}, {added})"
                        edit = Edit(function.code.path, node.start_byte, node.end_byte, new)
                        cause = f"several threads add to the same element in line {line} without an atomic"
                        yield Candidate("missing-atomic", cause, f"write `{new}` in line {line}", (edit,))
