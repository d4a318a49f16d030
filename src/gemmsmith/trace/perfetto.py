"""A launch trace for Perfetto (ui.perfetto.dev): Chrome's trace event format, one track for each warp.

A microsecond there is one issue slot here: the trace has an order of execution, not a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gemmsmith.trace.launch_trace import Access, Event, Instruction, Kind, LaunchTrace

_BLOCK = 1  # the process that stands for the traced block
_PEERS = 10_000  # the track of copies that other blocks of the cluster make
_BARRIERS = 20_000
_COLOURS = {
    Kind.LOAD_GLOBAL: "thread_state_iowait", Kind.STORE_GLOBAL: "rail_response", Kind.LOAD_SHARED: "rail_animation",
    Kind.STORE_SHARED: "rail_load", Kind.ARITHMETIC: "thread_state_running", Kind.MMA: "thread_state_running",
    Kind.WGMMA: "thread_state_running", Kind.BARRIER: "terrible", Kind.PHASE_WAIT: "bad", Kind.WAIT: "bad",
}  # fmt: skip


def perfetto_text(trace: LaunchTrace) -> str:
    """The trace events as one line of JSON."""
    made = {"traceEvents": list(_events(trace)), "displayTimeUnit": "ms",
            "otherData": {"kernel": trace.title, "origin": "simulated", "unit": "1 us = 1 issue slot"}}  # fmt: skip
    return json.dumps(made, separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"


def _events(trace: LaunchTrace) -> Iterator[dict[str, Any]]:
    where = ",".join(map(str, trace.traced))
    yield _named("process_name", f"{trace.title}, block ({where})", 0)
    for warp in trace.warps:
        track = warp.number if warp.number >= 0 else _PEERS
        yield _named("thread_name", f"warp {warp.number}" if warp.number >= 0 else "other blocks of the cluster", track)
        for event in warp.events:
            yield _slice(trace, event, track)
    yield from _phases(trace)
    if trace.fault:
        yield {"ph": "i", "s": "p", "name": "the launch stopped", "pid": _BLOCK, "tid": 0, "ts": trace.slots,
               "args": {"fault": trace.fault}}  # fmt: skip


def _named(what: str, name: str, track: int) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": _BLOCK, "tid": track, "args": {"name": name}}


def _slice(trace: LaunchTrace, event: Event, track: int) -> dict[str, Any]:
    instruction = trace.instructions[event.instruction]
    name = str(instruction.kind) if event.count == 1 else f"{instruction.kind} ×{event.count}"
    made = {"ph": "X", "name": name, "cat": str(instruction.kind), "pid": _BLOCK, "tid": track, "ts": event.start,
            "dur": event.slots, "args": _arguments(trace, event, instruction)}  # fmt: skip
    if instruction.kind in _COLOURS:
        made["cname"] = _COLOURS[instruction.kind]
    return made


def _arguments(trace: LaunchTrace, event: Event, instruction: Instruction) -> dict[str, Any]:
    found: dict[str, Any] = {"ptx": instruction.ptx, "source": f"{instruction.file}:{instruction.line}"}
    for name, access in (("access", event.access), ("target", event.target)):
        if access is not None:
            found[name] = _access(trace, access)
    return found | dict(event.facts or {})


def _access(trace: LaunchTrace, access: Access) -> str:
    costs = f"{access.sectors} sectors" if access.space == "global" else f"{access.wavefronts} wavefronts"
    array = trace.array_at(access.at) if access.space == "global" else trace.array_at(access.of)
    if array is None:
        return f"{access.space} {access.at:#x}, {costs}"
    row, column = array.place(access.at if access.space == "global" else access.of)
    return f"{access.space}, from {array.name}[{row}][{column}], {costs}"


def _phases(trace: LaunchTrace) -> Iterator[dict[str, Any]]:
    """Each mbarrier as a track: arrivals and completed waits as instants."""
    seen: dict[int, int] = {}
    for warp in trace.warps:
        for event in warp.events:
            facts = event.facts or {}
            if "barrier" not in facts or facts.get("to_peer"):
                continue
            at = facts["barrier"]
            if at not in seen:
                seen[at] = _BARRIERS + len(seen)
                yield _named("thread_name", f"mbarrier at shared byte {at}", seen[at])
            kind = trace.instructions[event.instruction].kind
            phase = f", phase {facts['phase']}" if "phase" in facts else ""
            yield {"ph": "i", "s": "t", "name": f"{kind}{phase}", "pid": _BLOCK, "tid": seen[at], "ts": event.stop - 1,
                   "args": {"warp": warp.number}}  # fmt: skip
