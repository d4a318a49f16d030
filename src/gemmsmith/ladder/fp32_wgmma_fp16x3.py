"""Rung 26: fp16x3 by wgmma, where the data allow it; otherwise rung 25 computes the product."""

from __future__ import annotations

from gemmsmith.ladder import fp32_wgmma_bf16x6
from gemmsmith.ladder.families import fp32_wgmma
from gemmsmith.ladder.rung import preset
from gemmsmith.prologue.split_fp16 import split_fp16_prologue

SPEC = fp32_wgmma.rung(
    __name__,
    parts=2,
    bn=192,
    stages=5,
    blocked=0,
    summary="fp16x3 by wgmma: fp32 as two fp16 numbers scaled by row and column, where the data allow it",
    teaches="half the products for data that pass a check, decided on the GPU without asking the host",
    presets=(preset("128x192-2x1"), preset("128x128-2x1", BN=128, STAGES=6, BLOCKED_SUMS=1)),
    small={"BM": 64, "BN": 64, "STAGES": 3, "CONSUMERS": 1, "GROUP": 2},
    arithmetic="fp16x3",
    prologue=split_fp16_prologue(fp32_wgmma_bf16x6.SPEC, clusters=True),
)
