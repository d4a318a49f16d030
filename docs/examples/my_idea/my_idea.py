"""Rung 29: load the next k-tile while this one is multiplied."""

from __future__ import annotations

from gemmsmith.ladder.families import simt
from gemmsmith.ladder.rung import preset

SPEC = simt.rung(
    __name__,
    summary="square tiles in shared memory, the next one loaded into registers ahead of time",
    teaches="hiding the latency of global loads behind arithmetic",
    parameters=(simt.square_tile(32, (8, 16, 32)),),
    presets=(preset("32x32x32"),),
    small={"TILE": 8},
    threads="TILE*TILE",
    grid=simt.TILE_GRID,
    static_smem="8*TILE*TILE",
)
