"""Asynchronous copies: a wait that is missing, or that leaves one group too many in flight."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gemmsmith.cure.code import Program
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.fault import Fault
from gemmsmith.cure.slots import Slot, children, parting

_WAIT = re.compile(
    r"(?P<before>__pipeline_wait_prior\s*\(\s*|cp\.async\.wait_group\s+|\b\w*wait\w*\s*<\s*|\b\w*wait\w*\s*\(\s*"
    r'|cp\.async\.wait_group\s*%0;[^;]*?"n"\s*\(\s*)(?P<count>[1-9])(?=\s*[;)>])', re.I
)  # fmt: skip
_DIFFERENCE = re.compile(r"wait\w*\s*[<(]\s*(?P<of>[A-Za-z_]\w*\s*-\s*)(?P<less>\d+)", re.I)
_NAMED = re.compile(
    r"\b(?:__pipeline_wait_prior|\w*wait_?(?:group|prior|all_but)\w*|cp_?async_?wait\w*)\s*[<(]\s*"
    r"(?P<count>[A-Za-z_]\w*)(?=\s*[)>])", re.I
)  # fmt: skip
_BARRIER = re.compile(r"__syncthreads\s*\(\s*\)\s*;")
_MOST = 4


def waits(program: Program, fault: Fault) -> Iterator[Candidate]:
    """For accesses to the destination of a copy that may not be done."""
    races = [race for race in fault.races if race.is_copy]
    if not races:
        return
    yield from _smaller_counts(program)
    race = races[0]
    text = _wait_text(program)
    cause = f"nothing waits for the asynchronous copy in line {race.first.place[1]} before {race.second}"
    slots = parting(program, race.first.place, race.second.place)
    for slot in (slot for slot in slots if _barrier_follows(slot)):
        change = f"insert `{text}` after line {slot.after_line}"
        yield Candidate("missing-wait", cause, change, (slot.insertion(text),))
    for slot in slots[:_MOST]:
        change = f"insert `{text}` and `__syncthreads();` after line {slot.after_line}"
        yield Candidate("missing-wait", cause, change, (slot.insertion(f"{text}\n__syncthreads();"),))
    yield from _commits(program, race.first.place[1], slots)


def _smaller_counts(program: Program) -> Iterator[Candidate]:
    """Existing waits that leave fewer groups in flight."""
    for function in program.reached:
        code, start = function.code, function.body.start_byte
        for match in _DIFFERENCE.finditer(code.text, start, function.body.end_byte):
            number, line = match.start("less"), code.line(match.start())
            more = f"{match['of']}{int(match['less']) + 1}"
            yield Candidate("wait-count", f"the wait in line {line} leaves one group of copies too many in flight",
                            f"write `{more}` for `{match['of']}{match['less']}` in line {line}",
                            (Edit(code.path, number, match.end("less"), str(int(match["less"]) + 1)),))  # fmt: skip
        for match in _NAMED.finditer(code.text, start, function.body.end_byte):
            count, line = match["count"], code.line(match.start())
            for less in (1, 2):
                yield Candidate("wait-count", f"the wait in line {line} leaves {count} groups of copies in flight, and "
                                "one of them is read", f"write `{count} - {less}` for `{count}` in line {line}",
                                (Edit(code.path, match.end("count"), match.end("count"), f" - {less}"),))  # fmt: skip
        for match in _WAIT.finditer(code.text, start, function.body.end_byte):
            old, at = int(match["count"]), match.start("count")
            for new in dict.fromkeys((old - 1, 0)):
                line = code.line(at)
                cause = (f"the wait in line {line} leaves {old} group{'s' if old > 1 else ''} of copies in flight, and "
                         "one of them is read")  # fmt: skip
                change = f"wait until at most {new} are in flight: {old} becomes {new} in line {line}"
                yield Candidate("wait-count", cause, change, (Edit(code.path, at, at + 1, str(new)),))


def _barrier_follows(slot: Slot) -> bool:
    listed = children(slot.block)
    place = slot.index + 1
    return place < len(listed) and _BARRIER.fullmatch(slot.code.of(listed[place]).strip()) is not None


def _wait_text(program: Program) -> str:
    """A wait for all copies, as the file itself writes it."""
    texts = "\n".join(code.text for code in program.files)
    if "__pipeline_" in texts:
        return "__pipeline_wait_prior(0);"
    for function in program.functions:
        body = function.code.of(function.body)
        if "__global__" in function.head or "cp.async.wait" not in body or function.name == program.entry:
            continue
        if "wait_all" in body:
            return f"{function.name}();"
        if "template" in function.code.text[max(0, function.body.start_byte - 200) : function.body.start_byte]:
            return f"{function.name}<0>();"
    if macro := re.search(r"#\s*define\s+(\w+)\s*\(\s*\w+\s*\)[^\n]*(?:\\\n[^\n]*)?cp\.async\.wait_group", texts):
        return f"{macro[1]}(0);"
    if macro := re.search(r"#\s*define\s+(\w+)\s*\(\s*\)[^\n]*(?:\\\n[^\n]*)?cp\.async\.wait_all", texts):
        return f"{macro[1]}();"
    return 'asm volatile("cp.async.wait_all;" ::: "memory");'


def _commits(program: Program, line: int, slots: list[Slot]) -> Iterator[Candidate]:
    """Copies that belong to no group are not waited for."""
    texts = "\n".join(function.code.of(function.body) for function in program.reached)
    if "commit" in texts or "wait" not in texts:
        return
    text = "__pipeline_commit();" if "__pipeline_" in texts else 'asm volatile("cp.async.commit_group;");'
    for slot in slots[:2]:
        yield Candidate("missing-commit", f"the asynchronous copy in line {line} is in no group that is waited for",
                        f"insert `{text}` after line {slot.after_line}", (slot.insertion(text),))  # fmt: skip
