"""Rung 24: fp32 products by three products of fp16, where the data allow it."""

from __future__ import annotations

from gemmsmith.kernel.config import Parameter
from gemmsmith.ladder import fp32_tensor_bf16x6
from gemmsmith.ladder.families import fp32_split
from gemmsmith.ladder.families.parameters import group, stages
from gemmsmith.ladder.rung import preset
from gemmsmith.prologue.split_fp16 import split_fp16_prologue

SPEC = fp32_split.rung(
    __name__,
    min_arch=80,  # cp.async
    summary="fp16x3: fp32 as two fp16 numbers, scaled by row and column, three products, where the data allow it",
    teaches="trading range for speed, and a check of the data, on the device, that says when not to",
    parameters=(
        *fp32_split.BLOCK_TILE,
        Parameter("BK_BYTES", 64, (32, 64, 128), "depth of a k-tile in bytes, of each part"),
        *fp32_split.warp_tile("two"),
        fp32_split.PROMOTE,
        stages(3, (3, 4, 5)),
        group(),
        fp32_split.MIN_BLOCKS,
    ),
    presets=(preset("128x128-32x64"), preset("128x128-64x64", WM=64)),
    small={"BM": 64, "BN": 64, "WM": 32, "WN": 32, "GROUP": 2},
    smem="STAGES*2*(BM+BN)*BK_BYTES",
    part_bytes=2,
    fragments="(WM/16+2)*8*(PROMOTE/16)",  # all of A, and 16 columns of B
    arithmetic="fp16x3",
    prologue=split_fp16_prologue(fp32_tensor_bf16x6.SPEC),
)
