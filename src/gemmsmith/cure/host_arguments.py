"""What host code passes to a kernel: a size from the wrong axis of a tensor, a wrong stride or leading dimension."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from gemmsmith.cure.code import Code, Program, above, below
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.wording import flat, in_lines

if TYPE_CHECKING:
    from tree_sitter import Node

_SIZE = re.compile(r"(\w+)\s*\.\s*size\s*\(\s*([01])\s*\)")
_CAST = re.compile(r"^\s*(\(\s*(?:(?:unsigned|long|int|size_t|int64_t)\s*)+\)|)\s*(.*)$", re.S)


def passed_arguments(program: Program) -> Iterator[Candidate]:
    """Another axis of a tensor; another product of two extents, or another extent, at each argument of the launch."""
    for code, listed in launched_arguments(program):
        yield from _tensor_axes(code, listed)
        arguments = [node for node in listed.named_children if node.type != "comment"]
        names = [code.of(node) for node in arguments if node.type == "identifier"]
        extents = [name for name in dict.fromkeys(names) if _is_extent(program, code, listed, name)]
        for node in arguments:
            cast, factors = _factors(code.of(node))
            if len(factors) == 2 and set(factors) <= set(extents):
                options = [
                    f"{cast}{one} * {two}" for one, two in combinations(extents, 2) if {one, two} != set(factors)
                ]
            elif code.of(node) in extents and names.count(code.of(node)) > 1:
                options = [name for name in extents if name != code.of(node)]
            else:
                continue
            for new in options:
                line, old = code.line(node.start_byte), flat(code.of(node))
                yield Candidate("wrong-argument", f"the launch in line {line} passes `{old}`; it should be `{new}`",
                                f"write `{new}` for `{old}` in line {line}",
                                (Edit(code.path, node.start_byte, node.end_byte, new),))  # fmt: skip


def _tensor_axes(code: Code, listed: Node) -> Iterator[Candidate]:
    """`b.size(0)` becomes `b.size(1)`, and the other way round, in the function that launches the kernel: all that are
    the same, then each."""
    holder = next((each for each in above(listed) if each.type == "function_definition"), None)
    calls: dict[str, list[Node]] = {}
    for node in below(holder, "call_expression") if holder is not None else ():
        if _SIZE.fullmatch(code.of(node)):
            calls.setdefault(flat(code.of(node)), []).append(node)
    for old, nodes in calls.items():
        match = _SIZE.fullmatch(old)
        new = f"{match[1]}.size({1 - int(match[2])})" if match is not None else ""
        for group in (nodes, *([node] for node in nodes if len(nodes) > 1)):
            lines = {code.line(node.start_byte) for node in group}
            verb, where = "takes" if len(lines) == 1 else "take", in_lines(lines)
            yield Candidate("wrong-tensor-axis", f"{where} {verb} `{old}`; it should be `{new}`",
                            f"write `{new}` in {where}",
                            tuple(Edit(code.path, node.start_byte, node.end_byte, new) for node in group))  # fmt: skip


def launched_arguments(program: Program) -> Iterator[tuple[Code, Node]]:
    """The argument lists of the kernel's launches."""
    for code in program.files:
        for call in below(code.root, "kernel_call_syntax"):
            started = call.parent
            listed = started.child_by_field_name("arguments") if started is not None else None
            if listed is not None and started is not None and re.match(rf"{program.entry}\b", code.of(started)):
                yield code, listed


def _is_extent(program: Program, code: Code, listed: Node, name: str) -> bool:
    """Whether an argument is passed for a parameter that is M, N or K."""
    kernel = program.kernel
    inside = kernel.head[kernel.head.find("(") + 1 : kernel.head.rfind(")")] if kernel is not None else ""
    parameters = [re.sub(r".*?(\w+)\s*$", r"\1", part.strip(), flags=re.S) for part in inside.split(",")]
    arguments = [code.of(node) for node in listed.named_children if node.type != "comment"]
    sizes = {program.names.get(role, "") for role in ("M", "N", "K")}
    return any(argument == name and parameter in sizes
               for argument, parameter in zip(arguments, parameters, strict=False))  # fmt: skip


def _factors(text: str) -> tuple[str, list[str]]:
    """The cast of a product, and its factors."""
    match = _CAST.match(text)
    cast, rest = (match[1], match[2]) if match is not None else ("", text)
    return cast, [part.strip() for part in rest.split("*")]
