"""Rung 22: fp32 products by six products of bf16."""

from __future__ import annotations

from gemmsmith.ladder.families import fp32_split
from gemmsmith.ladder.families.alignment import aligned_if_possible
from gemmsmith.ladder.families.parameters import ALIGNED, group, k_tile_bytes, stages
from gemmsmith.ladder.rung import preset

SPEC = fp32_split.rung(
    __name__,
    min_arch=80,  # cp.async
    summary="bf16x6: fp32 as three bf16 numbers, six products on tensor cores, fp32 accumulation outside",
    teaches="precision by hand: exact splitting, small products first, sums out of the tensor core before it truncates",
    parameters=(
        *fp32_split.BLOCK_TILE,
        k_tile_bytes(64, (64, 128)),
        *fp32_split.warp_tile("three"),
        fp32_split.PROMOTE,
        stages(4, (3, 4, 5)),
        group(),
        ALIGNED,
        fp32_split.MIN_BLOCKS,
    ),
    presets=(
        preset("128x128-32x64"),
        preset("128x128-64x64", WM=64, STAGES=3, MIN_BLOCKS=2),
    ),
    small={"BM": 64, "BN": 64, "WM": 32, "WN": 32, "STAGES": 3, "GROUP": 2},
    smem="STAGES*(BM+BN)*BK_BYTES",
    part_bytes=4,  # operands are split in registers
    fragments="WM/16*12*(PROMOTE/16)",  # of A; those of B come and go
    arithmetic="bf16x6",
    specialize=aligned_if_possible,
)
