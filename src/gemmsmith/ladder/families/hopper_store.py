"""How the persistent rungs for Hopper store C: by TMA, by threads, or directly from registers.

TMA and threads store from boxes of 64 rows that consumers stage in shared memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

from gemmsmith.kernel.config import Config, Parameter
from gemmsmith.kernel.constraints import LARGEST_SMEM, Requires
from gemmsmith.kernel.expressions import evaluate
from gemmsmith.kernel.geometry import TensorMap
from gemmsmith.kernel.renamed import DIRECT, STORE_MODE_NAMES, THREADS, TMA
from gemmsmith.ladder.families.hopper import BOX, BOX_ROW, CLUSTER_K_TILES
from gemmsmith.ladder.families.hopper_maps import operand_maps
from gemmsmith.problem import Problem

STORE_MODE = Parameter(
    "STORE_MODE", TMA, (DIRECT, THREADS, TMA),
    "how outputs are stored: directly from registers, or staged in shared memory and written by threads or by TMA. "
    "C with rows that do not start on 16 bytes gets threads for tma, and direct if outputs have 32 bits; 32-bit "
    "outputs are stored by TMA only where there is SWAP",
    STORE_MODE_NAMES,
)  # fmt: skip


def store_boxes(most: int = 16) -> Parameter:
    return Parameter(
        "STORE_BOXES", 1, tuple(range(most + 1)),
        "boxes of outputs that a consumer stages at once; as many as fit are taken, whatever is given",
    )  # fmt: skip


STORE = (STORE_MODE, store_boxes())
TAIL_BN = Parameter(
    "TAIL_BN", 0, (0, 64, 128, 192),
    "columns of the tail tiles, at the right end of C, as many as make the last wave a short one; 0: all tiles have BN "
    "columns, as they have where outputs are not stored by TMA",
)  # fmt: skip

_BOX_BYTES = "gcd(BN, 64)*128"  # 64 rows of the widest box that divides BN, in 16-bit elements
STAGED = f"(CONSUMERS*STORE_BOXES*{_BOX_BYTES} if STORE_MODE else 0)"  # bytes of shared memory
# Of 16-bit and 32-bit outputs: 64 rows of at most 128 bytes. Of the transposed product: boxes of 8 rows by 64 columns
# of C, whatever the height of the tile.
_TRANSPOSED_ROWS, _MOST_BOXES = 8, 64
# Stores for 64 columns of a tile, above which a stage is given up for outputs; not with fewer stages than this, and not
# at a larger K.
_MOST_STORES, _LEAST_STAGES, _DEEPEST = 8, 4, 4096
_BOX_BYTES_OR_TRANSPOSED = f"({_TRANSPOSED_ROWS * BOX} if SWAP else {BOX}*gcd(BN, {BOX_ROW}//OUT_BYTES))*OUT_BYTES"
STAGED_OR_TRANSPOSED = f"(CONSUMERS*STORE_BOXES*{_BOX_BYTES_OR_TRANSPOSED} if STORE_MODE else 0)"
TAIL_BARRIERS = "(16 if TAIL_BN else 0)"

BOXES_DIVIDE = Requires(
    "STORE_MODE == 0 or STORE_BOXES > 0 and BN/gcd(BN, 64) % STORE_BOXES == 0",
    "{STORE_BOXES} does not divide the {:BN/gcd(BN, 64)} boxes of {:gcd(BN, 64)} columns that {BN} has",
)
_TRANSPOSED_WIDTH = f"({_TRANSPOSED_ROWS} if SWAP else gcd(BN, 64))"
TRANSPOSED_BOXES_DIVIDE = Requires(
    f"STORE_MODE == 0 or STORE_BOXES > 0 and (BN/{_TRANSPOSED_WIDTH} % STORE_BOXES == 0 or "
    "SWAP == 1 and STORE_BOXES % 2 == 0 and BN/8 % (STORE_BOXES//2) == 0 or "
    "SWAP == 0 and STORE_BOXES <= BN/gcd(BN, 32))",  # boxes of 32-bit outputs
    f"{{STORE_BOXES}} does not divide the {{:BN/{_TRANSPOSED_WIDTH}}} boxes of {{:{_TRANSPOSED_WIDTH}}} that {{BN}} "
    "has",
)
TAIL_FITS = (
    Requires("TAIL_BN < BN", "{TAIL_BN} columns are not fewer than {BN}"),
    Requires(f"TAIL_BN == 0 or BN % {BOX} == 0", f"TAIL_BN tiles come in boxes of {BOX}, so {{BN}} must be a multiple"),
)


def box_width(config: Config, out_bytes: int = 2) -> int:
    """Columns of a box of outputs: 128 bytes, or the largest smaller power of two that divides the tile."""
    return math.gcd(config["BN"], BOX_ROW // out_bytes)


def staged_boxes(config: Config, a_k_major: bool = True, b_k_major: bool = True, out_bytes: int = 2) -> int:
    """As many boxes of outputs at once as fit into shared memory and, of 16-bit outputs, divide the tile; 0 if none
    does."""
    names = {
        "TAIL_BN": 0,
        "SWAP": 0,
        "CLUSTER_M": 1,
        "DEPTH": 1,
        "A_K_MAJOR": int(a_k_major),
        "B_K_MAJOR": int(b_k_major),
    }
    names |= {"OUT_BYTES": out_bytes} | config.by_name
    free = LARGEST_SMEM - evaluate(f"{CLUSTER_K_TILES}+{TAIL_BARRIERS}", names)
    most = free // evaluate(f"CONSUMERS*{_BOX_BYTES_OR_TRANSPOSED}", names)
    if names["SWAP"]:
        return _transposed_boxes(config["BN"] // _TRANSPOSED_ROWS, most, config["BM"] > BOX * config["CONSUMERS"])
    boxes = config["BN"] // box_width(config, out_bytes)
    return next((count for count in range(min(boxes, most), 0, -1) if boxes % count == 0 or out_bytes == 4), 0)


@cache
def _transposed_boxes(boxes: int, most: int, several: bool) -> int:
    """Of ``boxes`` of 8 rows: all of them, twice where a consumer has several times 64 columns; else as many as fit of
    equal parts, or of two of them."""
    counts = {count for part in range(1, boxes + 1) if boxes % part == 0 for count in (part, 2 * part)}
    allowed = [count for count in counts if count <= most and (several or count <= boxes) and count <= _MOST_BOXES]
    return max(allowed, default=0)


def transposed_stores(config: Mapping[str, int], out_bytes: int) -> int:
    """TMA stores for 64 columns of a transposed tile with K-major operands; without asking the formulas, for speed."""
    stage = BOX_ROW * config.get("DEPTH", 1) * (config["BM"] + config["BN"]) + 16
    free = LARGEST_SMEM - config["STAGES"] * stage
    boxes = config["BN"] // _TRANSPOSED_ROWS
    most = free // (config["CONSUMERS"] * _TRANSPOSED_ROWS * BOX * out_bytes)
    staged = _transposed_boxes(boxes, most, config["BM"] > BOX * config["CONSUMERS"])
    return boxes // _boxes_of_a_store(staged, boxes) if staged else 0


def _boxes_of_a_store(staged: int, boxes: int) -> int:
    return staged // 2 if staged % 2 == 0 and boxes % (staged // 2) == 0 else staged


def boxes_of_a_store(config: Config) -> int:
    """Boxes of 8 rows that one TMA store takes: transposed_store.cuh."""
    return _boxes_of_a_store(config["STORE_BOXES"], config["BN"] // _TRANSPOSED_ROWS)


def _with_room_for_outputs(config: Config, a_k_major: bool, b_k_major: bool, out_bytes: int) -> Config:
    """With a stage less where transposed outputs would leave in many small stores: a tile of 136 rows has 17 boxes, so
    where not all of them fit, one is stored at a time. Measured on an H200: 3 to 44 % less time with eleven of twelve
    configurations at a K of 88 to 2944, 5 and 11 % more at 5520, where the stage counts for more than the stores."""
    boxes = config["BN"] // _TRANSPOSED_ROWS

    def stores(given: Config) -> int:
        staged = staged_boxes(given, a_k_major, b_k_major, out_bytes)
        return boxes // _boxes_of_a_store(staged, boxes) if staged else boxes

    if not config.get("SWAP", 0) or config["STAGES"] < _LEAST_STAGES or stores(config) <= _MOST_STORES:
        return config
    fewer = config.with_(STAGES=config["STAGES"] - 1)
    return fewer if stores(fewer) <= _MOST_STORES else config


def specialize_store(config: Config, problem: Problem, addresses: tuple[int, int, int]) -> Config:
    """The mode that C allows, with as many boxes as fit, and a stage less where those are far too few; tail tiles only
    where TMA stores.

    TMA writes whole chunks of 16 bytes: if rows do not end on one, it would overwrite what follows them. Threads, which
    write any row, have no registers left for tiles of two widths. Where blocks share a tile, outputs come from partial
    sums.
    """
    size = problem.out_dtype.itemsize
    mode = DIRECT if config.get("SLICES", 1) * config.get("CLUSTER_K", 1) > 1 else config["STORE_MODE"]
    by_tma = mode != DIRECT and (size == 2 or "SWAP" in config.by_name)
    if by_tma and problem.k <= _DEEPEST:
        config = _with_room_for_outputs(config, not problem.trans_a, problem.trans_b, size)
    boxes = staged_boxes(config, not problem.trans_a, problem.trans_b, size) if by_tma else 0
    if not boxes:
        return config.with_(STORE_MODE=DIRECT, STORE_BOXES=0, TAIL_BN=0)
    steps = (
        addresses[2], problem.n * size, problem.ldc * size if problem.m > 1 else 0,
        problem.stride_c * size if problem.batch > 1 else 0,
    )  # fmt: skip
    if mode == THREADS or any(step % 16 for step in steps):
        if config.get("SWAP", 0) or size == 4:
            return config.with_(STORE_MODE=DIRECT, STORE_BOXES=0, TAIL_BN=0)
        return config.with_(STORE_MODE=THREADS, STORE_BOXES=boxes, TAIL_BN=0)
    return config.with_(STORE_BOXES=boxes)


def maps_with_c(problem: Problem, config: Config) -> dict[str, TensorMap]:
    """The maps of A and B, and that of C if TMA stores it."""
    maps = operand_maps(problem, config)
    if config["STORE_MODE"] == TMA:
        swap = config.get("SWAP", 0)
        size = problem.out_dtype.itemsize
        whole = (BOX_ROW // size, _TRANSPOSED_ROWS * boxes_of_a_store(config)) if swap else None
        width, height = whole or (box_width(config, size), BOX)
        strides = (problem.ldc * size, problem.stride_c * size)
        maps["map_c"] = TensorMap("C", problem.out_dtype, (problem.n, problem.m, problem.batch), strides,
                                  (width, height, 1), size * width)  # fmt: skip
    return maps
