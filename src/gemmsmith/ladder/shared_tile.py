"""Rung 3: square tiles of A and B in shared memory."""

from __future__ import annotations

from gemmsmith.ladder.families import simt
from gemmsmith.ladder.rung import preset

SPEC = simt.rung(
    __name__,
    summary="square tiles of A and B staged in shared memory",
    teaches="reuse: a block loads each element once instead of TILE times",
    parameters=(simt.square_tile(32, (8, 16, 32)),),
    presets=(preset("32x32x32", f"{simt.RTX_3050}; {simt.A6000}; {simt.RTX_4090}"),),
    small={"TILE": 8},
    threads="TILE*TILE",
    grid=simt.TILE_GRID,
)
