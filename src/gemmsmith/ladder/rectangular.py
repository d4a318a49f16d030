"""Rung 9: thread tiles of any shape, k unrolled."""

from __future__ import annotations

from gemmsmith.kernel.constraints import divides
from gemmsmith.ladder.families import simt
from gemmsmith.ladder.families.parameters import thread_tile, unroll
from gemmsmith.ladder.rung import preset

SPEC = simt.rung(
    __name__,
    summary="thread tiles of any shape, A read along k, k unrolled by hand",
    teaches="the shape of a thread tile: operands to load against accumulators to hold",
    parameters=(
        *simt.block_tile(64, 64, 64, (8, 16, 32, 64)),
        *thread_tile(8, 4, (4, 8, 16), (4, 8, 16, 32, 64, 128)),
        unroll(4),
        simt.padding(4, (0, 4, 8), "A"),
        simt.min_blocks(3),
    ),
    presets=(preset("64x64x64-8x4", simt.RTX_3050),),
    small={"BM": 32, "BN": 64, "BK": 16, "TM": 4, "TN": 8, "UNROLL": 4},
    threads=simt.THREAD_TILE,
    smem="4*(BM*(BK+PAD)+BK*BN)",
    vector=4,
    constraints=(
        divides("TN", "BN"),
        divides("UNROLL", "BK"),
        simt.ACCUMULATORS_FIT,
        simt.unrolled_fits("TM*TN*UNROLL"),
    ),
)
