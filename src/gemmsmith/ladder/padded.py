"""Rung 8: shared memory padded against bank conflicts."""

from __future__ import annotations

from gemmsmith.ladder.families import simt
from gemmsmith.ladder.families.parameters import thread_tile
from gemmsmith.ladder.rung import preset

SPEC = simt.rung(
    __name__,
    summary="rows of A padded, a thread's columns in groups of four: no bank conflicts; deeper k-tiles",
    teaches="bank conflicts: padding cures a strided store, and only another thread tile a strided load",
    parameters=(
        *simt.block_tile(128, 128, 8),
        *thread_tile(8, 8, (4, 8, 16), (4, 8, 16)),
        simt.padding(4, (0, 1, 4, 8), "A, transposed,"),
        simt.min_blocks(2),
    ),
    presets=(preset("128x128x8-8x8", simt.A6000), preset("128x128x16-8x8", simt.A6000, BK=16)),
    small={"BM": 64, "BN": 32, "BK": 16, "TM": 4, "TN": 4},
    threads=simt.THREAD_TILE,
    static_smem="4*(BM+PAD+BN)*BK",
    vector=4,
)
