"""The code: CUDA, PTX and SASS, which lines belong together, and what each of them cost."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from gemmsmith.compile.sass import Sass, disassemble
from gemmsmith.errors import GemmsmithError
from gemmsmith.explain.timing.cycles import BlockCycles, InstructionCycles
from gemmsmith.report.view.model import ViewData, ViewSubject
from gemmsmith.report.view.packing import packed
from gemmsmith.sim.timing.outcome import REASONS
from gemmsmith.trace.launch_trace import Counted, LaunchTrace, Warp

_MOST_STEPS = 4_000
_MOST_LINES = 6_000  # of machine code
_HEADER_LINES = 400  # a longer header is shown around the lines that ran
_AROUND = 3
_SHADES = 9


def build(subject: ViewSubject) -> ViewData | None:
    """None for a trace without counts: it was recorded by an older version."""
    trace = subject.trace
    if not trace.counts:
        return None
    names = list(dict.fromkeys([trace.file, *(each.file for each in trace.counts)]))
    sass = _machine_code(subject)
    index = {name: at for at, name in enumerate(names)}
    timed = {each.offset: each for each in (subject.cycles.instructions if subject.cycles is not None else ())}
    # The warp that the player follows: a producer or an idle warp would show little.
    warp = max((each for each in trace.warps if each.number >= 0), key=lambda each: len(each.events), default=None)
    hottest = max(each.executed for each in trace.counts)
    data = {
        "files": [{"name": name, "lines": _text(trace, name)} for name in names],
        "ptx": [[each.ptx, index[each.file], each.line, *_caller(each, index), each.executed, each.sectors,
                 each.wavefronts, each.conflicts, heat(each.executed, hottest)] for each in trace.counts],
        "sass": [[i.text, index.get(i.file or "", -1), i.line or 0, i.offset, *_cost(timed.get(i.offset))]
                 for i in (sass.instructions if sass is not None else ())[:_MOST_LINES]],
        "timed": subject.cycles is not None, "reasons": list(REASONS),
        "steps": packed(_steps(trace, warp)), "warp": warp.number if warp is not None else 0,
        "blocks": max(1, len(trace.blocks)),
    }  # fmt: skip
    return ViewData("Code", _notice(trace, subject.cycles), data)


def _cost(found: InstructionCycles | None) -> tuple[int, list[list[int]]]:
    """How often warps of the block issued the instruction, and the cycles that they waited, by number of the reason."""
    if found is None:
        return 0, []
    return found.issued, [[REASONS.index(name), round(cycles)] for name, cycles in found.stalls if cycles >= 1]


def heat(executed: int, hottest: int) -> int:
    """A shade from 0 to 8, on a logarithmic scale: a main loop runs thousands of times as often as the rest."""
    return max(0, _SHADES - 1 - round(2 * math.log10(hottest / executed))) if executed else 0


def _notice(trace: LaunchTrace, cycles: BlockCycles | None) -> str:
    by_line: dict[tuple[str, int], int] = {}
    total = 0
    for each in trace.counts:
        where = _own_line(each, trace.file)
        by_line[where] = by_line.get(where, 0) + each.executed
        total += each.executed
    (file, line), most = max(by_line.items(), key=lambda item: item[1])
    costly = max(trace.counts, key=lambda each: each.conflicts)
    text = (f"{most / total:.0%} of the {total:,} warp instructions come from {file}:{line}. Choose a line to see what "
            "it became.")  # fmt: skip
    if costly.conflicts:
        where = _own_line(costly, trace.file)
        text += f" {where[0]}:{where[1]} has bank conflicts: {costly.conflicts:,} wavefronts of {costly.wavefronts:,}."
    if cycles is None:
        return (f"{text} There are no stall reasons: the time model has no time for this launch; on a GPU, gemmsmith "
                "profile --lines samples them.")  # fmt: skip
    waits: dict[tuple[str, int], float] = {}
    for one in cycles.instructions:
        waits[one.file, one.line] = waits.get((one.file, one.line), 0.0) + sum(value for _, value in one.stalls)
    (file, line), most_waited = max(waits.items(), key=lambda item: item[1])
    share = most_waited / (sum(waits.values()) or 1.0)
    return f"{text} Warps wait longest at {file}:{line}: {share:.0%} of their waiting, predicted for {cycles.gpu}."


def _own_line(each: Counted, own: str) -> tuple[str, int]:
    """The line of the kernel's own file, where the instruction was inlined into it."""
    file, _, line = each.caller.rpartition(":")
    return (file, int(line)) if each.file != own and line.isdigit() else (each.file, each.line)


def _caller(each: Counted, index: dict[str, int]) -> tuple[int, int]:
    file, _, line = each.caller.rpartition(":")
    return (index[file], int(line)) if file in index and line.isdigit() else (-1, 0)


def _text(trace: LaunchTrace, name: str) -> list[str | int]:
    """The lines of a file; a number stands for so many lines that are left out."""
    text = next((file.text for file in trace.files if file.name == name), "")
    lines = [row.expandtabs(4).rstrip() for row in text.splitlines()]
    if name == trace.file or len(lines) <= _HEADER_LINES:
        return list(lines)
    ran = {each.line for each in trace.counts if each.file == name}
    keep = {at for line in ran for at in range(line - _AROUND, line + _AROUND + 1)}
    made: list[str | int] = []
    for number, row in enumerate(lines, start=1):
        if number in keep:
            made.append(row)
        elif made and isinstance(made[-1], int):
            made[-1] += 1
        else:
            made.append(1)
    return made


def _machine_code(subject: ViewSubject) -> Sass | None:
    if subject.compiled is None or not subject.compiled.cubin:
        return None
    try:
        return disassemble(subject.compiled)
    except GemmsmithError:  # without nvdisasm the other two columns remain
        return None


def _steps(trace: LaunchTrace, warp: Warp | None) -> list[int]:
    """Indices into ``counts`` in the order in which a warp executed them, thinned to the most that fit."""
    place = {each.position: at for at, each in enumerate(trace.counts)}
    events: Iterable[Any] = warp.events if warp is not None else ()
    found = [place[position] for event in events
             if (position := trace.instructions[event.instruction].position) in place]  # fmt: skip
    step = max(1, -(-len(found) // _MOST_STEPS))
    return found[::step]
