"""Barriers that not all threads reach: those inside an `if`, and those after an early `return`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.accesses import global_accesses
from gemmsmith.cure.code import LOOPS, Code, Function, Program, above, below
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.fault import Fault, Place
from gemmsmith.cure.guards import guarded_load, guarded_store, inside, is_guarded, lacking
from gemmsmith.cure.slots import Slot, children, indent_at

if TYPE_CHECKING:
    from tree_sitter import Node

_BARRIER = re.compile(r"__syncthreads\s*\(\s*\)\s*;")
_WAITS = re.compile(r"(?:__syncthreads|\bblock\.sync)\s*\(\s*\)")
_LEAVES = re.compile(r"\{?\s*(return|break)\s*;\s*\}?")
_ENDS_IN_RETURN = re.compile(r"\)\s*\{?\s*return\s*;\s*\}?$")


def opened_branches(program: Program, fault: Fault) -> Iterator[Candidate]:
    """`if (c) { a; __syncthreads(); b; }` becomes `if (c) { a; } __syncthreads(); if (c) { b; }`."""
    for function in program.reached:
        found: dict[int, tuple[Node, list[Node]]] = {}
        for node in _barriers(function):
            branch = _branch(node)
            if branch is not None and _is_named(fault.places + fault.exited, function.code, node):
                found.setdefault(branch.id, (branch, []))[1].append(node)
        for branch, barriers in found.values():
            edits = _opened(function.code, branch, barriers)
            if edits:
                yield _opened_candidate(function.code, branch, barriers, edits)


def moved_barriers(program: Program, fault: Fault) -> Iterator[Candidate]:
    """A barrier somewhere in a branch, moved behind it; one that is all of the branch stays without the `if`."""
    for function in program.reached:
        code = function.code
        for node in _barriers(function):
            branch = _branch(node)
            if branch is None or not _is_named(fault.places + fault.exited, code, node):
                continue
            line, at = code.line(node.start_byte), code.line(branch.start_byte)
            cause = (f"the `__syncthreads()` in line {line} is inside the `if` in line {at}, which not all threads of "
                     "the block take")  # fmt: skip
            if _is_all_of(branch, node):
                edit = Edit(code.path, branch.start_byte, node.start_byte, "")
                yield Candidate("divergent-barrier", cause, f"remove the `if` in line {at}", (edit,))
            elif (slot := _behind(branch, code)) is not None and node.parent is not None:
                edits = (_removed(code, node), slot.insertion("__syncthreads();"))
                change = f"move it out of the `if`, after line {slot.after_line}"
                if node.parent.type == "compound_statement":
                    yield Candidate("divergent-barrier", cause, change, edits)


def _is_all_of(branch: Node, node: Node) -> bool:
    body = branch.child_by_field_name("consequence")
    return body is not None and body.id == node.id and branch.child_by_field_name("alternative") is None


def _behind(branch: Node, code: Code) -> Slot | None:
    parent = branch.parent
    if parent is None or parent.type != "compound_statement":
        return None
    place = next(i for i, child in enumerate(children(parent)) if child.id == branch.id)
    return Slot(code, parent, place)


def _barriers(function: Function) -> Iterator[Node]:
    for node in below(function.body, "expression_statement"):
        if _BARRIER.fullmatch(function.code.of(node).strip()):
            yield node


def _is_named(places: tuple[Place, ...], code: Code, node: Node) -> bool:
    """Whether a fault names the barrier; one that names no line may be any."""
    line = code.line(node.start_byte)
    return not places or any(code.path.name == name.rsplit("/", 1)[-1] and at == line for name, at in places)


def _branch(node: Node) -> Node | None:
    """The outermost `if` around a statement, within the same loop."""
    found = None
    for parent in above(node):
        if parent.type in LOOPS or parent.type in ("function_definition", "lambda_expression"):
            break
        if parent.type == "if_statement":
            found = parent
    return found


def _opened(code: Code, branch: Node, barriers: list[Node]) -> tuple[Edit, ...]:
    """Each barrier of a branch outside it: before, behind, or between two parts of it. Empty where that is not simple:
    the branch has an `else`, or the barrier is deeper inside."""
    body, parent = branch.child_by_field_name("consequence"), branch.parent
    test = branch.child_by_field_name("condition")
    simple = body is not None and test is not None and branch.child_by_field_name("alternative") is None
    if not simple or body is None or test is None or parent is None or parent.type != "compound_statement":
        return ()
    listed = children(body) if body.type == "compound_statement" else []
    place = next(i for i, child in enumerate(children(parent)) if child.id == branch.id)
    edits: list[Edit] = []
    for node in barriers:
        at = next((i for i, child in enumerate(listed) if child.id == node.id), None)
        if at is None:
            return ()
        if at == 0 and len(listed) > 1:
            edits += [_removed(code, node), Slot(code, parent, place - 1).insertion("__syncthreads();")]
        elif at == len(listed) - 1:
            edits += [_removed(code, node), Slot(code, parent, place).insertion("__syncthreads();")]
        else:
            lead = indent_at(code.text, branch.start_byte)
            parts = ("}", f"{lead}__syncthreads();", f"{lead}if {code.of(test)} {{")
            start = code.text.rfind("\n", 0, node.start_byte) + 1
            alone = not code.text[start : node.start_byte].strip()
            flat = node.start_byte, node.end_byte, " ".join(part.strip() for part in parts)
            shown = start if alone else node.start_byte
            text = (lead if alone else "") + "\n".join(parts)
            edits.append(Edit(code.path, shown, node.end_byte, text, flat))
    return tuple(edits)


def _removed(code: Code, node: Node) -> Edit:
    """A statement taken away, with its line where it has one of its own; in a copy an empty one stands there."""
    start, end = code.text.rfind("\n", 0, node.start_byte) + 1, code.text.find("\n", node.end_byte)
    in_copy = node.start_byte, node.end_byte, ";"
    if end >= 0 and code.text[start:end].strip() == code.of(node).strip():
        return Edit(code.path, start, end + 1, "", in_copy)
    return Edit(code.path, *in_copy)


def _opened_candidate(code: Code, branch: Node, barriers: list[Node], edits: tuple[Edit, ...]) -> Candidate:
    lines = list(dict.fromkeys(code.line(node.start_byte) for node in barriers))
    many, where = len(lines) > 1, " and ".join(map(str, lines))
    cause = (f"the `__syncthreads()` in line{'s' * many} {where} {'are' if many else 'is'} inside the `if` of line "
             f"{code.line(branch.start_byte)}, which not all threads of the block take")  # fmt: skip
    change = f"move {'them' if many else 'it'} out of the `if`, so that every thread reaches {'them' if many else 'it'}"
    return Candidate("divergent-barrier", cause, change, edits)


# --- a return before a barrier


def early_returns(program: Program, fault: Fault) -> Iterator[Candidate]:
    """Threads outside C return, or leave the loop, before a barrier at which others wait for what they would load:
    without the `return` or `break`, with a guard at each access."""
    kernel = program.kernel
    if kernel is None or not fault.exited:
        return
    code = kernel.code
    barriers = [node for node in _barriers(kernel) if _is_named(fault.exited, code, node)]
    if not barriers:
        return
    first = min(barriers, key=lambda node: node.start_byte)
    for node in below(kernel.body, "if_statement"):
        body = node.child_by_field_name("consequence")
        leaves = _LEAVES.fullmatch(code.of(body)) if body is not None else None
        if leaves is None or node.start_byte > first.start_byte or not _reaches(node, first, leaves[1]):
            continue
        guards = _guards(program)
        line = code.line(node.start_byte)
        does = "return" if leaves[1] == "return" else "leave the loop"
        made = Candidate(
            "early-return",
            f"threads {does} in line {line} and load nothing, but the others read what they should have loaded, after "
            f"the `__syncthreads()` in line {code.line(first.start_byte)}",
            f"remove line {line}, and guard each load and store with its own row and column instead",
            (_removed(code, node), *guards),
        )
        if (guards or leaves[1] == "break") and not made.clashes:
            yield made


def _reaches(node: Node, barrier: Node, word: str) -> bool:
    """Whether a statement would come to a barrier next, but for its `return` in the kernel's body, or its `break` in a
    loop that holds both."""
    parent = node.parent
    loop = next((each for each in above(node) if each.type in LOOPS), None)
    if word == "return":
        return loop is None and parent is not None and parent.type == "compound_statement"
    return loop is not None and loop.start_byte <= barrier.start_byte <= loop.end_byte


def dissolved_branches(program: Program, fault: Fault) -> Iterator[Candidate]:
    """Threads outside C skip loads and barriers by an `if` around both: without it, with a guard at each access."""
    kernel = program.kernel
    found: dict[int, tuple[Node, Node]] = {}
    for node in _barriers(kernel) if kernel is not None and fault.exited else ():
        branch = _branch(node)
        if kernel is not None and branch is not None and _is_named(fault.exited, kernel.code, node):
            found.setdefault(branch.id, (branch, node))
    for branch, barrier in found.values():
        body, test = branch.child_by_field_name("consequence"), branch.child_by_field_name("condition")
        if kernel is None or body is None or test is None or body.type != "compound_statement":
            continue
        if branch.child_by_field_name("alternative") is not None:
            continue
        code, line, guards = kernel.code, kernel.code.line(branch.start_byte), _guards(program, branch)
        made = Candidate(
            "divergent-barrier",
            f"threads that skip the `if` in line {line} load nothing, but the others read what they should have "
            f"loaded, after the `__syncthreads()` in line {code.line(barrier.start_byte)}",
            f"remove the `if` in line {line}, and guard each load and store with its own row and column instead",
            (Edit(code.path, branch.start_byte, body.start_byte, ""), *guards),
        )
        if guards and not made.clashes:
            yield made


def late_returns(program: Program) -> Iterator[Candidate]:
    """The same where each access has its guard already: the return moved behind the last barrier."""
    for function in program.reached:
        code, listed = function.code, children(function.body)
        waits = [i for i, child in enumerate(listed) if _WAITS.search(code.of(child))]
        for i, child in enumerate(listed):
            text = code.of(child).strip()
            if not waits or i > waits[-1] or child.type != "if_statement" or not _ENDS_IN_RETURN.search(text):
                continue
            slot, line = Slot(code, function.body, waits[-1]), code.line(child.start_byte)
            start, end = code.text.rfind("\n", 0, child.start_byte) + 1, code.text.find("\n", child.end_byte)
            alone = code.text[start:end].strip() == text
            in_copy = child.start_byte, child.end_byte, ";" + "\n" * text.count("\n")
            removed = Edit(code.path, start, end + 1, "", in_copy) if alone else Edit(code.path, *in_copy)
            cause = (f"threads return in line {line}, before the `__syncthreads()` of line "
                     f"{code.line(listed[waits[-1]].start_byte + _at(code, listed[waits[-1]]))}, "
                     "though others need what they load")  # fmt: skip
            change = f"move `{' '.join(text.split())}` behind the last barrier, after line {slot.after_line}"
            yield Candidate("early-return", cause, change, (removed, slot.insertion(text)))


def _at(code: Code, node: Node) -> int:
    """How far into a statement its first barrier stands."""
    found = _WAITS.search(code.of(node))
    return found.start() if found is not None else 0


def _guards(program: Program, but: Node | None = None) -> list[Edit]:
    """A guard at each access to A, B and C that has none, or none other than ``but``."""
    edits: list[Edit] = []
    for access in global_accesses(program):
        if not access.row or access.is_pointer or not inside(program, access):
            continue
        if access.is_store:
            needs_one = access.role in ("C", "D") and not is_guarded(program, access, but)
            edits += guarded_store(program, access) if needs_one else []
        elif access.role in ("A", "B") and not is_guarded(program, access, but):
            added = lacking(program, access, but)
            edits += [added[1]] if added is not None else guarded_load(program, access)
    return list(dict.fromkeys(edits))
