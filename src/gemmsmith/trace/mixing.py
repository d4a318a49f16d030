"""Rows whose statistics mean little, because what they sum up is not one thing.

A kernel's name does not say its problem: launches of several sizes share a row, and min, max, average and deviation
then describe the mixture. A different grid, block or register count gives it away; so does a slowest launch many times
slower than the fastest one at the same grid, where sizes differ in K only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from gemmsmith.trace.kernel_names import short_name
from gemmsmith.trace.timeline import COPY, KERNEL, SET, Event, Extent, extent_text, grouped

# Launches of one problem differ by cold caches and clocks, rarely by more than this.
SPREAD = 3.0
_NAMED = 4


@dataclass(frozen=True)
class Part:
    """One of the things that share a row."""

    count: int
    total: int
    median: float
    grid: Extent = (0, 0, 0)
    block: Extent = (0, 0, 0)
    registers: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Mixture:
    """A row that sums up several things. ``reason`` is 'kernels', 'grids', 'sizes' or 'spread'."""

    kind: str
    name: str
    reason: str
    ratio: float
    total: int
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """One or two sentences for people."""
        name, listed = short_name(self.name), _listed(self)
        if self.reason == "kernels":
            return f"{name}: {len(self.parts)} kernels or problem sizes share this name: {listed}"
        if self.reason == "grids":
            return f"{name}: min, max and deviation mix {len(self.parts)} grids: {listed}"
        if self.reason == "sizes":
            return f"{name}: min, max and deviation mix {len(self.parts)} sizes: {listed}"
        grid = extent_text(self.parts[0].grid)
        return (
            f"{name}: the slowest launch took {self.ratio:.1f} times the fastest at one grid, {grid}; sizes that "
            "differ in K only, a first launch, or another kernel beside it"
        )


def mixtures(events: Sequence[Event], by_grid: bool = False) -> tuple[Mixture, ...]:
    """Every row that mixes, by falling total time; ``by_grid`` looks at rows of one grid and block each."""
    found = [_kernel(group) for group in grouped((e for e in events if e.kind == KERNEL), by_grid).values()]
    found += [_moved(group) for group in grouped(e for e in events if e.kind in (COPY, SET)).values()]
    return tuple(sorted((m for m in found if m is not None), key=lambda m: -m.total))


def _kernel(group: list[Event]) -> Mixture | None:
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
    return Mixture(KERNEL, group[0].name, reason, ratio, sum(times), parts)


def _moved(group: list[Event]) -> Mixture | None:
    sizes: dict[int, list[Event]] = {}
    for event in group:
        sizes.setdefault(event.bytes, []).append(event)
    if len(sizes) < 2:
        return None
    times = [event.duration for event in group]
    return Mixture(group[0].kind, group[0].name, "sizes", max(times) / max(1, min(times)), sum(times),
                   _parts(sizes.values()))  # fmt: skip


def _parts(groups: Iterable[list[Event]]) -> tuple[Part, ...]:
    parts = [
        Part(len(group), sum(e.duration for e in group), float(median(e.duration for e in group)), group[0].grid,
             group[0].block, group[0].registers, group[0].bytes)
        for group in groups
    ]  # fmt: skip
    return tuple(sorted(parts, key=lambda part: -part.total))


def _listed(mixture: Mixture) -> str:
    named = [_part_text(mixture.reason, part) for part in mixture.parts[:_NAMED]]
    more = len(mixture.parts) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more else "")


def _part_text(reason: str, part: Part) -> str:
    when = f"({part.count}×, median {part.median / 1000:,.1f} µs)"
    if reason == "sizes":
        return f"{part.bytes:,} B {when}"
    if reason == "grids":
        return f"{extent_text(part.grid)} {when}"
    return f"grid {extent_text(part.grid)}, block {extent_text(part.block)}, {part.registers} registers {when}"
