"""The rungs that compute fp32 products on tensor cores by mma.sync of 16-bit parts, as accurately as fp32."""

from __future__ import annotations

from typing import Any

from gemmsmith.kernel.config import Parameter
from gemmsmith.kernel.constraints import LARGEST_SMEM, REGISTERS, Requires, blocks_fit, divides, smem_fits, whole_warps
from gemmsmith.kernel.geometry import LaunchFormulas
from gemmsmith.kernel.spec import Constraint, KernelSpec
from gemmsmith.ladder.families import parameters as common
from gemmsmith.ladder.families.alignment import CHUNK
from gemmsmith.ladder.rung import ALL_LAYOUTS, make_rung
from gemmsmith.problem import FP32

_THREADS = "32*(BM/WM)*(BN/WN)"

BLOCK_TILE = common.block_tile(128, 128, (64, 128, 256), (64, 128, 256))
PROMOTE = Parameter("PROMOTE", 16, (16, 32), "depth in k after which sums leave the tensor core's accumulators")
MIN_BLOCKS = common.min_blocks(1, (1, 2, 3))


def warp_tile(parts: str) -> tuple[Parameter, ...]:
    return (
        Parameter("WM", 32, (16, 32, 64), f"rows of C per warp, whose {parts} parts stay in registers"),
        Parameter("WN", 64, (32, 64, 128), "columns of C per warp, 16 at a time"),
    )


def rung(
    module: str, *, smem: str, part_bytes: int, fragments: str, constraints: tuple[Constraint, ...] = (), **fields: Any
) -> KernelSpec:
    """``part_bytes``: of a number in shared memory. ``fragments``: registers per lane that hold parts of A and B."""
    chunks = f"max(BM, BN)*{part_bytes}/{CHUNK}"
    return make_rung(
        module,
        constraints=(
            divides("WM", "BM"),
            divides("WN", "BN"),
            whole_warps(_THREADS),
            Requires(
                f"WM*WN/32+{fragments} <= 176",
                f"{{WM*WN/32}} accumulators per lane and {{{fragments}}} registers of split operands, but a thread has "
                f"{REGISTERS}, and about eighty are needed besides; at most 176 are allowed",
            ),
            Requires(
                f"BK_BYTES/{part_bytes} >= PROMOTE",
                f"a k-tile of {{BK_BYTES}} is {{:BK_BYTES/{part_bytes}}} deep, less than {{PROMOTE}}",
            ),
            Requires(  # a thread copies one chunk of a row at a time; rows of transposed operands are the longest
                f"({_THREADS}) % ({chunks}) == 0",
                f"a row of {{:max(BM, BN)}} numbers has {{:{chunks}}} chunks of {CHUNK} bytes, which do not divide "
                f"{{:{_THREADS}}} threads",
            ),
            smem_fits(smem, LARGEST_SMEM),
            blocks_fit(_THREADS),
            *constraints,
        ),
        geometry=LaunchFormulas(_THREADS, smem),
        dtypes=(FP32,),
        out_dtypes=(FP32,),
        layouts=ALL_LAYOUTS,
        epilogue=True,
        batched=True,
        tensor_cores=True,
        **fields,
    )
