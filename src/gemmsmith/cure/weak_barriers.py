"""Barriers that are there and do not order two accesses: too few threads wait, or they arrive and do not wait."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.code import Function, Program, below, statement_of
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.fault import Fault, Race
from gemmsmith.cure.slots import Slot, chain, children, parting
from gemmsmith.cure.wording import flat, in_lines

if TYPE_CHECKING:
    from tree_sitter import Node

_ARRIVES = re.compile(r"\bbar(?:rier)?(?:\.cta)?\.arrive\b")
_WAITS = re.compile(r"\bbar(?:rier)?(?:\.cta)?\.sync\b")
_TOKEN = re.compile(r"\b(?P<token>\w+)\s*=\s*(?P<barrier>[\w.\[\]>-]+?)(?:\.|->)arrive\s*\(\s*\)\s*;")
_OF_WARP = re.compile(r"__syncwarp\s*\(\s*(?P<mask>[^;]*?)\s*\)\s*;")
_NAMED = re.compile(r"asm\s+(?:volatile|__volatile__)?\s*\(\s*\"\s*bar(?:rier)?(?:\.cta)?\.sync\b[^;]*?,.*\)\s*;", re.S)
_ALL_LANES = re.compile(r"|0[xX][fF]{8}[uU]?|~0[uU]?|-1|FULL_MASK")


def weak_barriers(program: Program, fault: Fault) -> Iterator[Candidate]:
    """For accesses of one block that race although a barrier stands between them."""
    races = [race for race in fault.races if not race.across_blocks]
    if races:
        yield from _narrow(program, races)
        yield from _arrivals(program)
        yield from _tokens(program)


def _narrow(program: Program, races: list[Race]) -> Iterator[Candidate]:
    """A barrier for some lanes or some warps that stands between the accesses, made one for all; likewise where the
    function has the same barrier again."""
    wide = "__syncthreads();" if any(race.across_warps for race in races) else "__syncwarp();"
    seen: set[tuple[int, str]] = set()
    for race in races:
        for slot in parting(program, race.first.place, race.second.place):
            listed, code = children(slot.block), slot.code
            for node in listed[max(0, slot.index) : slot.index + 2]:
                text = code.of(node).strip()
                function = next((f for f in program.functions if f.code is code and f.holds(code.line(node.start_byte))
                                 and f.body.start_byte <= node.start_byte < f.body.end_byte), None)  # fmt: skip
                if function is None or not _is_narrow(text, wide) or (function.body.start_byte, text) in seen:
                    continue
                seen.add((function.body.start_byte, text))
                same = [each for each in below(function.body, node.type) if code.of(each).strip() == text]
                yield _widened(function, same, text, wide)


def _is_narrow(text: str, wide: str) -> bool:
    if match := _OF_WARP.fullmatch(text):
        return wide == "__syncthreads();" or not _ALL_LANES.fullmatch(match["mask"])
    return wide == "__syncthreads();" and _NAMED.fullmatch(text) is not None


def _widened(function: Function, same: list[Node], text: str, wide: str) -> Candidate:
    code, lines = function.code, in_lines(function.code.line(each.start_byte) for each in same)
    some = "threads of the block" if wide == "__syncthreads();" else "lanes of the warp"
    cause = f"the barrier of {lines}, `{flat(text)}`, is for some {some} only, and the accesses are not all of these"
    edits = tuple(Edit(code.path, each.start_byte, each.end_byte, wide) for each in same)
    return Candidate("narrow-barrier", cause, f"write `{wide}` in {lines}", edits)


def _arrivals(program: Program) -> Iterator[Candidate]:
    """`bar.arrive` becomes `bar.sync`: at the instruction in the kernel, or by calling the function that waits."""
    waiting = [f for f in program.reached if f is not program.kernel and _WAITS.search(f.code.of(f.body))]
    for function in program.reached:
        code = function.code
        arrives = list(_ARRIVES.finditer(code.text, function.body.start_byte, function.body.end_byte))
        if function is program.kernel:
            for match in arrives:
                yield _waited(function, match.start(), match.end(), match[0].replace("arrive", "sync"))
        elif arrives and waiting:
            for caller in program.reached:
                for node in below(caller.body, "call_expression"):
                    called = node.child_by_field_name("function")
                    if called is not None and caller.code.of(called) == function.name:
                        yield _waited(caller, called.start_byte, called.end_byte, waiting[0].name)


def _waited(function: Function, start: int, end: int, new: str) -> Candidate:
    code, line = function.code, function.code.line(start)
    return Candidate("arrival-without-wait", f"line {line} arrives at a barrier and goes on; the threads have to wait "
                     "there", f"write `{new}` for `{code.text[start:end]}` in line {line}",
                     (Edit(code.path, start, end, new),))  # fmt: skip


def _tokens(program: Program) -> Iterator[Candidate]:
    """`auto token = bar.arrive();` without a wait for that token."""
    for function in program.reached:
        code = function.code
        for node in below(function.body, "declaration", "expression_statement"):
            found = _TOKEN.search(code.of(node)) if statement_of(node).id == node.id else None
            if found is None or re.search(rf"wait\s*\([^;]*\b{found['token']}\b", code.of(function.body)):
                continue
            block, index = next(iter(chain(node, function)), (None, 0))
            if block is None:
                continue
            line, text = code.line(node.start_byte), f"{found['barrier']}.wait(cuda::std::move({found['token']}));"
            yield Candidate("arrival-without-wait", f"line {line} arrives at {found['barrier']}, and nothing waits "
                            "until the other threads have arrived", f"insert `{text}` after line {line}",
                            (Slot(code, block, index).insertion(text),))  # fmt: skip
