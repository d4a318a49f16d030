"""Waits for a phase of an mbarrier by its parity: another parity than the phase's, or one that is never switched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemmsmith.cure.code import LOOPS, Code, Function, Program, above, below, statement_of
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.shared_arrays import first_sizes
from gemmsmith.cure.slots import Slot, chain, children

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST = 16
_OPERAND = re.compile(r'"r"\s*\(')
_OF_COUNTER = re.compile(r"\(?\s*(?P<of>\w+)\s*\)?\s*(?:&\s*1|%\s*2)")  # `t & 1`, `t % 2`
_NEXT = re.compile(r"\(\s*(?P<of>\w+)\s*\+\s*1\s*\)\s*(?:&\s*1|%\s*2)")  # `(t + 1) & 1`
_OTHER = re.compile(r"(?P<of>.+?)\s*\^\s*1u?")  # `phase ^ 1`


@dataclass(frozen=True)
class ParityWait:
    """One wait: where its parity is written, and the loop around it."""

    function: Function
    statement: Node
    start: int
    end: int
    loop: Node | None

    @property
    def code(self) -> Code:
        return self.function.code

    @property
    def parity(self) -> str:
        return " ".join(self.code.text[self.start : self.end].split())

    @property
    def line(self) -> int:
        return self.code.line(self.start)


def wrong_parities(program: Program) -> Iterator[Candidate]:
    """Each wait with another parity: that of the stage's use, the other one, one that is switched."""
    found = [change for wait in parity_waits(program) for change in (*_by_use(program, wait), *_switched(wait))]
    flipped = [_flipped(wait) for wait in parity_waits(program)]
    yield from (*found, *flipped)[:_MOST]


def parity_waits(program: Program) -> list[ParityWait]:
    """The waits by parity in the kernel and what it calls: calls of a function that has such an instruction, and the
    instruction in the kernel itself."""
    waiting = {f.name for f in program.functions if f is not program.kernel and _asks(f.code.of(f.body))}
    found = []
    for function in program.reached:
        code = function.code
        for node in below(function.body, "call_expression"):
            called, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
            if called is None or listed is None or not listed.named_children:
                continue
            name = re.split(r"<", code.of(called))[0].rsplit("::", 1)[-1].rsplit(".", 1)[-1].strip()
            if (name in waiting or "wait_parity" in name) and function.name not in waiting:
                last = listed.named_children[-1]
                found.append(_placed(function, node, last.start_byte, last.end_byte))
        for node in below(function.body, "gnu_asm_expression") if function is program.kernel else ():
            operands = list(_OPERAND.finditer(code.text, node.start_byte, node.end_byte))
            if _asks(code.of(node)) and operands:
                start = operands[-1].end()
                found.append(_placed(function, node, start, _closing(code.text, start)))
    return found


def _asks(text: str) -> bool:
    return "wait.parity" in text or "wait_parity" in text


def _placed(function: Function, node: Node, start: int, end: int) -> ParityWait:
    loop = next((each for each in above(node) if each.type == "for_statement"), None)
    return ParityWait(function, statement_of(node), start, end, loop)


def _closing(text: str, start: int) -> int:
    """Where the parenthesis closes that was opened before ``start``."""
    depth = 1
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if not depth:
            return at
    return start


def other_parity(parity: str) -> str:
    """`phase ^ 1` for `phase`, and back."""
    if match := _OTHER.fullmatch(parity):
        inner = match["of"]
        return inner[1:-1] if inner.startswith("(") and inner.endswith(")") and inner.count("(") == 1 else inner
    if match := _NEXT.fullmatch(parity):
        return f"{match['of']} & 1"
    return f"{parity} ^ 1" if re.fullmatch(r"\w+", parity) else f"({parity}) ^ 1"


def _flipped(wait: ParityWait) -> Candidate:
    new = other_parity(wait.parity)
    return _candidate(wait, new, "not that of the phase it needs: it passes at once, or waits for a phase that does "
                      "not end")  # fmt: skip


def _by_use(program: Program, wait: ParityWait) -> Iterator[Candidate]:
    """`(t / STAGES) & 1` for `t & 1` and for a number: a stage's barrier has one phase each time the stage is used."""
    counter = _counter(wait)
    match = _OF_COUNTER.fullmatch(wait.parity)
    name = match["of"] if match else counter if re.fullmatch(r"[01]u?", wait.parity) else ""
    if not name:
        return
    used = wait.code.of(wait.statement)
    for stages in dict.fromkeys(
        size for array, size in first_sizes(program).items() if re.search(rf"\b{array}\b", used)
    ):
        for new in (f"({name} / {stages}) & 1", f"(({name} / {stages}) & 1) ^ 1"):
            yield _candidate(wait, new, "which changes with every tile; the barrier of a stage ends a phase with "
                             f"every use of the stage, every {stages} tiles")  # fmt: skip
    if not match:
        yield _candidate(wait, f"{name} & 1", "the same in every iteration, and the parity changes with every phase")


def _candidate(wait: ParityWait, new: str, what: str) -> Candidate:
    return Candidate("wrong-parity", f"the wait in line {wait.line} asks for parity `{wait.parity}`, {what}",
                     f"write `{new}` for `{wait.parity}` in line {wait.line}",
                     (Edit(wait.code.path, wait.start, wait.end, new),))  # fmt: skip


def _counter(wait: ParityWait) -> str:
    """The variable of the loop around a wait that counts by one."""
    update = wait.loop.child_by_field_name("update") if wait.loop is not None else None
    text = wait.code.of(update) if update is not None else ""
    match = re.search(r"\+\+\s*(\w+)|(\w+)\s*\+\+", text)
    return (match[1] or match[2]) if match else ""


def _switched(wait: ParityWait) -> Iterator[Candidate]:
    """`phase ^= 1` where a variable never changes in the loop; once a round where the loop goes round stages."""
    loop = next((each for each in above(wait.statement) if each.type in LOOPS), None)
    body = loop.child_by_field_name("body") if loop is not None else None
    name, code = wait.parity, wait.code
    if loop is None or body is None or body.type != "compound_statement" or not re.fullmatch(r"[A-Za-z_]\w*", name):
        return
    switches = [node for node in below(body, "expression_statement")
                if re.fullmatch(rf"{name}\s*(?:\^=\s*1u?|=\s*(?:{name}\s*\^\s*1u?|1u?\s*-\s*{name}|!\s*{name}))\s*;",
                                code.of(node).strip())]  # fmt: skip
    rounds = list(_rounds(code, body))
    start = code.line(loop.start_byte)
    if not switches and not re.search(rf"\b{name}\s*[-+^|&]?=(?!=)", code.of(body)):
        cause = f"`{name}`, the parity that line {wait.line} waits by, stays the same in the loop in line {start}"
        for stage, statement in rounds:
            block, index = next(iter(chain(statement, wait.function)), (body, -1))
            yield _inserted(Slot(code, block, index), f"if ({stage} == 0) {name} ^= 1;", cause)
        yield _inserted(Slot(code, body, len(children(body)) - 1), f"{name} ^= 1;", cause)
    for node in switches if rounds else ():
        stage, line = rounds[0][0], code.line(node.start_byte)
        if node.start_byte > rounds[0][1].start_byte and node.parent is not None and node.parent.id == body.id:
            yield Candidate("wrong-parity", f"`{name}` is switched in every iteration, in line {line}; the barrier of "
                            f"a stage goes on to its next phase once a round, when `{stage}` is 0 again",
                            f"write `if ({stage} == 0) {code.of(node).strip()}` in line {line}",
                            (Edit(code.path, node.start_byte, node.start_byte, f"if ({stage} == 0) "),))  # fmt: skip


def _rounds(code: Code, body: Node) -> Iterator[tuple[str, Node]]:
    """Statements that go on to the next stage: `stage = (stage + 1) % STAGES;`."""
    for node in below(body, "expression_statement"):
        if match := re.match(r"(\w+)\s*=\s*\(?\s*\1\s*\+\s*1\s*\)?\s*[%&]", code.of(node).strip()):
            yield match[1], node
        match = re.match(r"(\w+)\s*\^=\s*1\s*;", code.of(node).strip())
        if match and re.search(rf"\[\s*{match[1]}\s*\]", code.of(body)):
            yield match[1], node


def _inserted(slot: Slot, text: str, cause: str) -> Candidate:
    return Candidate("wrong-parity", cause, f"insert `{text}` after line {slot.after_line}", (slot.insertion(text),))
