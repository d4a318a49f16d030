"""Rung 13: tensor cores through the wmma API."""

from __future__ import annotations

from gemmsmith.kernel.config import Parameter
from gemmsmith.ladder.families import tensor_core
from gemmsmith.ladder.families.parameters import ALIGNED, k_tile, warp_tile
from gemmsmith.ladder.rung import preset
from gemmsmith.problem import BF16, FP16, FP32

SPEC = tensor_core.rung(
    __name__,
    summary="16×16 fragments through the warp-matrix API of CUDA C++",
    teaches="tensor cores: a warp multiplies 16×16×16 in one call, with fp32 accumulators",
    parameters=(
        *tensor_core.BLOCK_TILE,
        k_tile(32, (16, 32, 64)),
        *warp_tile(64, 32),
        Parameter("PAD", 8, (0, 8, 16), "elements added to each row in shared memory"),
        ALIGNED,
        tensor_core.MIN_BLOCKS,
    ),
    presets=(preset("128x128x32-64x32"),),
    small={"BM": 64, "BN": 64, "BK": 16, "WM": 32, "WN": 32},
    static_smem="2*(BM+BN)*(BK+PAD)",  # of the layout that needs most: A and B both K-major
    vector=8,
    dtypes=(FP16, BF16),
    out_dtypes=(FP32, FP16, BF16),
)
