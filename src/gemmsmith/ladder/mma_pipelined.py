"""Rung 15: a pipeline of cp.async stages and of fragments."""

from __future__ import annotations

from gemmsmith.ladder.families import tensor_core
from gemmsmith.ladder.families.parameters import ALIGNED, group, k_tile_bytes, stages, warp_tile
from gemmsmith.ladder.rung import preset
from gemmsmith.problem import BF16, FP16, FP32, INT8, INT32, TF32

SPEC = tensor_core.rung(
    __name__,
    min_arch=80,  # cp.async
    summary="a pipeline of cp.async stages and of fragments, in blocks ordered for L2",
    teaches="two pipelines, one inside the other: k-tiles arrive stages ahead, fragments one step ahead",
    parameters=(
        *tensor_core.BLOCK_TILE,
        k_tile_bytes(64, (64, 128)),
        *warp_tile(64, 64),
        stages(4, (3, 4, 5, 6)),
        group(),
        tensor_core.ROUND,
        ALIGNED,
        tensor_core.MIN_BLOCKS,
    ),
    presets=(
        preset("128x128-64x64"),
        preset("h200", BM=256, BK_BYTES=128, MIN_BLOCKS=1),
        preset("h200-tf32", BM=256, BK_BYTES=128, STAGES=3, MIN_BLOCKS=1),
    ),
    small={"BM": 64, "BN": 64, "BK_BYTES": 64, "WM": 32, "WN": 32, "STAGES": 3, "GROUP": 2},
    smem="STAGES*(BM+BN)*BK_BYTES",
    constraints=(tensor_core.CHUNKS_FIT,),
    dtypes=(FP16, BF16, TF32, INT8),
    out_dtypes=(FP32, FP16, BF16, INT32, INT8),
)
