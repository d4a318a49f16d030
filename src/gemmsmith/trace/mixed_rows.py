"""Rows whose statistics mix different launches and are therefore misleading.

A kernel's name does not contain its problem size, so launches of several sizes share a row, and min, max, average and
deviation describe the mix. Different grids, blocks or register counts reveal it; so does a slowest launch many times
slower than the fastest at the same grid, if the sizes differ only in K.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from gemmsmith.trace.kernel_names import short_name
from gemmsmith.trace.timeline import COPY, KERNEL, SET, Event, Extent, extent_text, grouped

# Launches of one problem differ because of caches and clocks, rarely by more than this factor.
SPREAD = 3.0
_NAMED = 4


@dataclass(frozen=True)
class Part:
    """One group of equal launches or copies in a row."""

    count: int
    total: int
    median: float
    grid: Extent = (0, 0, 0)
    block: Extent = (0, 0, 0)
    registers: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class MixedRow:
    """A row that mixes several groups. ``reason`` is 'kernels', 'grids', 'sizes' or 'spread'."""

    kind: str
    name: str
    reason: str
    ratio: float
    total: int
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The warning in one sentence."""
        name, listed = short_name(self.name), _listed(self)
        if self.reason == "kernels":
            return f"{name}: {len(self.parts)} kernels or problem sizes share this name: {listed}"
        if self.reason == "grids":
            return f"{name}: min, max and deviation mix {len(self.parts)} grids: {listed}"
        if self.reason == "sizes":
            return f"{name}: min, max and deviation mix {len(self.parts)} sizes: {listed}"
        grid = extent_text(self.parts[0].grid)
        return (
            f"{name}: the slowest launch took {self.ratio:.1f} times as long as the fastest at the same grid, {grid}; "
            "possible causes: sizes that differ only in K, a first launch, or a concurrent kernel"
        )


def mixed_rows(events: Sequence[Event], by_grid: bool = False) -> tuple[MixedRow, ...]:
    """All mixed rows, by decreasing total time; with ``by_grid`` each row has one grid and block."""
    found = [_kernel(group) for group in grouped((e for e in events if e.kind == KERNEL), by_grid).values()]
    found += [_moved(group) for group in grouped(e for e in events if e.kind in (COPY, SET)).values()]
    return tuple(sorted((m for m in found if m is not None), key=lambda m: -m.total))


def _kernel(group: list[Event]) -> MixedRow | None:
    shapes: dict[tuple[Extent, Extent, int], list[Event]] = {}
    for event in group:
        shapes.setdefault((event.grid, event.block, event.registers), []).append(event)
    parts = _parts(shapes.values())
    times = [event.duration for event in group]
    ratio = max(times) / max(1, min(times))
    if len({(block, registers) for _, block, registers in shapes}) > 1:
        reason = "kernels"
    elif len(shapes) > 1:
        reason = "grids"
    elif ratio > SPREAD:
        reason = "spread"
    else:
        return None
    return MixedRow(KERNEL, group[0].name, reason, ratio, sum(times), parts)


def _moved(group: list[Event]) -> MixedRow | None:
    sizes: dict[int, list[Event]] = {}
    for event in group:
        sizes.setdefault(event.bytes, []).append(event)
    if len(sizes) < 2:
        return None
    times = [event.duration for event in group]
    return MixedRow(group[0].kind, group[0].name, "sizes", max(times) / max(1, min(times)), sum(times),
                   _parts(sizes.values()))  # fmt: skip


def _parts(groups: Iterable[list[Event]]) -> tuple[Part, ...]:
    parts = [
        Part(len(group), sum(e.duration for e in group), float(median(e.duration for e in group)), group[0].grid,
             group[0].block, group[0].registers, group[0].bytes)
        for group in groups
    ]  # fmt: skip
    return tuple(sorted(parts, key=lambda part: -part.total))


def _listed(row: MixedRow) -> str:
    named = [_part_text(row.reason, part) for part in row.parts[:_NAMED]]
    more = len(row.parts) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more else "")


def _part_text(reason: str, part: Part) -> str:
    when = f"({part.count}×, median {part.median / 1000:,.1f} µs)"
    if reason == "sizes":
        return f"{part.bytes:,} B {when}"
    if reason == "grids":
        return f"{extent_text(part.grid)} {when}"
    return f"grid {extent_text(part.grid)}, block {extent_text(part.block)}, {part.registers} registers {when}"
