"""Rung 10: a warp owns a compact rectangle of C."""

from __future__ import annotations

from gemmsmith.ladder.families import simt
from gemmsmith.ladder.rung import preset

SPEC = simt.rung(
    __name__,
    summary="a warp owns a compact rectangle, a thread a tile in each piece of it",
    teaches="a level between block and thread: fewer values read per warp, from neighbouring addresses",
    parameters=simt.WARP_TILE_PARAMETERS,
    presets=(
        preset("64x64-8x4", simt.RTX_4090),
        preset("64x32-8x8", simt.A6000, WN=32, WNITER=1, TN=8, UNROLL=2),
    ),
    small={"BM": 64, "BN": 64, "BK": 8, "WM": 64, "WN": 32, "WNITER": 2, "TM": 4, "TN": 4, "UNROLL": 2},
    threads=simt.WARP_TILE,
    smem="4*(BM+PAD+BN)*BK",
    vector=4,
    constraints=simt.WARP_TILE_FITS,
    epilogue=True,
    batched=True,
)
