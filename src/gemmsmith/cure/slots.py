"""Places between statements at which a barrier can be inserted, and which of them part two accesses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemmsmith.cure.code import LOOPS, Code, Function, Program, above, below, statement_of, statements_at
from gemmsmith.cure.edit import Edit

if TYPE_CHECKING:
    from tree_sitter import Node

_LEVELS = 3  # of functions that call each other
_MOST_CALLS = 4


@dataclass(frozen=True)
class Slot:
    """The place after statement ``index`` of a block; -1 is the block's beginning. ``next_iteration``: what it parts
    are accesses of two iterations of the loop that the block belongs to."""

    code: Code
    block: Node
    index: int
    next_iteration: bool = False
    is_weak: bool = False  # it parts them only if they are accesses of two iterations

    @property
    def key(self) -> tuple[str, int, int]:
        return str(self.code.path), self.block.start_byte, self.index

    @property
    def after_line(self) -> int:
        """The line after which the insertion stands."""
        if self.index < 0:
            return self.code.line(self.block.start_byte)
        return self.code.last_line(children(self.block)[self.index])

    def insertion(self, statements: str) -> Edit:
        """Insert statements, on a line of their own where the text has one for each statement."""
        listed, text = children(self.block), self.code.text
        at = listed[self.index].end_byte if self.index >= 0 else self.block.start_byte + 1
        model = listed[max(0, self.index)] if listed else self.block
        indent = indent_at(text, model.start_byte)
        end, flat = text.find("\n", at), statements.replace("\n", " ")
        rest = text[at : end if end >= 0 else len(text)].strip()
        if end >= 0 and (not rest or rest.startswith("//") or (rest.startswith("/*") and rest.endswith("*/"))):
            lines = "".join(f"{indent}{line}\n" for line in statements.split("\n"))
            return Edit(self.code.path, end + 1, end + 1, lines, (at, at, " " + flat))
        return Edit(self.code.path, at, at, " " + flat)


def indent_at(text: str, at: int) -> str:
    """The white space that the line of a character begins with."""
    start = text.rfind("\n", 0, at) + 1
    lead = text[start:at]
    return lead if not lead.strip() else lead[: len(lead) - len(lead.lstrip())]


def children(block: Node) -> list[Node]:
    """The statements of a block, with preprocessor lines among them."""
    return [child for child in block.named_children if child.type != "comment"]


def chain(statement: Node, function: Function) -> list[tuple[Node, int]]:
    """The blocks around a statement, the innermost first, each with the place of what holds the statement."""
    found, here = [], statement
    for parent in above(statement):
        if parent.type == "compound_statement":
            listed = children(parent)
            place = next((i for i, child in enumerate(listed) if child.id == here.id), None)
            if place is not None:
                found.append((parent, place))
        if parent.id == function.body.id:
            break
        here = parent
    return found


def occurrences(program: Program, name: str, line: int) -> dict[int, tuple[Function, list[Node]]]:
    """The statements of an access, by function: its own, and those that call the function or lambda it is in."""
    code = program.file(name)
    inside = [f for f in program.functions if f.code is code and f.holds(line)]
    found: dict[int, tuple[Function, list[Node]]] = {}
    if not inside:
        return found
    queue = []
    own = max(inside, key=lambda f: f.body.start_byte)  # the innermost
    statements = statements_at(own, line)
    if statements:
        found[own.body.start_byte] = own, statements
        queue.append((own, 0))
    while queue:
        callee, level = queue.pop(0)
        for function, calls in _callers(program, callee):
            if calls and function.body.start_byte not in found and level < _LEVELS:
                found[function.body.start_byte] = function, calls[:_MOST_CALLS]
                queue.append((function, level + 1))
    return found


def _callers(program: Program, callee: Function) -> Iterator[tuple[Function, list[Node]]]:
    for function in program.functions:
        if function.body.id == callee.body.id or callee.name not in function.code.of(function.body):
            continue
        calls = []
        for node in below(function.body, "call_expression"):
            called = node.child_by_field_name("function")
            name = function.code.of(called).split("<")[0].rsplit("::", 1)[-1].strip() if called is not None else ""
            innermost = max((f for f in program.functions if f.code is function.code and _within(node, f)),
                            key=lambda f: f.body.start_byte)  # fmt: skip
            if name == callee.name and innermost.body.id == function.body.id:
                calls.append(statement_of(node))
        yield function, calls


def _within(node: Node, function: Function) -> bool:
    return function.body.start_byte <= node.start_byte and node.end_byte <= function.body.end_byte


def parting(program: Program, first: tuple[str, int], second: tuple[str, int]) -> list[Slot]:
    """The places that part two accesses, the textbook's first: after the first access in the same iteration, or at the
    end of the loop whose next iteration makes the second."""
    one, two = occurrences(program, *first), occurrences(program, *second)
    found: dict[tuple[str, int, int], Slot] = {}
    for where in one:
        if where not in two:
            continue
        function = one[where][0]
        for a in one[where][1]:
            for b in two[where][1]:
                for slot in _between(function, a, b):
                    if not _after_pragma(slot):
                        found.setdefault(slot.key, slot)
    return list(found.values())


def _before_in_loops(function: Function, second: Node, outer: Node) -> Iterator[Slot]:
    """The places before a statement in the loops around it, up to the block that it shares with another."""
    for block, place in chain(second, function):
        if block.id == outer.id or block.parent is None or block.parent.type not in LOOPS:
            return
        yield from (Slot(function.code, block, index) for index in range(-1, place))


def _after_pragma(slot: Slot) -> bool:
    return slot.index >= 0 and children(slot.block)[slot.index].type.startswith("preproc_call")


def _between(function: Function, first: Node, second: Node) -> Iterator[Slot]:
    one, two = chain(first, function), {block.id: (block, i) for block, i in chain(second, function)}
    shared = [(block, i, two[block.id][1]) for block, i in one if block.id in two]
    if not shared:
        return
    block, i, j = shared[0]
    if i < j:
        yield from (Slot(function.code, block, index) for index in range(i, j))
        yield from _before_in_loops(function, second, block)
    elif not any(each.parent is not None and each.parent.type in LOOPS for each, _, _ in shared):
        # Outside loops each access is made once, in the order of the source, whichever came first in this run.
        yield from (Slot(function.code, block, index) for index in range(j, i))
    in_order = i < j
    for block, i, j in shared:
        loop = block.parent
        if loop is None or loop.type not in LOOPS:
            continue
        last = len(children(block)) - 1
        for index in (last, -1, *range(i, last), *range(j)):
            yield Slot(function.code, block, index, next_iteration=True, is_weak=in_order)
