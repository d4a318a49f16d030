"""Rung 1: one thread per output, uncoalesced."""

from __future__ import annotations

from gemmsmith.ladder.families import simt
from gemmsmith.ladder.rung import ALL_LAYOUTS, preset

SPEC = simt.rung(
    __name__,
    summary="one thread per output; consecutive threads walk down a column",
    teaches="what uncoalesced access costs: a warp's loads of A are lda apart",
    parameters=(simt.square_tile(32, (8, 16, 32)),),
    presets=(preset("32x32", simt.RTX_4090),),
    small={"TILE": 8},
    threads="TILE*TILE",
    grid=simt.TILE_GRID,
    layouts=ALL_LAYOUTS,
)
