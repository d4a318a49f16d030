"""Rung 12: 16-bit inputs on CUDA cores."""

from __future__ import annotations

from gemmsmith.ladder.families import simt
from gemmsmith.ladder.rung import preset
from gemmsmith.problem import BF16, FP16

SPEC = simt.rung(
    __name__,
    summary="fp16 or bf16 inputs, converted to fp32 in registers",
    teaches="half the bytes in memory, fp32 accumulators; and that CUDA cores are no faster for it",
    parameters=simt.WARP_TILE_PARAMETERS,
    presets=(
        preset("64x64-8x4", simt.RTX_4090),
        preset("64x32-8x8", f"{simt.A6000}, in fp32", WN=32, WNITER=1, TN=8, UNROLL=2),
    ),
    small={"BM": 64, "BN": 64, "BK": 8, "WM": 64, "WN": 32, "WNITER": 2, "TM": 4, "TN": 4, "UNROLL": 2},
    threads=simt.WARP_TILE,
    smem="2*(BM+PAD+BN)*BK",
    vector=8,
    constraints=simt.WARP_TILE_FITS,
    dtypes=(FP16, BF16),
)
