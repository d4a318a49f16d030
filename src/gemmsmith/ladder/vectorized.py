"""Rung 7: 16-byte loads and stores."""

from __future__ import annotations

from gemmsmith.kernel.config import Parameter
from gemmsmith.ladder.families import simt
from gemmsmith.ladder.families.parameters import thread_tile
from gemmsmith.ladder.rung import preset

SPEC = simt.rung(
    __name__,
    summary="float4 from global memory, A transposed into shared memory, float4 from there",
    teaches="wide accesses: a quarter of the load instructions for the same bytes",
    parameters=(
        *simt.block_tile(128, 128, 8),
        *thread_tile(8, 8, (4, 8, 16), (4, 8, 16)),
        Parameter("VEC", 4, (1, 2, 4), "floats per global load and store"),
        simt.min_blocks(2),
    ),
    presets=(
        preset("128x128x8-8x8", f"{simt.A6000_TWICE}; {simt.RTX_4090}"),
        preset("64x64-4x4", simt.RTX_3050, BM=64, BN=64, BK=16, TM=4, TN=4, MIN_BLOCKS=4),
    ),
    small={"BM": 32, "BN": 64, "BK": 16, "TM": 4, "TN": 4, "VEC": 4},
    threads=simt.THREAD_TILE,
    static_smem="4*(BM+BN)*BK",
    vector="VEC",
)
