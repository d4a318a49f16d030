"""Flags, fences and barriers between blocks: an order or a scope that is too weak, a fence or barrier that lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gemmsmith.cure.code import Function, Program, below, statements_at
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.fault import Fault
from gemmsmith.cure.slots import Slot, chain, children, parting

_RELAXED = re.compile(r"\.(?P<call>load|store|fetch_\w+|exchange)\s*\([^;]*?memory_order_(?P<order>relaxed)")
_INSTRUCTION = re.compile(
    r"\b(?P<call>ld|st|red|atom|mbarrier\.(?:arrive|try_wait\.parity|test_wait\.parity)(?:\.expect_tx)?|"
    r"barrier\.cluster\.arrive)\.(?P<order>relaxed)\b"
)
_BLOCK_SCOPE = re.compile(r"\bthread_scope_(?P<scope>block)\b|\.(?:release|acquire|acq_rel|relaxed)\.(?P<word>cta)\b")
_WRITES = ("store", "st", "red", "mbarrier.arrive", "barrier.cluster")
_TEAM = re.compile(r"\b(?P<name>\w+)\s*=\s*(?:\w+::)*this_(?P<team>cluster|grid)\s*\(\s*\)")
_BY_ONE = re.compile(r"if\s*\([^;{]*threadIdx|if\s*\([^;{]*==\s*0[^;{]*\)[^;]*(?:atomic|asm|store|=\s*1)")
_BARRIER = re.compile(r"__syncthreads\s*\(\s*\)\s*;")
_POLLS = re.compile(r"\batomic\w+\s*\(|\bld\.|\bvolatile\b|\.load\s*\(|(?:\{\s*\}|\)\s*;)$")
_MOST = 4


def memory_orders(program: Program, fault: Fault) -> Iterator[Candidate]:
    """For accesses of different blocks."""
    if not any(race.across_blocks for race in fault.races):
        return
    for function in program.reached:
        yield from _stronger(function)
        yield from _wider(function)
    yield from _fences(program, fault)
    yield from _early_flags(program, fault)
    yield from _team_barriers(program, fault)


def _stronger(function: Function) -> Iterator[Candidate]:
    """Release for a write that is relaxed, acquire for a read, both for an update whose result may be used."""
    code = function.code
    for pattern in (_RELAXED, _INSTRUCTION):
        for match in pattern.finditer(code.text, function.body.start_byte, function.body.end_byte):
            call, line = match["call"], code.line(match.start("order"))
            new = "release" if call.startswith(_WRITES) else "acquire" if "load" in call or call == "ld" else "acq_rel"
            new = "acquire" if "wait" in call else new
            what = "does not make visible what was written before it" if new == "release" else \
                "does not order what is read after it"  # fmt: skip
            yield Candidate("weak-order", f"the `{call}` in line {line} is relaxed: it {what}",
                            f"write `{new}` for `relaxed` in line {line}",
                            (Edit(code.path, match.start("order"), match.end("order"), new),))  # fmt: skip


def _wider(function: Function) -> Iterator[Candidate]:
    """Device scope for block scope."""
    code = function.code
    for match in _BLOCK_SCOPE.finditer(code.text, function.body.start_byte, function.body.end_byte):
        group, new = ("scope", "device") if match["scope"] else ("word", "gpu")
        line = code.line(match.start(group))
        yield Candidate("narrow-scope", f"line {line} synchronises threads of one block only, and the accesses are of "
                        "two blocks", f"write `{new}` for `{match[group]}` in line {line}",
                        (Edit(code.path, match.start(group), match.end(group), new),))  # fmt: skip


def _fences(program: Program, fault: Fault) -> Iterator[Candidate]:
    """`__threadfence()` after a write to global memory that another block reads behind a counter."""
    if not re.search(r"\batomic\w+\s*\(|\bvolatile\b", "\n".join(code.text for code in program.files)):
        return
    for place in dict.fromkeys(
        race.first.place for race in fault.races if race.is_global and race.first.verb == "write"
    ):
        for function in program.reached:
            if function.code is not program.file(place[0]) or not function.holds(place[1]):
                continue
            for statement in statements_at(function, place[1])[:1]:
                block, index = next(iter(chain(statement, function)), (None, 0))
                if block is not None:
                    slot = Slot(function.code, block, index)
                    made = Candidate("missing-fence", f"nothing makes the write in line {place[1]} visible to other "
                                     "blocks before the flag or counter that tells them of it",
                                     f"insert `__threadfence();` after line {slot.after_line}",
                                     (slot.insertion("__threadfence();"),))  # fmt: skip
                    yield made
                    yield from (made + after for after in _after_spins(program))
    yield from _after_spins(program)


def _after_spins(program: Program) -> Iterator[Candidate]:
    """`while (atomicAdd(&flag, 0) == 0) {}` gets a fence behind it: what the flag tells of is read after it."""
    for function in program.reached:
        code = function.code
        for loop in below(function.body, "while_statement", "do_statement"):
            if not _POLLS.search(code.of(loop)) or "__syncthreads" in code.of(loop):
                continue
            line, parent, fence = code.last_line(loop), loop.parent, "__threadfence();"
            in_block = parent is not None and parent.type == "compound_statement"
            ends = Edit(code.path, loop.end_byte, loop.end_byte, f" {fence}" if in_block else f" {fence} }}")
            edits = (ends,) if in_block else (Edit(code.path, loop.start_byte, loop.start_byte, "{ "), ends)
            yield Candidate("missing-fence", f"what is read after the wait in line {line} may be older than the flag "
                            "that it waits for", f"insert `{fence}` behind that wait, in the thread that waits",
                            edits)  # fmt: skip


def _early_flags(program: Program, fault: Fault) -> Iterator[Candidate]:
    """`__syncthreads()` between a write to global memory and what one thread does for the block: raise a flag, open a
    lock."""
    for place in dict.fromkeys(race.first.place for race in fault.races if race.is_global):
        for function in program.reached:
            if function.code is not program.file(place[0]) or not function.holds(place[1]):
                continue
            code = function.code
            for statement in statements_at(function, place[1])[:1]:
                for block, index in chain(statement, function):
                    listed = children(block)
                    last = index + (index + 1 < len(listed) and "__threadfence" in code.of(listed[index + 1]))
                    rest = "".join(code.of(each) for each in listed[last + 1 :])
                    if not _BY_ONE.search(rest) or _BARRIER.match(rest):
                        continue
                    slot = Slot(code, block, last)
                    yield Candidate("missing-barrier", f"one thread tells the other blocks that line {place[1]} is "
                                    "done while others of its block may not have reached it",
                                    f"insert `__syncthreads();` after line {slot.after_line}",
                                    (slot.insertion("__syncthreads();"),))  # fmt: skip


def _team_barriers(program: Program, fault: Fault) -> Iterator[Candidate]:
    """A barrier of the cluster or the grid: in place of one of the block, and where it parts the accesses."""
    kernel = program.kernel
    named = _TEAM.search(kernel.code.of(kernel.body)) if kernel is not None else None
    if kernel is None or named is None:
        return
    text, code = f"{named['name']}.sync();", kernel.code
    cause = f"the accesses are of two blocks of a {named['team']}"
    for match in _BARRIER.finditer(code.text, kernel.body.start_byte, kernel.body.end_byte):
        line = code.line(match.start())
        yield Candidate("narrow-barrier", f"the `__syncthreads()` in line {line} makes the threads of one block wait, "
                        f"and {cause}", f"write `{text}` in line {line}",
                        (Edit(code.path, match.start(), match.end(), text),))  # fmt: skip
    for race in (race for race in fault.races[:1] if race.across_blocks):
        for slot in parting(program, race.first.place, race.second.place)[:_MOST]:
            yield Candidate("missing-barrier", f"no barrier between {race.first} and {race.second}, and {cause}",
                            f"insert `{text}` after line {slot.after_line}", (slot.insertion(text),))  # fmt: skip
