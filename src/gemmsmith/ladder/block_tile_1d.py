"""Rung 5: a column of outputs per thread."""

from __future__ import annotations

from gemmsmith.kernel.config import Parameter
from gemmsmith.ladder.families import simt
from gemmsmith.ladder.rung import preset

SPEC = simt.rung(
    __name__,
    summary="a column of outputs per thread, from thin k-tiles",
    teaches="a tile of C that is large against its k-tiles: more arithmetic per byte of shared memory",
    parameters=(
        *simt.block_tile(64, 64, 8),
        Parameter("TM", 16, (4, 8, 16, 32), "rows of C per thread, in one column"),
        simt.min_blocks(6),
    ),
    presets=(
        preset("64x64x8-16"),
        preset("64x64x8-8", f"{simt.A6000}; {simt.RTX_4090}", TM=8, MIN_BLOCKS=3),
    ),
    small={"BM": 64, "BN": 32, "BK": 8, "TM": 8},
    threads="BM*BN/TM",
    static_smem="4*(BM+BN)*BK",
    vector=1,
)
