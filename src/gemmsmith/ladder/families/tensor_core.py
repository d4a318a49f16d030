"""The rungs on tensor cores from sm_80 on: ``wmma`` and ``mma.sync``.

Every mma.sync covers 32 bytes of k, whatever the type. So the depth of a k-tile is given in bytes (BK_BYTES), and a
configuration costs the same shared memory and registers for all types.
"""

from __future__ import annotations

from typing import Any

from gemmsmith.kernel.config import Parameter
from gemmsmith.kernel.constraints import (
    LARGEST_SMEM,
    REGISTERS,
    STATIC_SMEM,
    Requires,
    blocks_fit,
    divides,
    equal_loads,
    smem_fits,
    whole_warps,
)
from gemmsmith.kernel.geometry import LaunchFormulas
from gemmsmith.kernel.spec import Constraint, KernelSpec
from gemmsmith.ladder.families import parameters as common
from gemmsmith.ladder.families.alignment import CHUNK, aligned_if_possible
from gemmsmith.ladder.rung import ALL_LAYOUTS, make_rung

THREADS = "32*(BM/WM)*(BN/WN)"

ROUND = Parameter("ROUND", 1, (0, 1), "fp32 operands are rounded to tf32 (1) or truncated (0); other types ignore it")
MIN_BLOCKS = common.min_blocks(2, (1, 2, 3, 4))
BLOCK_TILE = common.block_tile(128, 128, (64, 128, 256), (64, 128, 256))

# A thread copies one 16-byte chunk of a row at a time. The longest row is that of a transposed fp32 operand.
CHUNKS_FIT = Requires(
    f"{THREADS} >= max(BM, BN)*4/{CHUNK}",
    f"a row of {{:max(BM, BN)}} fp32 numbers has {{:max(BM, BN)*4/{CHUNK}}} chunks of {CHUNK} bytes, "
    f"more than the {{:{THREADS}}} threads",
)


def rung(
    module: str,
    *,
    smem: str = "",
    static_smem: str = "",
    vector: int = 0,
    constraints: tuple[Constraint, ...] = (),
    **fields: Any,
) -> KernelSpec:
    """A rung whose blocks each compute one tile of C.

    ``vector``: elements of a global load, of which every thread has equally many per k-tile; 0 if that need not be.
    """
    return make_rung(
        module,
        constraints=(
            divides("WM", "BM"),
            divides("WN", "BN"),
            whole_warps(THREADS),
            Requires(
                "WM*WN/32 <= 128",
                f"{{WM*WN/32}} accumulators per lane, but a thread has {REGISTERS} registers, and fragments and "
                "addresses need about a hundred; at most 128 are allowed",
            ),
            blocks_fit(THREADS),
            *(equal_loads(THREADS, vector) if vector else ()),
            *((smem_fits(static_smem, STATIC_SMEM),) if static_smem else ()),
            *((smem_fits(smem, LARGEST_SMEM),) if smem else ()),
            *constraints,
        ),
        geometry=LaunchFormulas(THREADS, smem or "0"),
        layouts=ALL_LAYOUTS,
        epilogue=True,
        batched=True,
        tensor_cores=True,
        specialize=aligned_if_possible,
        **fields,
    )
