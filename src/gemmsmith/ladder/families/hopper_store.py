"""How the persistent rungs for Hopper store C: by TMA, by threads, or directly from registers.

TMA and threads store from boxes of 64 rows that consumers stage in shared memory.
"""

from __future__ import annotations

import math

from gemmsmith.kernel.config import Config, Parameter
from gemmsmith.kernel.constraints import LARGEST_SMEM, Requires
from gemmsmith.kernel.expressions import evaluate
from gemmsmith.kernel.geometry import TensorMap
from gemmsmith.kernel.renamed import DIRECT, STORE_MODE_NAMES, THREADS, TMA
from gemmsmith.ladder.families.hopper import BOX, K_TILES
from gemmsmith.ladder.families.hopper_maps import operand_maps
from gemmsmith.problem import Problem

STORE = (
    Parameter(
        "STORE_MODE", TMA, (DIRECT, THREADS, TMA),
        "how outputs are stored: directly from registers, or staged in shared memory and written by threads or by TMA. "
        "C with rows that do not start on 16 bytes gets threads for tma; 32-bit outputs are always stored directly",
        STORE_MODE_NAMES,
    ),
    Parameter(
        "STORE_BOXES", 1, tuple(range(17)),
        "boxes of outputs that a consumer stages at once; as many as fit are taken, whatever is given",
    ),
)  # fmt: skip
TAIL_BN = Parameter(
    "TAIL_BN", 0, (0, 64, 128, 192),
    "columns of the tail tiles, at the right end of C, as many as make the last wave a short one; 0: all tiles have BN "
    "columns, as they have where outputs are not stored by TMA",
)  # fmt: skip

_BOX_BYTES = "gcd(BN, 64)*128"  # 64 rows of the widest box that divides BN, in 16-bit elements
STAGED = f"(CONSUMERS*STORE_BOXES*{_BOX_BYTES} if STORE_MODE else 0)"  # bytes of shared memory
TAIL_BARRIERS = "(16 if TAIL_BN else 0)"

BOXES_DIVIDE = Requires(
    "STORE_MODE == 0 or STORE_BOXES > 0 and BN/gcd(BN, 64) % STORE_BOXES == 0",
    "{STORE_BOXES} does not divide the {:BN/gcd(BN, 64)} boxes of {:gcd(BN, 64)} columns that {BN} has",
)
TAIL_FITS = (
    Requires("TAIL_BN < BN", "{TAIL_BN} columns are not fewer than {BN}"),
    Requires(f"TAIL_BN == 0 or BN % {BOX} == 0", f"TAIL_BN tiles come in boxes of {BOX}, so {{BN}} must be a multiple"),
)


def box_width(config: Config) -> int:
    """Columns of a box of outputs: 64, or the largest smaller power of two that divides the tile."""
    return math.gcd(config["BN"], BOX)


def staged_boxes(config: Config, b_k_major: bool = True) -> int:
    """As many boxes of outputs at once as fit into shared memory and divide the tile; 0 if none does."""
    names = {"TAIL_BN": 0, "B_K_MAJOR": int(b_k_major)} | config.by_name
    free = LARGEST_SMEM - evaluate(f"{K_TILES}+{TAIL_BARRIERS}", names)
    most = free // evaluate(f"CONSUMERS*{_BOX_BYTES}", names)
    boxes = config["BN"] // box_width(config)
    return next((count for count in range(min(boxes, most), 0, -1) if boxes % count == 0), 0)


def specialize_store(config: Config, problem: Problem, addresses: tuple[int, int, int]) -> Config:
    """The mode that C allows, with as many boxes as fit; tail tiles only where TMA stores.

    TMA writes whole chunks of 16 bytes: if rows do not end on one, it would overwrite what follows them. Threads, which
    write any row, have no registers left for tiles of two widths.
    """
    size = problem.out_dtype.itemsize
    mode = config["STORE_MODE"]
    boxes = staged_boxes(config, problem.trans_b) if mode != DIRECT and size == 2 else 0
    if not boxes:
        return config.with_(STORE_MODE=DIRECT, STORE_BOXES=0, TAIL_BN=0)
    steps = (
        addresses[2], problem.n * size, problem.ldc * size if problem.m > 1 else 0,
        problem.stride_c * size if problem.batch > 1 else 0,
    )  # fmt: skip
    if mode == THREADS or any(step % 16 for step in steps):
        return config.with_(STORE_MODE=THREADS, STORE_BOXES=boxes, TAIL_BN=0)
    return config.with_(STORE_BOXES=boxes)


def maps_with_c(problem: Problem, config: Config) -> dict[str, TensorMap]:
    """The maps of A and B, and that of C if TMA stores it."""
    maps = operand_maps(problem, config)
    if config["STORE_MODE"] == TMA:
        size, width = problem.out_dtype.itemsize, box_width(config)
        strides = (problem.ldc * size, problem.stride_c * size)
        maps["map_c"] = TensorMap("C", problem.out_dtype, (problem.n, problem.m, problem.batch), strides,
                                  (width, BOX, 1), 2 * width)  # fmt: skip
    return maps
