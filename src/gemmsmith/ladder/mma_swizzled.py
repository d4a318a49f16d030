"""Rung 14: ldmatrix and mma.sync on swizzled shared memory."""

from __future__ import annotations

from gemmsmith.ladder.families import tensor_core
from gemmsmith.ladder.families.parameters import ALIGNED, k_tile_bytes, warp_tile
from gemmsmith.ladder.rung import preset
from gemmsmith.problem import BF16, FP16, FP32, INT8, INT32, TF32

SPEC = tensor_core.rung(
    __name__,
    min_arch=80,  # cp.async
    summary="ldmatrix and mma.sync on swizzled shared memory, one k-tile at a time",
    teaches="fragments by hand, and an XOR that puts eight rows into eight different banks without padding",
    parameters=(
        *tensor_core.BLOCK_TILE,
        k_tile_bytes(64, (32, 64, 128)),
        *warp_tile(64, 64),
        tensor_core.ROUND,
        ALIGNED,
        tensor_core.MIN_BLOCKS,
    ),
    presets=(preset("128x128-64x64"),),
    small={"BM": 64, "BN": 64, "BK_BYTES": 32, "WM": 32, "WN": 32},
    smem="(BM+BN)*BK_BYTES",
    constraints=(tensor_core.CHUNKS_FIT,),
    dtypes=(FP16, BF16, TF32, INT8),
    out_dtypes=(FP32, FP16, BF16, INT32, INT8),
)
