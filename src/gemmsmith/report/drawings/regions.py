"""A matrix of labels as few rectangles, and the part of it that shows the pattern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Region:
    """A rectangle of one label."""

    row: int
    col: int
    rows: int
    cols: int
    label: int


def regions(labels: NDArray[Any]) -> list[Region]:
    """Rectangles that cover the matrix: runs along rows, joined with equal runs below. Negative labels are left out."""
    open_: dict[tuple[int, int, int], Region] = {}
    done: list[Region] = []
    for at, line in enumerate(labels):
        edges = np.flatnonzero(np.diff(line)) + 1
        starts = np.concatenate(([0], edges))
        stops = np.concatenate((edges, [len(line)]))
        here: dict[tuple[int, int, int], Region] = {}
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            key = start, stop, int(line[start])
            above = open_.pop(key, None)
            here[key] = (Region(above.row, start, above.rows + 1, stop - start, key[2]) if above is not None
                         else Region(at, start, 1, stop - start, key[2]))  # fmt: skip
        done += open_.values()
        open_ = here
    return sorted((r for r in (*done, *open_.values()) if r.label >= 0), key=lambda r: (r.row, r.col))


def pattern(labels: NDArray[Any]) -> NDArray[Any]:
    """The smallest upper left part, halving rows and columns, that still has every label of the whole."""
    wanted = set(np.unique(labels[labels >= 0]).tolist())
    part = labels
    while True:
        halves = [h for h in (part[: (len(part) + 1) // 2], part[:, : (part.shape[1] + 1) // 2])
                  if h.shape != part.shape and wanted <= set(np.unique(h).tolist())]  # fmt: skip
        if not halves:
            return part
        part = max(halves, key=lambda h: min(h.shape))
