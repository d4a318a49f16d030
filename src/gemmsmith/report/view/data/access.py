"""A memory instruction, lane by lane: sectors and lines of global memory, banks and wavefronts of shared memory."""

from __future__ import annotations

from typing import Any

from gemmsmith.report.view.data.bank_waves import bank_waves
from gemmsmith.report.view.model import ViewData, ViewSubject
from gemmsmith.trace.launch_trace import Access, Event, Instruction, Kind, LaunchTrace

_ACCESSES = (Kind.LOAD_GLOBAL, Kind.STORE_GLOBAL, Kind.ATOMIC, Kind.LOAD_SHARED, Kind.STORE_SHARED, Kind.LOAD_MATRIX,
             Kind.STORE_MATRIX, Kind.COPY)  # fmt: skip
_MATRIX = (Kind.LOAD_MATRIX, Kind.STORE_MATRIX)
_MOST_INSTRUCTIONS = 36
_MOST_EXAMPLES = 16
_MOST_RUNS = 12_000


def build(subject: ViewSubject) -> ViewData | None:
    """The accesses of each source line, some executions of each."""
    trace = subject.trace
    groups = _groups(trace)
    if not groups:
        return None
    chosen = sorted(groups.items(), key=lambda item: item[0])[:_MOST_INSTRUCTIONS]
    patterns: dict[str, tuple[int, ...]] = {}
    listed = []
    for (_, side), (instruction, examples) in chosen:
        listed.append({
            "instruction": trace.instructions.index(instruction), "kind": str(instruction.kind), "side": side,
            "file": instruction.file, "line": instruction.line, "caller": instruction.caller,
            "examples": [_example(trace, instruction, side, warp, event, patterns) for warp, event in examples],
        })  # fmt: skip
    runs = trace.snapshot.runs[:_MOST_RUNS] if trace.snapshot is not None else ()
    data = {"accesses": listed, "patterns": patterns, "runs": [list(run) for run in runs],
            "start": _worst(listed)}  # fmt: skip
    return ViewData("An access, lane by lane", _notice(listed), data)


Examples = list[tuple[int, Event]]


def _groups(trace: LaunchTrace) -> dict[tuple[int, str], tuple[Instruction, Examples]]:
    """Executions of each source line's accesses, by the first instruction and the side of the copy."""
    found: dict[tuple[str, int, str, Kind, int, str, str], tuple[Instruction, Examples]] = {}
    seen: dict[tuple[Any, ...], set[tuple[int, ...]]] = {}
    for warp in trace.warps:
        for event in warp.events:
            instruction = trace.instructions[event.instruction]
            if instruction.kind not in _ACCESSES:
                continue
            for side, access in (("", event.access), ("target", event.target)):
                if access is None or access.pattern < 0 or (access.space == "shared" and not _served(instruction)):
                    continue
                key = (instruction.file, instruction.line, instruction.caller, instruction.kind, _width(instruction),
                       side, _array(trace, access))  # fmt: skip
                kept = found.setdefault(key, (instruction, []))[1]
                like = access.pattern, access.at % 128, access.elements, warp.number if len(kept) < 4 else -1
                known = seen.setdefault(key, set())
                if len(kept) < _MOST_EXAMPLES and like not in known:
                    known.add(like)
                    kept.append((warp.number, event))
    return {(instruction.position * 2 + (key[5] != ""), key[5]): (instruction, examples)
            for key, (instruction, examples) in found.items() if examples}  # fmt: skip


def _served(instruction: Instruction) -> int:
    return instruction.width if instruction.kind in (*_MATRIX, Kind.COPY) else instruction.served


def _width(instruction: Instruction) -> int:
    return _served(instruction) if instruction.space == "shared" else instruction.width


def _array(trace: LaunchTrace, access: Access) -> str:
    array = trace.array_at(access.at if access.space == "global" else access.of)
    return "" if array is None else array.name


def _example(trace: LaunchTrace, instruction: Instruction, side: str, warp: int, event: Event,
             patterns: dict[str, tuple[int, ...]]) -> dict[str, Any]:  # fmt: skip
    access = event.target if side else event.access
    assert access is not None
    for number in (access.pattern, access.elements):
        if number >= 0:
            patterns[str(number)] = trace.patterns[number]
    made: dict[str, Any] = {
        "warp": warp, "slot": event.start, "space": access.space, "width": access.width, "pattern": access.pattern,
        "at": access.at, "elements": access.elements, "of": access.of, "sectors": access.sectors,
        "wavefronts": access.wavefronts, "groups": access.groups, "used": access.used, "array": _array(trace, access),
    }  # fmt: skip
    if access.space == "shared":
        made["served"] = width = _served(instruction)
        lanes = [offset if offset < 0 else access.at + offset for offset in trace.patterns[access.pattern]]
        made["waves"] = bank_waves(lanes, width, load=instruction.kind not in (Kind.STORE_SHARED, Kind.STORE_MATRIX),
                                   matrix=instruction.kind in _MATRIX)  # fmt: skip
    return made


def _excess(example: dict[str, Any]) -> int:
    """What an access costs beyond need: sectors, or wavefronts."""
    if example["space"] == "global":
        return int(example["sectors"]) - -(-int(example["used"]) // 32)
    return int(example["wavefronts"]) - int(example["groups"])


def _worst(listed: list[dict[str, Any]]) -> list[int]:
    """The access and the execution to open with."""
    places = [(_excess(example), -a, -e) for a, one in enumerate(listed) for e, example in enumerate(one["examples"])]
    _, access, example = max(places)
    return [-access, -example]


def _notice(listed: list[dict[str, Any]]) -> str:
    access, example = _worst(listed)
    one, shown = listed[access], listed[access]["examples"][example]
    where = f"{one['file']}:{one['line']}"
    conflicts = [each for one in listed for each in one["examples"]
                 if not one["side"] and each["wavefronts"] > each["groups"] > 0]  # fmt: skip
    if shown["space"] == "global" and _excess(shown) > 0:
        share = 100 * shown["used"] / (32 * shown["sectors"])
        return (f"The {one['kind']} at {where} asks for {shown['used']} different bytes and moves "
                f"{_count(shown['sectors'], 'sector')} of 32: {share:.0f} % of what moves is used.")  # fmt: skip
    if one["side"] and _excess(shown) > 0:
        return (f"The cp.async at {where} takes {_count(shown['wavefronts'], 'wavefront')}, {_excess(shown)} of them "
                "because of conflicts: lanes clash that write to the same bank, or that read addresses a multiple of "
                "128 bytes apart.")  # fmt: skip
    if conflicts:
        worst = max(conflicts, key=_excess)
        return (f"An access to shared memory that could take {_count(worst['groups'], 'wavefront')} takes "
                f"{worst['wavefronts']}: lanes need different words of the same bank, and a bank serves one word at a "
                "time.")  # fmt: skip
    if any(each["space"] == "shared" for one in listed for each in one["examples"]):
        return ("Every sector that moves is used, and no two lanes need different words of one bank at the same time: "
                "see how the rows of a tile are spread over the banks.")  # fmt: skip
    return "Every sector that moves is used completely: neighbouring lanes share sectors."


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"
