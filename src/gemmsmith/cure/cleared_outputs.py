"""Outputs that a block sets to zero while other blocks already add to them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.code import Code, Function, Program, above, statements_at
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.fault import Fault
from gemmsmith.cure.host_arguments import launched_arguments
from gemmsmith.cure.slots import Slot, children

if TYPE_CHECKING:
    from tree_sitter import Node

_ZERO = re.compile(r"[^=;]*\[[^;]*\]\s*=\s*(?:0|0\.0?|0\.0?[fF]|\w+\(0(?:\.0?f?)?\))\s*;?")


def cleared_before(program: Program, fault: Fault) -> Iterator[Candidate]:
    """`C[i] = 0` in the kernel becomes a `cudaMemset` before the launch."""
    places = {place for race in fault.races if race.across_blocks for place in (race.first.place, race.second.place)}
    for name, line in sorted(places):
        code = program.file(name)
        for function in (f for f in program.functions if f.code is code and f.holds(line)):
            for statement in statements_at(function, line):
                clear = _whole(function, statement)
                memset = _memset(program) if _ZERO.fullmatch(function.code.of(statement).strip()) else None
                if memset is not None:
                    text, insertion = memset
                    removed = Edit(function.code.path, clear.start_byte, clear.end_byte, ";")
                    yield Candidate("cleared-too-late", f"line {line} sets elements to zero while other blocks may "
                                    "have added to them already: nothing makes blocks wait for one another",
                                    f"remove it, and insert `{text}` before the launch",
                                    (removed, insertion), reread=True)  # fmt: skip


def _whole(function: Function, statement: Node) -> Node:
    """The statement with the `if` that holds nothing else."""
    here = statement
    for parent in above(statement):
        is_alone = parent.type == "compound_statement" and len(children(parent)) == 1
        is_branch = parent.type == "if_statement" and parent.child_by_field_name("alternative") is None
        if parent.id == function.body.id or not (is_alone or is_branch):
            break
        here = parent
    return here


def _memset(program: Program) -> tuple[str, Edit] | None:
    """`cudaMemset` of all of C, before the launch."""
    kernel = program.kernel
    names, roles = program.names, ("C", "M", "N")
    for code, listed in launched_arguments(program):
        passed = _passed(kernel, code, listed) if kernel is not None else {}
        texts = [passed.get(names.get(role, "")) for role in roles]
        launch = next((each for each in above(listed) if each.type == "expression_statement"), None)
        block = launch.parent if launch is not None else None
        if launch is None or block is None or block.type != "compound_statement" or None in texts:
            continue
        out, rows, columns = texts
        text = f"cudaMemset({out}, 0, sizeof(*{out}) * {rows} * {columns});"
        place = next(i for i, child in enumerate(children(block)) if child.id == launch.id)
        return text, Slot(code, block, place - 1).insertion(text)
    return None


def _passed(kernel: Function, code: Code, listed: Node) -> dict[str, str]:
    """What the launch passes for each parameter."""
    inside = kernel.head[kernel.head.find("(") + 1 : kernel.head.rfind(")")]
    parameters = [re.sub(r".*?(\w+)\s*$", r"\1", part.strip(), flags=re.S) for part in inside.split(",")]
    arguments = [code.of(node) for node in listed.named_children if node.type != "comment"]
    return dict(zip(parameters, arguments, strict=False))
