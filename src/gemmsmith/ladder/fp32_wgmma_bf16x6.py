"""Rung 25: bf16x6 by wgmma."""

from __future__ import annotations

from gemmsmith.ladder.families import fp32_wgmma
from gemmsmith.ladder.rung import preset
from gemmsmith.prologue.split_bf16 import split_bf16_prologue

SPEC = fp32_wgmma.rung(
    __name__,
    parts=3,
    bn=128,
    stages=6,
    blocked=1,
    summary="bf16x6 by wgmma: fp32 split into three bf16 numbers once, in a launch before the product",
    teaches="as accurate as fp32 at twice its speed: a pass over the operands costs little beside the product",
    presets=(preset("128x128-2x1"), preset("128x192-2x1", BN=192, STAGES=5, BLOCKED_SUMS=0)),
    small={"BM": 64, "BN": 64, "STAGES": 3, "CONSUMERS": 1, "GROUP": 2},
    arithmetic="bf16x6",
    prologue=split_bf16_prologue,
)
