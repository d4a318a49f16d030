"""Rung 4: a small square of outputs per thread."""

from __future__ import annotations

from gemmsmith.kernel.config import Parameter
from gemmsmith.ladder.families import simt
from gemmsmith.ladder.rung import preset

SPEC = simt.rung(
    __name__,
    summary="a small square of outputs per thread",
    teaches="registers: each value read from shared memory is used SIDE times",
    parameters=(
        simt.square_tile(32, (16, 32, 64)),
        Parameter("SIDE", 2, (1, 2, 4, 8), "rows and columns of C per thread"),
    ),
    presets=(preset("32-2x2", simt.RTX_3050),),
    small={"TILE": 16, "SIDE": 2},
    threads="(TILE/SIDE)*(TILE/SIDE)",
    grid=simt.TILE_GRID,
)
