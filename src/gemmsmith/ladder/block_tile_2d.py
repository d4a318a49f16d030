"""Rung 6: a rectangle of outputs per thread."""

from __future__ import annotations

from gemmsmith.ladder.families import simt
from gemmsmith.ladder.families.parameters import thread_tile
from gemmsmith.ladder.rung import preset

SPEC = simt.rung(
    __name__,
    summary="a rectangle of outputs per thread, as outer products in registers",
    teaches="arithmetic intensity: TM + TN loads feed TM·TN multiplications; bounds checks only at the edges",
    parameters=(
        *simt.block_tile(64, 64, 8),
        *thread_tile(8, 8, (2, 4, 8, 16), (2, 4, 8, 16)),
        simt.min_blocks(8),
    ),
    presets=(
        preset("64x64x8-8x8", simt.RTX_4090),
        preset("128x128x8-8x8", simt.A6000_TWICE, BM=128, BN=128, MIN_BLOCKS=2),
    ),
    small={"BM": 64, "BN": 32, "BK": 8, "TM": 4, "TN": 4},
    threads=simt.THREAD_TILE,
    static_smem="4*(BM+BN)*BK",
    vector=1,
)
