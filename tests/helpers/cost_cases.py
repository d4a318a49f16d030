"""The cost model of the wgmma kernels, one configuration at a time."""

from __future__ import annotations

from gemmsmith.choose.columns import shape_of, tiles_of
from gemmsmith.choose.constants import Constants
from gemmsmith.choose.cost import predicted_seconds
from gemmsmith.choose.waves import chip_of
from gemmsmith.gpus import gpu_named
from gemmsmith.problem import BF16, Problem

CHIP = chip_of(gpu_named("H200"))
SQUARE = Problem(4096, 4096, 4096, BF16, BF16)
LARGE = {"BM": 128, "BN": 256, "STAGES": 4, "CONSUMERS": 2, "CLUSTER_M": 2, "CLUSTER_N": 1, "GROUP": 8}
STAGED = {"BM": 128, "BN": 192, "STAGES": 3, "CONSUMERS": 2, "CLUSTER_M": 2, "CLUSTER_N": 1, "GROUP": 8,
          "STORE_MODE": 2, "STORE_BOXES": 1}  # fmt: skip
SPLIT = {"BM": 64, "BN": 64, "STAGES": 4, "CONSUMERS": 1, "SPLIT": 4, "SWAP": 0}
# Everything is fast except what a test is about.
FAST = Constants(clock=1e14, dram=1e17, l2=1e17, ingress=1e16, latency=1e-12, step=1e-13, tile=1e-12, store=1e16,
                 launch=1e-12, reduction=1e-12, slices=1e-12, partials=1e16, capped_flops=1e20,
                 capped_bytes=1e18, capped_dram=1e18, output=1e-20, tma_store=1e-14, direct=1e16,
                 drain=1e18)  # fmt: skip
FITTED = Constants(
    clock=1.42e9, l2=1.4e13, ingress=1.5e11, capped_flops=1e17, capped_bytes=1e16, capped_dram=1e16
)  # about what an H200 has


def seconds(problem: Problem, config: dict[str, int], unaligned: int = 0, constants: Constants | None = None) -> float:
    return float(predicted_seconds(shape_of(problem, unaligned), tiles_of([config]), CHIP, constants or Constants())[0])
