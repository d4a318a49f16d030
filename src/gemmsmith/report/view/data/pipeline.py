"""The k-loop in time: what each warp does in order of execution, and how shared memory fills and empties."""

from __future__ import annotations

from typing import Any

from gemmsmith.explain.timing.cycles import BlockCycles
from gemmsmith.report.view.data.cycle_axis import cycle_axis
from gemmsmith.report.view.data.shared_fills import event_gap, shared_fills, tile_depth
from gemmsmith.report.view.model import ViewData, ViewSubject
from gemmsmith.report.view.packing import packed
from gemmsmith.trace.launch_trace import Kind, LaunchTrace, Warp

_KINDS = tuple(Kind)
_MOST_BARRIERS = 20
_MOST_STEPS = 2_000
_SOME_SLOTS = 8
# Kinds that a step of the player stops at, the most telling first.
_TELLING = (
    (Kind.BARRIER, Kind.WAIT, Kind.PHASE_WAIT, Kind.BULK_LOAD, Kind.BULK_STORE, Kind.COMMIT, Kind.ARRIVE),
    (Kind.COPY, Kind.LOAD_GLOBAL, Kind.STORE_GLOBAL, Kind.WGMMA, Kind.STORE_SHARED),
    (Kind.MMA, Kind.LOAD_MATRIX, Kind.LOAD_SHARED, Kind.ARITHMETIC),
)
_TENSOR = (Kind.MMA, Kind.WGMMA)
# Stall reasons of ncu in words.
_WAITS = {
    "long_scoreboard": "for global memory or an mbarrier", "short_scoreboard": "for shared memory",
    "barrier": "for other warps at a barrier", "wait": "for the fixed latency of the instruction before",
    "math_pipe_throttle": "for a busy arithmetic unit", "mio_throttle": "for room in the queue of memory instructions",
    "lg_throttle": "for room in the queue of global accesses", "gmma": "for wgmma to finish",
    "not_selected": "while another warp issues", "dispatch_stall": "for the dispatch unit", "membar": "for a fence",
}  # fmt: skip


def build(subject: ViewSubject) -> ViewData | None:
    """Events of all warps as columns, fills of shared memory, and phases of mbarriers."""
    trace = subject.trace
    if not any(warp.events for warp in trace.warps):
        return None
    bands = shared_fills(trace)
    depth = max(1, tile_depth(trace, bands.fills))
    fills = [fill.row() for fill in bands.fills]
    barriers = list(dict.fromkeys(phase.barrier for phase in trace.phases))[:_MOST_BARRIERS]
    data = {
        "kinds": [str(kind) for kind in _KINDS],
        "warps": [_columns(trace, warp) for warp in trace.warps],
        "band": bands.size, "first": bands.first, "bands": bands.count if fills else 0,
        "fills": {name: packed([row[n] for row in fills]) for n, name in
                  enumerate(("band", "array", "k", "issued", "landed", "read", "end"))},
        "depth": depth, "tiles": sorted({row[2] // depth for row in fills if row[2] >= 0}),
        "barriers": [{"at": at, "phases": [[p.phase, p.slot] for p in trace.phases if p.barrier == at],
                      "arrivals": _arrivals(trace, at)} for at in barriers],
        "steps": packed(_steps(trace)), "slots": trace.slots, "gap": event_gap(trace),
        "axis": "k" if trace.problem else "column", "cycles": cycle_axis(trace, subject.cycles),
    }  # fmt: skip
    timed = _timed_notice(subject.cycles) if data["cycles"] is not None and subject.cycles is not None else ""
    if not trace.problem:
        return ViewData("The block in time", (timed or _notice(trace)) + _turns(fills), data)
    return ViewData("The k-loop in time", (timed or _notice(trace)) + _overlap(fills, depth), data)


def _columns(trace: LaunchTrace, warp: Warp) -> dict[str, Any]:
    events = warp.events
    kinds = [_KINDS.index(trace.instructions[event.instruction].kind) for event in events]
    return {
        "number": warp.number, "role": _role(trace, warp), "skipped": warp.skipped, "gap": warp.gap,
        "start": packed([event.start for event in events]), "slots": packed([event.slots for event in events]),
        "count": packed([event.count for event in events]), "kind": packed(kinds),
        "instruction": packed([event.instruction for event in events]),
        "facts": {str(n): dict(event.facts) for n, event in enumerate(events) if event.facts and
                  ("barrier" in event.facts or "group" in event.facts or "done" in event.facts) and n < 4000},
    }  # fmt: skip


def _role(trace: LaunchTrace, warp: Warp) -> str:
    if warp.number < 0:
        return "other blocks"
    kinds = {trace.instructions[event.instruction].kind for event in warp.events}
    anywhere = {trace.instructions[event.instruction].kind for each in trace.warps for event in each.events}
    if Kind.BULK_LOAD not in anywhere or Kind.WGMMA not in anywhere:
        return ""
    if Kind.BULK_LOAD in kinds:
        return "producer" if Kind.WGMMA not in kinds else "loads and multiplies"
    return "consumer" if Kind.WGMMA in kinds else ""


def _arrivals(trace: LaunchTrace, barrier: int) -> list[list[int]]:
    return [[event.start, warp.number] for warp in trace.warps for event in warp.events
            if event.facts and event.facts.get("barrier") == barrier and not event.facts.get("to_peer")
            and trace.instructions[event.instruction].kind in (Kind.ARRIVE, Kind.BULK_LOAD)][:600]  # fmt: skip


def _steps(trace: LaunchTrace) -> list[int]:
    """The slots that the player stops at."""
    found: set[int] = {0}
    for kinds in _TELLING:
        more = {event.start for warp in trace.warps for event in warp.events
                if trace.instructions[event.instruction].kind in kinds}  # fmt: skip
        if len(found | more) > _MOST_STEPS and len(found) > 1:
            break
        found |= more
    ordered = sorted(found | {trace.slots})
    every = -(-len(ordered) // _MOST_STEPS)
    return ordered[::every]


def _notice(trace: LaunchTrace) -> str:
    total: dict[Kind, int] = {}
    for warp in trace.warps:
        for event in warp.events:
            kind = trace.instructions[event.instruction].kind
            total[kind] = total.get(kind, 0) + event.slots
    whole = max(1, sum(total.values()))
    waits = 100 * sum(total.get(kind, 0) for kind in (Kind.BARRIER, Kind.PHASE_WAIT)) / whole
    work = 100 * sum(total.get(kind, 0) for kind in (Kind.ARITHMETIC, *_TENSOR)) / whole
    words = "tensor-core instructions" if any(kind in total for kind in _TENSOR) else "arithmetic"
    return f"{work:.0f} % of the block's issue slots are {words}, {waits:.0f} % are waits for barriers."


def _timed_notice(found: BlockCycles) -> str:
    """How long the block takes, and what its warps wait for most."""
    waited: dict[str, float] = {}
    for warp in found.warps:
        for span in warp.spans:
            if span.reason != "selected":
                waited[span.reason] = waited.get(span.reason, 0.0) + span.start - span.since
    living = sum(warp.spans[-1].end for warp in found.warps if warp.spans) or 1.0
    share = 100 * sum(waited.values()) / living
    text = (f"The block takes {found.cycles:,.0f} cycles, predicted for {found.gpu}. Its warps spend {share:.0f} % of "
            "that waiting")  # fmt: skip
    if not waited:
        return f"{text}."
    reason = max(waited, key=lambda name: waited[name])
    return f"{text}, mostly {_WAITS.get(reason, 'for ' + reason.replace('_', ' '))} ({reason.replace('_', ' ')})."


def _overlap(fills: list[list[int]], depth: int) -> str:
    if not fills:
        return " Every operand comes from global memory, again and again: shared memory is not used."
    if _fills_while_used(fills, depth):
        return " Shared memory fills (hatched) while other k-tiles are multiplied: loads and arithmetic overlap."
    return " A k-tile is written, all warps meet at a barrier, it is read, and they meet again before the next."


def _turns(fills: list[list[int]]) -> str:
    """The same for a launch that is no matrix product."""
    if not fills:
        return " Warps do not exchange anything through shared memory."
    return " Warps exchange values through shared memory: they write, meet at a barrier, and read what others wrote."


def _fills_while_used(fills: list[list[int]], depth: int) -> bool:
    """Whether some k-tile is on its way while another is read, for more than a few slots."""
    tiles: dict[int, list[list[int]]] = {}
    for row in fills:
        if row[2] >= 0:
            tiles.setdefault(row[2] // depth, []).append(row)
    filled = {tile: (min(row[3] for row in rows), max(row[4] for row in rows)) for tile, rows in tiles.items()}
    used = {tile: (max(row[4] for row in rows), max(row[5] for row in rows)) for tile, rows in tiles.items()}
    return any(
        min(stop, last) - max(start, first) > _SOME_SLOTS
        for tile, (start, stop) in filled.items()
        for other, (first, last) in used.items()
        if other != tile
    )
