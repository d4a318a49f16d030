"""Warps with roles: some fill the stages of a buffer, others read them, each in a loop of their own. What lacks is the
way back: those who fill have to wait until a stage has been read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemmsmith.cure.code import LOOPS, Code, Function, Program, above, below, statement_of
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.parities import other_parity, parity_waits
from gemmsmith.cure.shared_arrays import SharedAccess, first_sizes, shared_accesses
from gemmsmith.cure.slots import Slot, chain, children

if TYPE_CHECKING:
    from tree_sitter import Node

_ONE_OF = ("", "if (threadIdx.x % 32 == 0) ", "if (threadIdx.x == 0) ")
_STEP = re.compile(r"(?:\+\+\s*(?P<a>\w+)|(?P<b>\w+)\s*\+\+|(?P<c>\w+)\s*\+=\s*(?P<by>[^,;]+))")
_BARRIERS = re.compile(
    r"__shared__[^;]*?(?:uint64_t|unsigned long long|barrier\w*(?:<[^;]*?>)?|int64_t|ull\w*)\s+([^;]+);"
)
_ARRIVES = re.compile(r"\b(?P<name>\w+)\s*(?:\[[^\]]*\]\s*)?(?:\.|->)\s*arrive\s*\(\s*\)")
_NAMED_WAIT, _NAMED_ARRIVAL = (
    re.compile(r"\bbar(?:rier)?(?:\.cta)?\.sync\b"),
    re.compile(r"\bbar\w*(?:\.cta)?\.arrive\b"),
)


@dataclass(frozen=True)
class Roles:
    """``fills`` is the loop with ``store``, ``reads`` the one with ``read``, of the same array."""

    function: Function
    fills: Node
    reads: Node
    store: SharedAccess
    read: SharedAccess

    @property
    def code(self) -> Code:
        return self.function.code

    @property
    def cause(self) -> str:
        return (f"the threads that fill `{self.store.array}` in line {self.store.line} do not wait until those that "
                f"read it in line {self.read.line} have read the stage")  # fmt: skip

    def before_the_store(self) -> Slot | None:
        """The place in the filling loop before the statement that stores."""
        body = self.fills.child_by_field_name("body")
        placed = [(block, at) for block, at in chain(statement_of(self.store.node), self.function)
                  if body is not None and block.id == body.id]  # fmt: skip
        return Slot(self.code, placed[0][0], placed[0][1] - 1) if placed else None

    def end_of(self, loop: Node) -> Slot | None:
        body = loop.child_by_field_name("body")
        is_block = body is not None and body.type == "compound_statement"
        return Slot(self.code, body, len(children(body)) - 1) if is_block and body is not None else None

    def carried(self, text: str, *, to_fills: bool) -> str:
        """A text of one loop in the words of the other: its counter and its stage."""
        ours, theirs = (self.reads, self.fills) if to_fills else (self.fills, self.reads)
        one, two = (self.read, self.store) if to_fills else (self.store, self.read)
        pairs = ((_counter(self.code, ours)[0], _counter(self.code, theirs)[0]), (one.text(0), two.text(0)))
        for old, new in pairs:
            if old and new and old.isidentifier():
                text = re.sub(rf"\b{old}\b", new, text)
        return text


def missing_ways_back(program: Program) -> Iterator[Candidate]:
    """A wait for the barrier at which the readers arrive; an arrival at the one that is waited for; both."""
    for roles in _roles(program):
        yield from _waits(program, roles)
        yield from _objects(roles)
        yield from _arrivals(program, roles)
        yield from _named(program, roles)
        yield from _common(roles)


def _roles(program: Program) -> Iterator[Roles]:
    """Two loops in different branches, one that stores to an array and one that reads it."""
    for function in program.reached[:1]:
        stores: list[tuple[Node, SharedAccess]] = []
        reads: list[tuple[Node, SharedAccess]] = []
        for access in shared_accesses(program, function):
            if len(access.indices) > 1 and (loop := _outermost(access.node)) is not None:
                (stores if _is_store(access) else reads).append((loop, access))
        seen = set()
        for fills, store in stores:
            for loop, read in reads:
                if read.array == store.array and loop.id != fills.id and (fills.id, loop.id) not in seen:
                    seen.add((fills.id, loop.id))
                    if _branch(fills) != _branch(loop):
                        yield Roles(function, fills, loop, store, read)


def _is_store(access: SharedAccess) -> bool:
    parent = access.node.parent
    left = parent.child_by_field_name("left") if parent is not None and parent.type == "assignment_expression" else None
    return left is not None and left.id == access.node.id


def _outermost(node: Node) -> Node | None:
    return next(iter([each for each in above(node) if each.type in LOOPS][::-1]), None)


def _branch(loop: Node) -> tuple[int, int]:
    """The branch of an `if` that a loop stands in."""
    here = loop
    for parent in above(loop):
        if parent.type == "if_statement":
            return parent.id, here.id
        here = parent
    return 0, 0


def _counter(code: Code, loop: Node) -> tuple[str, str]:
    """A loop's variable and its step."""
    update = loop.child_by_field_name("update")
    match = _STEP.search(code.of(update)) if update is not None else None
    return ((match["a"] or match["b"] or match["c"]), (match["by"] or "1").strip()) if match else ("", "")


def _waits(program: Program, roles: Roles) -> Iterator[Candidate]:
    """The readers arrive at a barrier that the filling loop does not name: it waits there, as they wait for it."""
    code, slot = roles.code, roles.before_the_store()
    filling, reading = code.of(roles.fills), code.of(roles.reads)
    for wait in parity_waits(program):
        if slot is None or not _is_in(wait.statement, roles.reads):
            continue
        text = code.of(wait.statement).strip()
        for barrier in _barriers(program, text):
            others = [name for name in _barriers(program, reading) if name != barrier and not _names(filling, name)]
            for name in others:
                start = wait.start - wait.statement.start_byte
                parity = other_parity(wait.parity)
                new = text[:start] + parity + text[start + wait.end - wait.start :]
                new = roles.carried(re.sub(rf"\b{barrier}\b", name, new), to_fills=True)
                yield Candidate("missing-wait", roles.cause, f"insert `{new}` after line {slot.after_line}: it waits "
                                f"for {name}, at which they arrive", (slot.insertion(new),))  # fmt: skip


def _objects(roles: Roles) -> Iterator[Candidate]:
    """The same for cuda::barrier: `ready[i % 2].arrive_and_wait()` where the readers have `ready[i % 2].arrive()`."""
    code, slot = roles.code, roles.before_the_store()
    filling = code.of(roles.fills)
    for match in _ARRIVES.finditer(code.text, roles.reads.start_byte, roles.reads.end_byte):
        if slot is not None and not _names(filling, match["name"]):
            new = roles.carried(f"{match[0].rpartition('arrive')[0]}arrive_and_wait();", to_fills=True)
            yield Candidate("missing-wait", roles.cause, f"insert `{new}` after line {slot.after_line}: it waits for "
                            f"{match['name']}, at which they arrive", (slot.insertion(new),))  # fmt: skip


def _arrivals(program: Program, roles: Roles) -> Iterator[Candidate]:
    """The filling loop waits for a barrier that the readers do not name: they arrive there, as it does at theirs."""
    code, slot = roles.code, roles.end_of(roles.reads)
    reading = code.of(roles.reads)
    waited = {name for wait in parity_waits(program) if _is_in(wait.statement, roles.fills)
              for name in _barriers(program, code.of(wait.statement))}  # fmt: skip
    for name in waited if slot is not None else ():
        if _names(reading, name):
            continue
        for node in below(roles.fills, "expression_statement"):
            text = code.of(node).strip()
            used = [each for each in _barriers(program, text) if each != name and _names(reading, each)]
            if len(used) != 1 or "arrive" not in text.lower():
                continue
            new = roles.carried(re.sub(rf"\b{used[0]}\b", name, text), to_fills=False)
            for lead in _ONE_OF:
                assert slot is not None
                yield Candidate("missing-arrival", f"the loop in line {code.line(roles.fills.start_byte)} waits for "
                                f"`{name}`, and those that read the stage never arrive there",
                                f"insert `{lead}{new}` after line {slot.after_line}",
                                (slot.insertion(lead + new),))  # fmt: skip


def _named(program: Program, roles: Roles) -> Iterator[Candidate]:
    """Named barriers: as many more as there are stages, at which the readers arrive and the others wait."""
    code = roles.code
    meets = [f.name for f in program.functions if f is not program.kernel and _NAMED_WAIT.search(code.of(f.body))]
    tells = [f.name for f in program.functions if f is not program.kernel and _NAMED_ARRIVAL.search(code.of(f.body))]
    first, last = roles.before_the_store(), roles.end_of(roles.reads)
    stages = first_sizes(program).get(roles.store.array, "")
    (counter, step), bound = _counter(code, roles.reads), _bound(code, roles.reads)
    for node in below(roles.reads, "call_expression") if tells and stages and counter and bound else ():
        called, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if called is None or listed is None or code.of(called) not in meets or first is None or last is None:
            continue
        number, far = code.of(listed)[1:-1], stages if step == "1" else f"{stages} * {step}"
        waits = roles.carried(f"if ({counter} >= {far}) {code.of(called)}({number} + {stages});", to_fills=True)
        tell = f"if ({counter} + {far} < {bound}) {tells[0]}({number} + {stages});"
        yield Candidate("missing-wait", roles.cause, f"insert `{waits}` after line {first.after_line} and `{tell}` "
                        f"after line {last.after_line}: {stages} more barriers, at which the readers arrive",
                        (first.insertion(waits), last.insertion(tell)))  # fmt: skip


def _common(roles: Roles) -> Iterator[Candidate]:
    """A barrier of all threads at the end of both loops."""
    one, two = roles.end_of(roles.fills), roles.end_of(roles.reads)
    if one is None or two is None:
        return
    text = "__syncthreads();"
    edits: tuple[Edit, ...] = (one.insertion(text), two.insertion(text))
    yield Candidate("missing-barrier", roles.cause, f"insert `{text}` after line {one.after_line} and after line "
                    f"{two.after_line}, at the end of both loops; or, so that they still overlap, a barrier for each "
                    "stage at which the readers arrive and the others wait", edits)  # fmt: skip


def _bound(code: Code, loop: Node) -> str:
    test = loop.child_by_field_name("condition")
    right = test.child_by_field_name("right") if test is not None else None
    return code.of(right) if right is not None else ""


def _barriers(program: Program, text: str) -> list[str]:
    """The barriers in shared memory that a text names: arrays of 64-bit words, or objects."""
    files = "\n".join(code.text for code in program.files)
    declared = _BARRIERS.findall(files)
    names = [name for each in declared for name in re.findall(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\])?\s*(?:,|$)", each)]
    return [name for name in dict.fromkeys(names) if _names(text, name)]


def _names(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


def _is_in(inner: Node, outer: Node) -> bool:
    return outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte
