"""The rungs that run on CUDA cores: one block per tile of C, and the sources of the published ones."""

from __future__ import annotations

from typing import Any

from gemmsmith.kernel.config import Parameter
from gemmsmith.kernel.constraints import (
    DYNAMIC_SMEM,
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
from gemmsmith.ladder.rung import make_rung

RTX_3050 = "RTX 3050 worklog"
RTX_4090 = "RTX 4090 worklog"
A6000 = "A6000 SGEMM document"
A6000_TWICE = "A6000 SGEMM document; A6000 profiling worklog"

TILE_GRID = "ceil(M/TILE)*ceil(N/TILE)"
THREAD_TILE = "BM*BN/(TM*TN)"  # threads of a block, each with one thread tile
WARP_TILE = "32*(BM/WM)*(BN/WN)"  # threads of a block, each warp with one warp tile
_SIDES = (32, 64, 128, 256)


def rung(
    module: str,
    *,
    parameters: tuple[Parameter, ...],
    threads: str,
    grid: str = "ceil(M/BM)*ceil(N/BN)",
    smem: str = "",
    static_smem: str = "",
    vector: int | str = 0,
    constraints: tuple[Constraint, ...] = (),
    **fields: Any,
) -> KernelSpec:
    """A rung with ``threads`` per block, and shared memory that is dynamic (``smem``) or declared (``static_smem``).

    ``vector``: elements of a global load, of which every thread has equally many per k-tile; 0 if that need not be.
    """
    return make_rung(
        module,
        parameters=parameters,
        constraints=(
            *constraints,
            whole_warps(threads),
            *(equal_loads(threads, vector) if vector else ()),
            *((smem_fits(static_smem, STATIC_SMEM),) if static_smem else ()),
            *((smem_fits(smem, DYNAMIC_SMEM),) if smem else ()),
            *((blocks_fit(threads),) if any(p.name == "MIN_BLOCKS" for p in parameters) else ()),
        ),
        geometry=LaunchFormulas(threads, smem or "0", grid),
        **fields,
    )


# --- parameters


def square_tile(side: int, legal: tuple[int, ...]) -> Parameter:
    return Parameter("TILE", side, legal, "rows and columns of C per block, and depth of a k-tile")


def block_tile(bm: int, bn: int, bk: int, depths: tuple[int, ...] = (8, 16, 32)) -> tuple[Parameter, ...]:
    return *common.block_tile(bm, bn, _SIDES, _SIDES), common.k_tile(bk, depths)


def padding(elements: int, legal: tuple[int, ...], matrix: str) -> Parameter:
    return Parameter("PAD", elements, legal, f"elements added to each row of {matrix} in shared memory")


def min_blocks(blocks: int) -> Parameter:
    return common.min_blocks(blocks, (1, 2, 3, 4, 5, 6, 8))


WARP_TILE_PARAMETERS = (
    *block_tile(128, 128, 16),
    *common.warp_tile(64, 64),
    Parameter("WNITER", 4, (1, 2, 4, 8), "thread tiles per thread along a row of the warp tile"),
    *common.thread_tile(8, 4, (4, 8, 16), (4, 8)),
    common.unroll(4),
    padding(4, (0, 4, 8), "A, transposed,"),
    min_blocks(2),
)

# --- constraints


def unrolled_fits(products: str) -> Requires:
    """The unrolled inner loop stays within half of a 128 KB instruction cache: 4096 instructions of 16 bytes."""
    return Requires(f"{products} <= 4096", f"{{{products}}} multiplications in a row, but at most 4096 may be unrolled")


# Spilling is an experiment worth making; beyond twice the registers, ptxas needs minutes for it.
ACCUMULATORS_FIT = Requires(
    "TM*TN <= 512", f"{{TM*TN}} accumulators, but a thread has {REGISTERS} registers; at most 512 are allowed"
)

# A warp tile is divided into WMITER x WNITER pieces, in each of which every lane has one thread tile. Then WMITER is
# WM*WN/(32*TM*TN*WNITER).
WARP_TILE_FITS: tuple[Constraint, ...] = (
    divides("WM", "BM"),
    divides("WN", "BN"),
    divides("UNROLL", "BK"),
    Requires(
        "WM*WN % (32*TM*TN*WNITER) == 0",
        "a warp tile has {WM*WN} outputs, which is not a multiple of {32*TM*TN*WNITER}",
    ),
    Requires(
        "WM*WN % (32*TM*TN*WNITER) != 0 or 32*TN*WNITER % WN == 0",
        "{WM} is not a multiple of WMITER·TM: {WM*WN/(32*TN*WNITER)}",
    ),
    Requires("WN % (WNITER*TN) == 0", "{WN} is not a multiple of {WNITER*TN}"),
    unrolled_fits("WM*WN/32*UNROLL"),
)
