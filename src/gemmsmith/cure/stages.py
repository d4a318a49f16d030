"""Stages of a buffer: a read or a store that names another stage than it should, `b[stage ^ 1]` for `b[stage]`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.code import LOOPS, Function, Program, below, statement_of
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.fault import Fault
from gemmsmith.cure.shared_arrays import SharedAccess, shared_accesses
from gemmsmith.cure.slots import Slot, children

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST = 8
_MOST_STORES = 3
# `int next = (t + 1) % STAGES;`, `int other = stage ^ 1;`, `int other = 1 - stage;`
_STAGE_VARIABLE = re.compile(r"\b(\w+)\s*=\s*(?:[^;,=]*[%^]|1\s*-|[^;,=]*&\s*1\b)")


def unlike_stages(program: Program) -> Iterator[Candidate]:
    """A statement that reads two stages at once: all of it from one of them."""
    yield from (made for is_mixed, made in _stages(program) if is_mixed)


def racing_stores(program: Program, fault: Fault) -> Iterator[Candidate]:
    """Stores of a race that go to the stage in use: to another stage, all of them together."""
    lines = {access.place[1] for race in fault.races for access in (race.first, race.second)}
    for function in program.reached:
        buffers = _buffers(program, function)
        for accesses in _stores(buffers):
            if lines & {access.line for access in accesses}:
                own, used = accesses[0].text(0), _used(function, buffers)
                others = [text for text in used if text != own and _is_known(function, accesses[0].node, text)]
                yield from (_in_stage(accesses, text) for text in others[:_MOST_STORES])


def unswitched(program: Program) -> Iterator[Candidate]:
    """A loop that fills one stage and reads the other, and never swaps them: `stage ^= 1` is missing."""
    for function in program.reached:
        code = function.code
        named = _used(function, _buffers(program, function))
        for loop in below(function.body, *LOOPS):
            body, text = loop.child_by_field_name("body"), code.of(loop)
            if body is None or body.type != "compound_statement":
                continue
            for stage in (name for name in named if name.isidentifier()):
                next_one = next((each for each in named if each != stage and re.search(rf"\b{stage}\b", each)), "")
                changes = rf"\b{stage}\s*(?:[-+^|&%]?=(?!=)|\+\+|--)|(?:\+\+|--)\s*{stage}\b"
                if not next_one or next_one not in text or re.search(changes, text):
                    continue
                slot, line = Slot(code, body, len(children(body)) - 1), code.line(loop.start_byte)
                new = f"{stage} = {next_one};"
                yield Candidate("unswitched-stage", f"`{stage}` stays the same in the loop in line {line}: every "
                                f"iteration reads stage `{stage}` and fills stage `{next_one}`",
                                f"insert `{new}` at the end of the loop, after line {slot.after_line}",
                                (slot.insertion(new),))  # fmt: skip


def other_stages(program: Program) -> Iterator[Candidate]:
    """A statement with another stage that the function uses, in place of its own."""
    yield from (made for is_mixed, made in _stages(program) if not is_mixed)


def _stages(program: Program) -> Iterator[tuple[bool, Candidate]]:
    for function in program.reached:
        buffers = _buffers(program, function)
        used = _used(function, buffers)
        for statement, accesses in buffers[:_MOST]:
            own = list(dict.fromkeys(access.text(0) for access in accesses))
            named = [text for text in own if text in used]
            if not named or len(used) < 2:
                continue
            mixed = len(own) > 1
            for text in named if mixed else [text for text in used if text not in own]:
                if _is_known(function, statement, text):
                    yield mixed, _in_stage(accesses, text)
        for accesses in _stores(buffers):
            stage = accesses[0].text(0)
            yield from ((False, _in_stage(accesses, text)) for text in used if text != stage)


def _used(function: Function, buffers: list[tuple[Node, list[SharedAccess]]]) -> list[str]:
    """The stages that a function names: in subscripts, and variables that count round a buffer."""
    if not buffers:
        return []
    named = [access.text(0) for _, accesses in buffers for access in accesses]
    declared = _STAGE_VARIABLE.findall(function.code.of(function.body))
    return [text for text in dict.fromkeys((*declared, *named)) if re.search(r"[A-Za-z_]", text)]


def _buffers(program: Program, function: Function) -> list[tuple[Node, list[SharedAccess]]]:
    """Statements with accesses to arrays whose first subscript is a stage: it is not the thread's row alone."""
    declared = "\n".join(code.text for code in program.files)
    found: dict[int, tuple[Node, list[SharedAccess]]] = {}
    for access in shared_accesses(program, function):
        ranks = re.findall(rf"\b{access.array}((?:\s*\[[^\]]+\])+)\s*[;,]", declared)
        if any(rank.count("[") >= 3 for rank in ranks) or (len(access.indices) >= 3):
            statement = statement_of(access.node)
            found.setdefault(statement.id, (statement, []))[1].append(access)
    return list(found.values())


def _stores(buffers: list[tuple[Node, list[SharedAccess]]]) -> list[list[SharedAccess]]:
    """Stores to the same stage in several statements: those of A and of B are wrong together."""
    found: dict[str, list[SharedAccess]] = {}
    for statement, accesses in buffers:
        for access in accesses:
            parent = access.node.parent
            assigns = parent is not None and parent.type == "assignment_expression"
            left = parent.child_by_field_name("left") if parent is not None and assigns else None
            is_passed = len(access.indices) < 3 and statement.type == "expression_statement"
            if is_passed or (left is not None and left.id == access.node.id):
                found.setdefault(access.text(0), []).append(access)
    return [accesses for accesses in found.values() if len({access.line for access in accesses}) > 1]


def _is_known(function: Function, statement: Node, text: str) -> bool:
    """Whether the names in an index are declared before the statement."""
    before = function.head + function.code.text[function.body.start_byte : statement.start_byte]
    return all(re.search(rf"\b{name}\b", before) for name in re.findall(r"[A-Za-z_]\w*", text))


def _in_stage(accesses: list[SharedAccess], text: str) -> Candidate:
    changed = [access for access in accesses if access.text(0) != text]
    code, lines = changed[0].code, list(dict.fromkeys(access.line for access in changed))
    many, where = len(lines) > 1, " and ".join(filter(None, (", ".join(map(str, lines[:-1])), str(lines[-1]))))
    arrays = " and ".join(dict.fromkeys(access.array for access in changed))
    old = " and ".join(f"`{each}`" for each in dict.fromkeys(access.text(0) for access in changed))
    edits = tuple(Edit(code.path, access.indices[0].start_byte, access.indices[0].end_byte, text) for access in changed)
    at = f"line{'s' * many} {where}"
    return Candidate("wrong-stage", f"{at} use{'s' * (not many)} stage {old} of {arrays}; it should be `{text}`",
                     f"write `[{text}]` for {old} in {at}", edits)  # fmt: skip
