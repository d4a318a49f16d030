"""Rung 2: one thread per output, coalesced."""

from __future__ import annotations

from gemmsmith.ladder.families import simt
from gemmsmith.ladder.rung import ALL_LAYOUTS, preset

SPEC = simt.rung(
    __name__,
    summary="one thread per output; consecutive threads walk along a row",
    teaches="coalescing: swap / and %, and the loads of a warp become one transaction of 128 bytes",
    parameters=(simt.square_tile(32, (8, 16, 32)),),
    presets=(preset("32x32", f"{simt.RTX_4090}; called naive in {simt.RTX_3050} and {simt.A6000}"),),
    small={"TILE": 8},
    threads="TILE*TILE",
    grid=simt.TILE_GRID,
    layouts=ALL_LAYOUTS,
)
