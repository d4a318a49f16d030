"""From what a recorder saw to a ``LaunchTrace``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.sim.lowering.operation import Lowered, Operation
from gemmsmith.sim.lowering.shared_arrays import meant_arrays, plain_name
from gemmsmith.sim.lowering.traits import Space
from gemmsmith.trace.launch_trace import (
    Counted,
    Event,
    Instruction,
    Kind,
    LaunchTrace,
    SharedArray,
    Size,
    SourceFile,
    Warp,
)
from gemmsmith.trace.recording.access_recorder import PEERS
from gemmsmith.trace.recording.costs import Costs
from gemmsmith.trace.recording.device import Recorded
from gemmsmith.trace.recording.kinds import kind_of


def build_trace(
    recorded: Recorded, *, kernel: str, title: str, file: str, traced: Size, compiled: CompiledKernel,
    problem: Mapping[str, Any], text_of: Callable[[str], str],
) -> LaunchTrace:  # fmt: skip
    """``text_of`` has the text of any source file by the name that instructions give it."""
    recorder, geometry = recorded.recorder, recorded.geometry
    lowered = recorded.loaded.lowered
    logs = [log for number, log in sorted(recorder.logs.items()) if number != PEERS or log.head]
    events = {log.number: log.events() for log in logs}
    used = sorted({event.instruction for some in events.values() for event in some}
                  | {fragment.instruction for fragment in recorder.fragments.kept})  # fmt: skip
    index = {position: n for n, position in enumerate(used)}
    meant, costs = lowered.fact(meant_arrays), Costs(recorder.patterns)
    spaces = _spaces(events)
    instructions = tuple(_instruction(lowered.operations[p], recorded.widths, meant, spaces.get(p, "")) for p in used)

    def finished(event: Event) -> Event:
        at = index[event.instruction]
        known = instructions[at]
        if known.kind is Kind.COPY:
            detail = lowered.operations[event.instruction].detail
            access, target = costs.of_copy(event.access, event.target, bypass=detail.bypass, zero_fill=detail.zero_fill)
            return replace(event, instruction=at, access=access, target=target)
        return replace(event, instruction=at, access=costs.of(event.access, known.kind, known.served))

    warps = tuple(
        Warp(log.number, tuple(map(finished, events[log.number])), log.skipped, len(log.head)) for log in logs
    )
    return LaunchTrace(
        kernel=kernel, title=title, arch=compiled.arch, file=file, grid=geometry.grid, block=geometry.block,
        cluster=geometry.cluster, static_smem=lowered.static_shared, dynamic_smem=geometry.smem,
        registers=compiled.resources.registers, traced=traced, problem=problem, arrays=recorded.arrays,
        shared=_shared(lowered, geometry.smem),
        files=tuple(SourceFile(name, text_of(name)) for name in dict.fromkeys([file, *(i.file for i in instructions)])),
        instructions=instructions, patterns=recorder.patterns.rows(), warps=warps,
        fragments=tuple(replace(each, instruction=index[each.instruction]) for each in recorder.fragments.kept),
        fed=recorder.consumed.fed(), phases=tuple(recorder.phases), snapshot=recorder.snapshot,
        blocks=recorder.outlines.made(), granule=recorded.granule, seconds=recorded.seconds,
        counts=_counts(recorded), fault=recorded.fault,
    )  # fmt: skip


def _counts(recorded: Recorded) -> tuple[Counted, ...]:
    """Every instruction that was executed, in program order, with its counts over all simulated blocks."""
    if recorded.counters is None:
        return ()
    found = []
    for operation, count in sorted(recorded.counters.items(), key=lambda pair: pair[0].position):
        written = operation.instruction
        found.append(Counted(operation.position, written.text, written.file, written.line, written.caller,
                             int(count.executed), int(count.sectors), int(count.wavefronts),
                             int(count.conflicts)))  # fmt: skip
    return tuple(found)


def _spaces(events: Mapping[int, tuple[Event, ...]]) -> dict[int, str]:
    """The memory that each instruction reached, by position."""
    return {event.instruction: event.access.space for some in events.values() for event in some
            if event.access is not None}  # fmt: skip


def _instruction(operation: Operation[Any], widths: Mapping[int, int], meant: Mapping[int, Any],
                 space: str) -> Instruction:  # fmt: skip
    written, access = operation.instruction, operation.access
    reached = Space(space) if space else operation.space
    array = meant.get(operation.position)
    return Instruction(
        operation.position, written.text, kind_of(operation, reached), written.file, written.line, written.caller,
        space or ("" if reached is None else str(reached)), access.width if access else 0,
        access.element if access else 0, widths.get(operation.position, access.width if access else 0),
        array.name if array is not None else "",
    )  # fmt: skip


def _shared(lowered: Lowered, dynamic: int) -> tuple[SharedArray, ...]:
    found = [SharedArray(plain_name(name), start, size or dynamic) for name, start, size in lowered.shared_variables
             if size or dynamic]  # fmt: skip
    if not found and dynamic:
        found = [SharedArray("shared memory", 0, dynamic)]
    return tuple(sorted(found, key=lambda each: each.start))
