"""What each recorded access costs: sectors of global memory, wavefronts of shared memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.wavefronts import LINE, NOBODY, copies, distinct, matrix_wavefronts, sectors, wavefronts
from gemmsmith.trace.launch_trace import Access, Kind
from gemmsmith.trace.recording.patterns import Patterns

_MATRIX = (Kind.LOAD_MATRIX, Kind.STORE_MATRIX)


class Costs:
    """Costs by pattern, width and alignment: most accesses repeat one."""

    def __init__(self, patterns: Patterns) -> None:
        self.patterns = patterns
        self._known: dict[tuple[int, int, int, Kind], tuple[int, int, int, int]] = {}

    def of(self, access: Access | None, kind: Kind, served: int) -> Access | None:
        """The access with its costs. ``served`` is the width at which shared memory serves it; 0: with another."""
        if access is None or access.pattern < 0:
            return access
        width = served if access.space == "shared" and kind not in _MATRIX else access.width
        key = access.pattern, width, access.at % LINE, kind
        if key not in self._known:
            row = self.patterns.row(access.pattern)
            rows = np.where(row == NOBODY, NOBODY, row + access.at % LINE)[None]
            self._known[key] = _cost(rows, access, kind, width)
        touched, waves, groups, used = self._known[key]
        return replace(access, sectors=touched, wavefronts=waves, groups=groups, used=used)

    def of_copy(
        self, source: Access | None, target: Access | None, *, bypass: bool, zero_fill: bool
    ) -> tuple[Access | None, Access | None]:
        """Both sides of a cp.async with their costs, which follow rules of their own (``wavefronts.copies``)."""
        if source is None or target is None or target.pattern < 0:
            return source, target
        to = self.patterns.row(target.pattern)
        targets = np.where(to == NOBODY, NOBODY, to + target.at)[None]
        row = self.patterns.row(source.pattern) if source.pattern >= 0 else np.full(32, NOBODY)
        reads = (row != NOBODY)[None]
        sources = np.where(reads, row + max(0, source.at), 0)
        found = copies(targets, sources, reads, target.width, bypass=bypass, zero_fill=zero_fill)
        waves, used = int(found.wavefronts[0]), int(reads.sum()) * target.width
        return (
            replace(source, sectors=int(found.tag_sectors[0]), used=used),
            replace(target, wavefronts=waves, groups=waves - int(found.conflicts[0]),
                    used=int((to != NOBODY).sum()) * target.width),
        )  # fmt: skip


def _cost(rows: Array, access: Access, kind: Kind, width: int) -> tuple[int, int, int, int]:
    """Sectors, wavefronts, groups and distinct bytes."""
    used = int(distinct(rows)[0]) * access.width
    if access.space != "shared":
        return int(sectors(rows)[0]), 0, 0, used
    if kind in _MATRIX:
        groups = rows[rows != NOBODY].reshape(-1, 8)
        return 0, int(matrix_wavefronts(groups).sum()), len(groups), used
    if width == 0:
        return 0, 0, 0, used
    waves, of = wavefronts(rows, width, load=kind is not Kind.STORE_SHARED)
    return 0, int(waves[0]), int(of[0]), used
