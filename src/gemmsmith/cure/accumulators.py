"""Accumulators: without an initial value, or not set to zero again for the next output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from gemmsmith.cure.code import LOOPS, Function, Program, above, below
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.slots import Slot, children

if TYPE_CHECKING:
    from tree_sitter import Node

_SUM = re.compile(r"^(?:float|double|half|__half|int|float2|float4|\w+_t|T\w*|Acc\w*|acc_t)$")

_ZERO = r"0|0\.|0\.0|0\.f|0\.0f|0\.F|0\.0F|T\(0\)"
_RESET = re.compile(rf"(?P<name>[A-Za-z_]\w*) = (?:{_ZERO});|"
                    r"(?:nvcuda::)?(?:wmma::)?fill_fragment\( ?(?P<fragment>\w+) ?, ?[^;]*\);")  # fmt: skip
# The same for one element, or for all of them in loops.
_ZEROED = re.compile(r"(?:(?:#pragma unroll )?for \([^()]*\) \{? ?)*(?:(?P<name>[A-Za-z_]\w*)(?: ?\[[^\]]*\])* = "
                     rf"(?:{_ZERO}|\w+\(0\.?0?f?\));|(?:nvcuda::)?(?:wmma::)?"
                     r"fill_fragment\( ?(?P<fragment>\w+)(?:\[[^\]]*\])* ?, ?[^;]*\);)(?: \})*")  # fmt: skip


def unset(program: Program) -> Iterator[Candidate]:
    """`float acc;` becomes `float acc = 0;` where something is added to it."""
    for function in program.reached:
        code, body = function.code, function.code.of(function.body)
        for node in below(function.body, "declaration"):
            kind = node.child_by_field_name("type")
            if kind is None or not _SUM.match(code.of(kind)) or "__shared__" in code.of(node):
                continue
            for declared in node.children_by_field_name("declarator"):
                name = code.of(declared).split("[")[0].strip()
                if declared.type not in ("identifier", "array_declarator") or not name.isidentifier():
                    continue
                added = rf"\b{name}\b[^;=]*(?:\+=|=\s*(?:__?fmaf?\w*|fma)\s*\()"
                added += rf"|mma\w*\s*\(\s*{name}\b|\"\+[fdr]\"\s*\({name}\b"
                if not re.search(added, body):
                    continue
                line, value = code.line(declared.start_byte), " = {}" if declared.type == "array_declarator" else " = 0"
                yield Candidate("uninitialised-accumulator", f"`{name}` in line {line} is never set first",
                                f"write `{code.of(declared)}{value}` in line {line}",
                                (Edit(code.path, declared.end_byte, declared.end_byte, value),))  # fmt: skip


def misset(program: Program) -> Iterator[Candidate]:
    """`float acc = 1.f;` becomes `float acc = 0;` where something is added to it."""
    for function in program.reached:
        code, body = function.code, function.code.of(function.body)
        for node in below(function.body, "init_declarator"):
            named, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
            kind = node.parent.child_by_field_name("type") if node.parent is not None else None
            if named is None or value is None or kind is None or not _SUM.match(code.of(kind)):
                continue
            name, old = code.of(named), code.of(value)
            is_added = re.search(rf"\b{re.escape(name)}\s*(?:\+=|=\s*(?:__)?fmaf?\w*\s*\()", body) is not None
            if value.type == "number_literal" and not re.fullmatch(_ZERO, old) and is_added and not _counts(node):
                line, zero = code.line(node.start_byte), "0.f" if old.endswith("f") else "0"
                yield Candidate("uninitialised-accumulator", f"`{name}` in line {line} starts at {old}, where a sum "
                                f"starts at 0", f"write `{name} = {zero}` in line {line}",
                                (Edit(code.path, value.start_byte, value.end_byte, zero),))  # fmt: skip


def _counts(node: Node) -> bool:
    """Whether a declaration is in the head of a loop."""
    return node.parent is not None and node.parent.parent is not None and node.parent.parent.type == "for_statement"


def unfilled_fragments(program: Program) -> Iterator[Candidate]:
    """`wmma::fill_fragment` after the declaration of an accumulator that `mma_sync` adds to and nothing sets."""
    for function in program.reached:
        code, body = function.code, function.code.of(function.body)
        for node in below(function.body, "declaration"):
            kind, named = node.child_by_field_name("type"), node.child_by_field_name("declarator")
            if kind is None or named is None or "accumulator" not in code.of(kind) or node.parent is None:
                continue
            name = code.of(named).split("[")[0].strip()
            added = re.search(rf"((?:\w+::)*)mma_sync\s*\(\s*{re.escape(name)}\b", body)
            is_set = re.search(
                rf"fill_fragment\s*\(\s*{re.escape(name)}\b|load_matrix_sync\s*\(\s*{re.escape(name)}\b", body
            )
            if added is None or is_set is not None or node.parent.type != "compound_statement":
                continue
            depth = code.of(named).count("[")
            each = [name, *(f"part{level}" for level in range(depth))]
            loops = "".join(f"for (auto& {inner} : {outer}) " for outer, inner in pairwise(each))
            place = next(i for i, child in enumerate(children(node.parent)) if child.id == node.id)
            slot, text = Slot(code, node.parent, place), f"{loops}{added[1]}fill_fragment({each[-1]}, 0.0f);"
            yield Candidate("uninitialised-accumulator", f"`{name}` in line {code.line(node.start_byte)} is never "
                            "initialised: mma_sync adds to what its registers hold", f"insert `{text}` after line "
                            f"{slot.after_line}", (slot.insertion(text),))  # fmt: skip


def not_reset(program: Program) -> Iterator[Candidate]:
    """A sum that is set before a loop over outputs, and goes on in its next iteration: set in the loop instead."""
    for function in program.reached:
        for node in below(function.body, "declaration"):
            yield from _set_in_loops(function, node)
        for node in below(function.body, "expression_statement", "for_statement"):
            yield from _set_again(function, node)


def _set_again(function: Function, node: Node) -> Iterator[Candidate]:
    """`acc[0] = 0;` or a loop of such before a loop over outputs: once more at the start of each iteration."""
    code, block = function.code, node.parent
    match = _ZEROED.fullmatch(" ".join(code.of(node).split()))
    if match is None or block is None or block.type != "compound_statement":
        return
    name = match["name"] or match["fragment"]
    for loop in (each for each in children(block) if each.type in LOOPS and each.start_byte > node.end_byte):
        body = loop.child_by_field_name("body")
        sums = [each for each in below(loop, *LOOPS) if each.id != loop.id and _adds_to(code.of(each), name)]
        if body is None or body.type != "compound_statement" or not sums:
            continue
        slot, line = Slot(code, body, -1), code.line(loop.start_byte)
        yield Candidate("accumulator-not-reset", f"`{name}` is set in line {code.line(node.start_byte)} only: in the "
                        f"next iteration of the loop in line {line} it still has the sum of the last one",
                        f"set it to zero after line {slot.after_line}, too",
                        (slot.insertion(" ".join(code.of(node).split())),))  # fmt: skip


def _adds_to(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b[^;=]*(?:\+=|=\s*\w*fma)|mma_sync\s*\(\s*{name}\b", text) is not None


def _set_in_loops(function: Function, declaration: Node) -> Iterator[Candidate]:
    code, kind = function.code, declaration.child_by_field_name("type")
    declared = declaration.children_by_field_name("declarator")
    if kind is None or not _SUM.match(code.of(kind)) or "__shared__" in code.of(declaration) or len(declared) != 1:
        return
    value = declared[0].child_by_field_name("value")
    named = declared[0].child_by_field_name("declarator")
    if declared[0].type != "init_declarator" or value is None or named is None:
        return
    name = code.of(named).split("[")[0].strip()
    loops: dict[int, Node] = {}
    for node in below(function.body, "assignment_expression"):
        if node.start_byte < declaration.start_byte or not re.match(rf"{re.escape(name)}\b[^=]*\+=", code.of(node)):
            continue
        around = [each for each in above(node) if each.type in LOOPS and each.start_byte > declaration.start_byte]
        loops |= {each.id: each for each in reversed(around[1:])}  # not the innermost: it sums
    for loop in loops.values():
        body = loop.child_by_field_name("body")
        if body is None or body.type != "compound_statement":
            continue
        slot, line = Slot(code, body, -1), code.line(loop.start_byte)
        cause = (f"`{name}` is set in line {code.line(declaration.start_byte)} only: in the next iteration of the loop "
                 f"of line {line} it still has the sum of the last one")  # fmt: skip
        if re.search(rf"\b{re.escape(name)}\b", code.text[loop.end_byte : function.body.end_byte]) is None:
            taken = Edit(code.path, declaration.start_byte, declaration.end_byte, ";")
            text, moved = code.of(declaration), _line_removed(function, declaration, taken)
            yield Candidate("accumulator-not-reset", cause, f"move `{text}` into that loop, after line "
                            f"{slot.after_line}", (moved, slot.insertion(text)))  # fmt: skip
        elif named.type == "identifier":
            text = f"{name} = {code.of(value)};"
            yield Candidate("accumulator-not-reset", cause, f"insert `{text}` after line {slot.after_line}",
                            (slot.insertion(text),))  # fmt: skip


def reset_too_often(program: Program) -> Iterator[Candidate]:
    """A sum that is set in every iteration of the loop that adds to it: set before that loop instead."""
    for function in program.reached:
        code = function.code
        for node in below(function.body, "expression_statement"):
            match = _RESET.fullmatch(" ".join(code.of(node).split()))
            name = (match["name"] or match["fragment"]) if match is not None else ""
            loops = [each for each in above(node) if each.type in LOOPS and each.start_byte > function.body.start_byte]
            for loop in loops if name else ():
                if not _adds_to(code.of(loop), name):
                    continue
                parent = loop.parent
                if parent is None or parent.type != "compound_statement":
                    continue
                place = next(i for i, child in enumerate(children(parent)) if child.id == loop.id)
                slot, line, text = Slot(code, parent, place - 1), code.line(node.start_byte), code.of(node)
                removed = _line_removed(function, node, Edit(code.path, node.start_byte, node.end_byte, ";"))
                yield Candidate("accumulator-reset-too-often", f"line {line} sets `{name}` to zero in every iteration "
                                f"of the loop in line {code.line(loop.start_byte)}: only the last one counts",
                                f"move `{text}` before that loop, after line {slot.after_line}",
                                (removed, slot.insertion(text)))  # fmt: skip


def _line_removed(function: Function, node: Node, in_copy: Edit) -> Edit:
    """The declaration taken away, with its line where it has one of its own."""
    text = function.code.text
    start, end = text.rfind("\n", 0, node.start_byte) + 1, text.find("\n", node.end_byte)
    if end >= 0 and text[start:end].strip() == function.code.of(node).strip():
        return Edit(in_copy.path, start, end + 1, "", (in_copy.start, in_copy.end, in_copy.text))
    return in_copy
