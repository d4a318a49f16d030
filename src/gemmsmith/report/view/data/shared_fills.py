"""Shared memory over time: when each piece is filled with which k-tile, last read, and overwritten."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import Any

from gemmsmith.trace.launch_trace import Access, Event, Kind, LaunchTrace

_MOST_BANDS = 36
_LEAST_BAND = 128
_WRITES = (Kind.STORE_SHARED, Kind.STORE_MATRIX)
_WAITS = (Kind.BARRIER, Kind.WAIT, Kind.PHASE_WAIT)
_READS = (Kind.LOAD_SHARED, Kind.LOAD_MATRIX, Kind.BULK_STORE)


@dataclass
class Fill:
    """One band of shared memory holds one part of an array. ``k`` is the first step of K in it, −1 for results."""

    band: int
    array: int
    k: int
    issued: int
    landed: int
    read: int = -1
    end: int = -1

    def row(self) -> list[int]:
        return [self.band, self.array, self.k, self.issued, self.landed, self.read, self.end]


class Bands:
    """Pieces of equal size, in which the fills are found."""

    def __init__(self, trace: LaunchTrace) -> None:
        self.trace = trace
        total = max([trace.static_smem + trace.dynamic_smem, *(s.start + s.nbytes for s in trace.shared)])
        # A power of two: stages and arrays mostly begin on one, and a piece then belongs to one of them.
        self.size = max(_LEAST_BAND, 1 << (-(-total // _MOST_BANDS) - 1).bit_length())
        # Arrays may begin after a few mbarriers: pieces begin where the first large array does.
        self.first = next((s.start % self.size for s in trace.shared if s.nbytes >= self.size), 0)
        self.count = -(-(total - self.first) // self.size) if total else 0
        self.fills: list[Fill] = []
        self._current: dict[int, Fill] = {}
        self._known: dict[tuple[int, int, int], tuple[int, ...]] = {}

    def of_access(self, access: Access) -> tuple[int, ...]:
        key = access.pattern, access.at, access.width
        if key not in self._known:
            places = [access.at + offset for offset in self.trace.patterns[access.pattern] if offset >= 0]
            self._known[key] = tuple(sorted({self._band(place) for place in places}))
        return self._known[key]

    def _band(self, place: int) -> int:
        return max(0, place - self.first) // self.size

    def of_range(self, first: int, last: int) -> tuple[int, ...]:
        return tuple(range(self._band(first), self._band(last) + 1))

    def write(self, bands: tuple[int, ...], array: int, k: int, issued: int, landed: int) -> None:
        for band in bands:
            now = self._current.get(band)
            if now is None or now.read >= 0 or (now.array != array and now.k < 0 <= k):
                if now is not None:
                    now.end = issued
                now = self._current[band] = Fill(band, array, k, issued, landed)
                self.fills.append(now)
            now.landed = max(now.landed, landed)
            now.k = k if now.k < 0 else min(now.k, k) if k >= 0 else now.k

    def cut(self, slot: int) -> None:
        """Nothing is known of what shared memory holds after this slot."""
        for fill in self._current.values():
            fill.end = slot
        self._current = {}

    def read(self, bands: tuple[int, ...], slot: int) -> None:
        for band in bands:
            if (now := self._current.get(band)) is not None:
                now.read = max(now.read, slot)


def shared_fills(trace: LaunchTrace) -> Bands:
    """The fills of a block's shared memory, in order."""
    bands = Bands(trace)
    if not bands.count:
        return bands
    landed = _landings(trace)
    ordered = sorted(((event.start, n, event) for n, warp in enumerate(trace.warps) for event in warp.events),
                     key=lambda item: item[:2])  # fmt: skip
    gap = event_gap(trace)
    for _, n, event in ordered:
        if gap is not None and event.start >= gap[1]:
            bands.cut(gap[0])
            gap = None
        kind = trace.instructions[event.instruction].kind
        facts = event.facts or {}
        if facts.get("to_peer"):
            continue
        if kind in _WRITES and event.access is not None and event.access.pattern >= 0:
            bands.write(bands.of_access(event.access), *_meaning(trace, event.access.of), event.start, event.stop)
        elif kind is Kind.COPY and event.target is not None and event.target.pattern >= 0:
            barrier = landed.get(("copy", n, event.start))
            done = landed.get((n, facts["group"]), event.stop) if barrier is None else (
                _visible(trace, barrier, event, landed))  # fmt: skip
            bands.write(bands.of_access(event.target), *_meaning(trace, event.target.of), event.start, done)
        elif kind is Kind.BULK_LOAD:
            _bulk(trace, bands, event, facts, landed)
        elif kind in _READS:
            _read(bands, event, facts)
        elif kind is Kind.WGMMA:
            for low, high in zip(facts["reads"][::2], facts["reads"][1::2], strict=True):
                bands.read(bands.of_range(low, high), event.stop)
    return bands


def event_gap(trace: LaunchTrace) -> tuple[int, int] | None:
    """Where a long trace leaves events out: the slot after the last before it, and the first after it."""
    cut = [warp for warp in trace.warps if warp.skipped and 0 < warp.gap < len(warp.events)]
    if not cut:
        return None
    first = min(warp.events[warp.gap - 1].stop for warp in cut)
    return first, max(first, max(warp.events[warp.gap].start for warp in cut))


def _read(bands: Bands, event: Event, facts: Any) -> None:
    if event.access is not None and event.access.pattern >= 0:
        bands.read(bands.of_access(event.access), event.stop)
    elif "shared" in facts:
        bands.read(bands.of_range(facts["shared"], facts["shared"] + facts["bytes"] - 1), event.stop)


def _bulk(trace: LaunchTrace, bands: Bands, event: Event, facts: Any, landed: dict[Any, Any]) -> None:
    array = next((n for n, one in enumerate(trace.arrays) if one.name == facts.get("array")), -1)
    k = -1
    if array >= 0 and "columns" in facts:
        k = facts["rows"][0] if trace.arrays[array].role == "B" else facts["columns"][0]
    done = _visible(trace, facts["barrier"], event, landed)
    bands.write(bands.of_range(facts["shared"], facts["shared"] + facts["bytes"] - 1), array, k, event.start, done)


def _visible(trace: LaunchTrace, barrier: int, event: Event, landed: dict[Any, Any]) -> int:
    """When the first warp has waited for the phase that counts a copy: the next that is complete after its issue."""
    later = [(each.slot, each.phase) for each in trace.phases if each.barrier == barrier and each.slot >= event.start]
    if not later:
        return event.stop
    slot, number = min(later)
    waits = [stop for stop in landed.get(("barrier", barrier, number), ()) if stop > slot]
    return min(waits, default=max(slot, event.stop))


def _meaning(trace: LaunchTrace, address: int) -> tuple[int, int]:
    """(array, k) of an element; −1 for what is computed."""
    for n, array in enumerate(trace.arrays):
        if array.address <= address < array.address + array.nbytes:
            row, column = array.place(address)
            return n, row if array.role == "B" else column
    return -1, -1


def tile_depth(trace: LaunchTrace, fills: list[Fill]) -> int:
    """Steps of K in a k-tile, 0 if unknown: parts of one k-tile land between the same two waits.

    A piece of shared memory holds a k-tile again after all stages: what lies between its fills is the depth of all
    stages together, and there the waits tell them apart.
    """
    known = [fill for fill in fills if fill.k >= 0]
    again: dict[int, int] = {}
    cycles = []
    for fill in known:
        if fill.band in again and fill.k > again[fill.band]:
            cycles.append(fill.k - again[fill.band])
        again[fill.band] = fill.k
    # The most common, because a piece may hold parts of two stages.
    cycle = Counter(cycles).most_common(1)[0][0] if cycles else max((fill.k for fill in known), default=0) + 1
    waits = sorted({event.stop for warp in trace.warps[:1] for event in warp.events
                    if trace.instructions[event.instruction].kind in _WAITS}
                   | {phase.slot for phase in trace.phases})  # fmt: skip
    seen: dict[int, Counter[int]] = {}
    for fill in known:
        if fill.k < cycle:
            seen.setdefault(fill.k, Counter())[bisect_right(waits, fill.landed)] += 1
    epochs = {k: counts.most_common(1)[0][0] for k, counts in seen.items()}
    first = epochs.get(min(epochs, default=0), 0)
    return min((k for k, epoch in epochs.items() if k > 0 and epoch != first), default=cycle)


def _landings(trace: LaunchTrace) -> dict[Any, Any]:
    """When each warp has waited for each of its cp.async groups, and when waits for each mbarrier's phases ended.

    Copies that arrive at an mbarrier when they land are listed with it instead.
    """
    found: dict[Any, Any] = {}
    for n, warp in enumerate(trace.warps):
        done, flying = 0, list[int]()
        for event in warp.events:
            facts, instruction = event.facts or {}, trace.instructions[event.instruction]
            if instruction.kind is Kind.COPY:
                flying.append(event.start)
            elif instruction.ptx.startswith("cp.async.mbarrier.arrive"):
                found.update({("copy", n, start): facts["barrier"] for start in flying})
                flying = []
            elif facts.get("family") == "cp.async" and "done" in facts:
                found.update({(n, group): event.stop for group in range(done, facts["done"])})
                done = max(done, facts["done"])
            elif instruction.kind is Kind.PHASE_WAIT:
                found.setdefault(("barrier", facts["barrier"], facts["phase"]), []).append(event.stop)
    return found
