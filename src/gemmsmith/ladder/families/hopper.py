"""The rungs for Hopper (sm_90a): their parameters, constraints and launches.

All take 16-bit operands in k-tiles of 64, which lie in shared memory as rows of 128 bytes. A row runs along k if the
operand is K-major, and along M or N otherwise; then a k-tile is a whole number of boxes of 64 x 64.
"""

from __future__ import annotations

from typing import Any

from gemmsmith.kernel.config import Parameter
from gemmsmith.kernel.constraints import LARGEST_SMEM, Requires
from gemmsmith.kernel.geometry import LaunchFormulas
from gemmsmith.kernel.spec import Constraint, KernelSpec
from gemmsmith.ladder.families import parameters as common
from gemmsmith.ladder.rung import ALL_LAYOUTS, make_rung
from gemmsmith.problem import BF16, FP16, FP32

WARPGROUP = 128  # threads
BOX = 64  # 16-bit elements in a row of a box
BOX_ROW = 128  # its bytes

# --- parameters


def block_tile(bm: int, bn: int) -> tuple[Parameter, ...]:
    return common.block_tile(bm, bn, (64, 128, 192, 256), tuple(range(16, 257, 16)))


def stages(default: int, legal: tuple[int, ...] = (2, 3, 4, 5, 6, 7, 8)) -> Parameter:
    return common.stages(default, legal)


def consumers(default: int) -> Parameter:
    return Parameter("CONSUMERS", default, (1, 2, 3), "consumer warpgroups")


def clusters(m: int, n: int) -> tuple[Parameter, ...]:
    return (
        Parameter("CLUSTER_M", m, (1, 2, 4), "blocks of a cluster along M, which share columns of B"),
        Parameter("CLUSTER_N", n, (1, 2, 4), "blocks of a cluster along N, which share rows of A"),
    )


GROUP = common.group((1, 2, 4, 6, 8, 12, 16))

# --- formulas

CONSUMER_THREADS = "128*(CONSUMERS+1)"  # with the producer warpgroup
_B_ROWS = "(BN if B_K_MAJOR else 64*ceil(BN/64))"
K_TILES = f"STAGES*(128*(BM+{_B_ROWS})+16)"  # bytes: per stage a k-tile of A, one of B, and two barriers
# The same of a cluster's block, which may have more than one k-tile in a stage.
_SHARED_ROWS = "(BN if (A_K_MAJOR if SWAP else B_K_MAJOR) else 64*ceil(BN/64))"
CLUSTER_K_TILES = f"STAGES*(DEPTH*128*(BM+{_SHARED_ROWS})+16)"
TILE_GRID = "ceil(M/BM)*ceil(N/BN)"
CLUSTER_BLOCKS = "CLUSTER_M*CLUSTER_N"
ACCUMULATORS = "BM*BN/(128*CONSUMERS)"  # of a consumer thread


def cluster_grid(width: str = "BN", rows: str = "M", cols: str = "N") -> str:
    """Blocks for tiles of BM rows and ``width`` columns, in whole clusters."""
    return f"ceil({rows}/(BM*CLUSTER_M))*ceil({cols}/({width}*CLUSTER_N))*{CLUSTER_BLOCKS}"


# --- constraints

ROWS_PER_CONSUMER = Requires(
    "BM % (64*CONSUMERS) == 0", "{BM} rows are not a multiple of 64 for each of {:CONSUMERS} consumers"
)
CLUSTER_SIZE = Requires("CLUSTER_M*CLUSTER_N <= 8", "{CLUSTER_M*CLUSTER_N} blocks in a cluster; 8 are the most")
CLUSTER_FITS = (
    CLUSTER_SIZE,
    Requires(
        "BM % (8*CLUSTER_N) == 0 and BN % (8*CLUSTER_M) == 0",
        "each block of a cluster loads a multiple of 8 rows: CLUSTER_N·8 must divide BM and CLUSTER_M·8 BN",
    ),
)


def accumulators_fit(*most: int) -> Requires:
    """At most so many accumulators per thread with one consumer, with two, with three: what registers allow."""
    allowed = f"select(CONSUMERS, {', '.join(map(str, most))})"
    return Requires(
        f"{ACCUMULATORS} <= {allowed}",
        f"{{{ACCUMULATORS}}} accumulators per thread, but with {{:CONSUMERS}} consumers {{:{allowed}}} fit into "
        "registers",
    )


# With two consumers a thread starts with 168 registers, and setmaxnreg raises a consumer's to 240; with three, 128 and
# 160.
WITH_SETMAXNREG = accumulators_fit(208, 208, 96)


def smem_fits(smem: str) -> Requires:
    """Of K-major operands; other layouts may need more, which is checked when the problem is known."""
    needed = smem.replace("A_K_MAJOR", "1").replace("B_K_MAJOR", "1").replace("OUT_BYTES", "2")
    return Requires(
        f"{needed} <= {LARGEST_SMEM}",
        f"{{STAGES*(BM+BN)*128}} B for k-tiles and what else it needs are {{:{needed}}} B of shared memory, "
        f"but a block has {LARGEST_SMEM:,} B",
    )


def rung(
    module: str,
    *,
    threads: str = CONSUMER_THREADS,
    smem: str = K_TILES,
    grid: str = TILE_GRID,
    cluster: str = "1",
    resident: str = "0",
    idle: str = "0",
    persistent: bool = False,
    constraints: tuple[Constraint, ...] = (),
    **fields: Any,
) -> KernelSpec:
    """A rung with programmatic dependent launch; work lies along x alone if it is ``persistent``. ``resident``: not 0
    where blocks wait for one another; ``idle``: not 0 where they should start on an idle GPU."""
    defaults: dict[str, Any] = {
        "dtypes": (FP16, BF16), "out_dtypes": (FP32, FP16, BF16), "layouts": ALL_LAYOUTS, "epilogue": True,
        "batched": True, "tensor_cores": True, "min_arch": 90, "arch_specific": 90,
        "align_copies": True,
    }  # fmt: skip
    launch = LaunchFormulas(
        threads,
        smem,
        f"{grid}*BATCH" if persistent else grid,
        "1" if persistent else "BATCH",
        cluster,
        pdl=True,
        resident=resident,
        idle=idle,
    )
    return make_rung(
        module,
        geometry=launch,
        persistent=persistent,
        constraints=(*constraints, smem_fits(smem)),
        **{**defaults, **fields},
    )
