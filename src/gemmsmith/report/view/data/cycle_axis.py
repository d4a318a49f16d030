"""The k-loop on the time model's cycles: what each warp issues when, and at which cycle an issue slot of the trace is.

The model runs machine code, the trace PTX. Instructions that the compiler keeps one for one (barriers, waits, copies,
TMA, matrix instructions, often loads and stores) are matched in their order, warp by warp; slots between them are
placed in proportion.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gemmsmith.explain.timing.cycles import BlockCycles, WarpCycles
from gemmsmith.report.view.data.player_steps import steps
from gemmsmith.report.view.packing import packed
from gemmsmith.trace.launch_trace import Kind, LaunchTrace, Warp

_KINDS = tuple(Kind)
_PLAIN = frozenset({Kind.ARITHMETIC, Kind.OTHER, Kind.LOCAL})
_FILL = frozenset({Kind.BULK_LOAD, Kind.COPY, Kind.LOAD_GLOBAL, Kind.STORE_SHARED, Kind.COMMIT})
_USE = frozenset({Kind.WGMMA, Kind.MMA, Kind.LOAD_SHARED, Kind.LOAD_MATRIX, Kind.BARRIER, Kind.WAIT, Kind.STORE_GLOBAL,
                  Kind.ARRIVE, Kind.BULK_STORE})  # fmt: skip
_LEAST = 3  # matched instructions
_MOST_PLACES = 2_000


def cycle_axis(trace: LaunchTrace, found: BlockCycles | None) -> dict[str, Any] | None:
    """Columns of every warp, and the places of slots; None without a time, or where nothing matches."""
    if found is None:
        return None
    places = slot_places(trace, found)
    if len(places) < _LEAST:
        return None
    filling, using = (slot_places(trace, found, kinds) for kinds in (_FILL, _USE))
    reasons = sorted({span.reason for warp in found.warps for span in warp.spans})
    lines = sorted({f"{span.file}:{span.line}" for warp in found.warps for span in warp.spans})
    index = {name: n for n, name in enumerate(lines)}
    total = round(found.cycles) + 1
    moments = steps(((round(span.start), span.kind) for warp in found.warps for span in warp.spans), total - 1)
    return {
        "total": total, "steps": packed(moments), "gpu": found.gpu, "resident": found.resident, "reasons": reasons,
        "lines": lines, "places": _packed(places),
        "filling": _packed(filling if len(filling) > _LEAST else places),
        "using": _packed(using if len(using) > _LEAST else places),
        "warps": {str(warp.number): _columns(warp, reasons, index) for warp in found.warps},
    }  # fmt: skip


def _columns(warp: WarpCycles, reasons: Sequence[str], lines: dict[str, int]) -> dict[str, Any]:
    """Waits and lengths instead of moments: small numbers take little space."""
    spans = warp.spans
    edges = [0, *(round(span.end) for span in spans)]
    starts = [max(edge, round(span.start)) for edge, span in zip(edges, spans, strict=False)]
    return {
        "wait": packed([start - edge for start, edge in zip(starts, edges, strict=False)]),
        "long": packed([end - start for start, end in zip(starts, edges[1:], strict=True)]),
        "landed": packed([max(0, round(span.landed) - end) for span, end in zip(spans, edges[1:], strict=True)]),
        "kind": packed([_KINDS.index(span.kind) for span in spans]),
        "reason": packed([reasons.index(span.reason) for span in spans]),
        "count": packed([span.count for span in spans]),
        "line": packed([lines[f"{span.file}:{span.line}"] for span in spans]),
    }  # fmt: skip


def _packed(places: Sequence[tuple[int, int]]) -> list[dict[str, str]]:
    return [packed([slot for slot, _ in places]), packed([at for _, at in places])]


def slot_places(
    trace: LaunchTrace, found: BlockCycles, kinds: frozenset[Kind] = frozenset(Kind)
) -> list[tuple[int, int]]:
    """Slots and their cycles, both ascending: from instructions that trace and machine code have equally often.

    A producer runs ahead of its consumers, so that one slot is at different cycles for them: ``kinds`` chooses.
    """
    timed = {warp.number: warp for warp in found.warps}
    pairs: list[tuple[int, float]] = []
    for warp in trace.warps:
        if warp.number in timed and not warp.skipped:
            pairs += _matched(trace, warp, timed[warp.number], kinds)
    if not pairs:
        return []
    slots, cycles = (np.array(each, float) for each in zip(*pairs, strict=True))
    distinct, where = np.unique(slots, return_inverse=True)
    mean = np.bincount(where, cycles) / np.bincount(where)
    ascending = np.maximum.accumulate(mean)
    step = max(1, -(-distinct.size // _MOST_PLACES))
    kept = [(int(slot), round(float(at))) for slot, at in zip(distinct[::step], ascending[::step], strict=True)]
    inner = [pair for pair in kept if 0 < pair[0] < trace.slots]
    return [(0, 0), *inner, (trace.slots, round(found.cycles))]


def _matched(trace: LaunchTrace, warp: Warp, timed: WarpCycles, kinds: frozenset[Kind]) -> list[tuple[int, float]]:
    recorded = _in_order((trace.instructions[each.instruction].kind, each.start, each.start + each.slots, each.count)
                         for each in warp.events)  # fmt: skip
    issued = _in_order((each.kind, each.start, each.end, each.count) for each in timed.spans)
    found = []
    for kind, moments in recorded.items():
        if kind in kinds and len(moments) == len(issued.get(kind, [])):
            found += list(zip((int(at) for at in moments), issued[kind], strict=True))
    return found


def _in_order(events: Iterable[tuple[Kind, float, float, int]]) -> dict[Kind, list[float]]:
    """When each instruction starts, by kind; those that were joined are spread over their time."""
    found: dict[Kind, list[float]] = {}
    for kind, start, end, count in events:
        if kind not in _PLAIN:
            found.setdefault(kind, []).extend(start + (end - start) * n / count for n in range(count))
    return found
