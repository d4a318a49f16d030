"""Rung 11: cp.async and several stages."""

from __future__ import annotations

from gemmsmith.kernel.constraints import divides
from gemmsmith.ladder.families import simt
from gemmsmith.ladder.families.parameters import stages, thread_tile, unroll
from gemmsmith.ladder.rung import preset

SPEC = simt.rung(
    __name__,
    min_arch=80,  # cp.async
    summary="cp.async loads the next k-tiles while this one is multiplied",
    teaches="overlap: copies that need neither registers nor waiting, and one barrier per k-tile",
    parameters=(
        *simt.block_tile(64, 64, 16, (8, 16, 32, 64)),
        *thread_tile(8, 4, (4, 8, 16), (4, 8, 16, 32, 64, 128)),
        unroll(16),
        simt.padding(4, (0, 4, 8), "A"),
        stages(2, (2, 3, 4)),
        simt.min_blocks(4),
    ),
    presets=(preset("64x64-8x4", simt.RTX_3050),),
    small={"BM": 32, "BN": 64, "BK": 8, "TM": 4, "TN": 8, "UNROLL": 2, "STAGES": 3},
    threads=simt.THREAD_TILE,
    smem="STAGES*4*(BM*(BK+PAD)+BK*BN)",
    vector=4,
    constraints=(
        divides("TN", "BN"),
        divides("UNROLL", "BK"),
        simt.ACCUMULATORS_FIT,
        simt.unrolled_fits("TM*TN*UNROLL"),
    ),
)
