"""What the rungs for Hopper (sm_90a) have in common: their parameters, what a configuration costs, launches, maps.

All take 16-bit operands in slices of 64 of k, which lie in shared memory as rows of 128 bytes. Such a row runs along k,
or along the other side, as the operand is stored; in the second case a slice is a whole number of boxes of 64 x 64.
"""

from __future__ import annotations

from gemmsmith.gpus import architecture
from gemmsmith.kernel.config import Config, Parameter, Preset
from gemmsmith.kernel.constraints import numbers
from gemmsmith.kernel.geometry import Geometry, TensorMap
from gemmsmith.kernel.spec import Constraint
from gemmsmith.problem import Problem, ceil_div

LARGEST_SMEM = architecture(90).smem_per_block
GROUP_THREADS = 128
BOX = 64  # 16-bit elements in a row of a box
BOX_ROW = 128  # its bytes
_BARRIERS = 16  # bytes: two for each stage
OURS = "gemmsmith"

# --- parameters

_BN = tuple(range(16, 257, 16))
_STAGES = (2, 3, 4, 5, 6, 7, 8)
_GROUPS = (1, 2, 4, 6, 8, 12, 16)


def tile(bm: int, bn: int) -> tuple[Parameter, ...]:
    return (
        Parameter("BM", bm, (64, 128, 192, 256), "rows of C per block"),
        Parameter("BN", bn, _BN, "columns of C per block"),
    )


def stages(default: int, legal: tuple[int, ...] = _STAGES) -> Parameter:
    return Parameter("STAGES", default, legal, "slices in shared memory: one multiplied, the others on their way")


def consumers(default: int) -> Parameter:
    return Parameter("CONSUMERS", default, (1, 2, 3), "groups of 128 threads that multiply")


GROUP = Parameter("GROUP", 8, _GROUPS, "rows of tiles that blocks go down together, for the cache's sake")
TMA_STORE = Parameter(
    "TMA_STORE", 1, tuple(range(-16, 17)),
    "boxes of outputs a consumer hands to the copy engine at once: as many as fit, whatever is given. Below 0: threads "
    "write so many, as they must where C's rows do not start on 16 bytes. 0: outputs are stored from registers, as "
    "those of 32 bits are",
)  # fmt: skip

TAIL_BN = Parameter(
    "TAIL_BN", 0, (0, 64, 128, 192),
    "columns of the tiles at the right end of C, as many as make the last wave a short one; 0: all have BN, and so "
    "they have where the copy engine does not store",
)  # fmt: skip

# --- what a configuration costs


def value_of(c: Config, name: str, default: int = 1) -> int:
    return dict(c.values).get(name, default)


def _consumer_groups(c: Config) -> int:
    return value_of(c, "CONSUMERS", c["BM"] // 64)


def _threads(c: Config) -> int:
    """Of 16, where every group multiplies, and of the others, which have a producer as well."""
    producer = "CONSUMERS" in dict(c.values)
    return GROUP_THREADS * (_consumer_groups(c) + producer)


def _sums(c: Config) -> int:
    """Sums a consumer thread holds."""
    return c["BM"] * c["BN"] // (_consumer_groups(c) * GROUP_THREADS)


def _slice_bytes(rows: int, k_major: bool) -> int:
    return BOX_ROW * (rows if k_major else BOX * ceil_div(rows, BOX))


def store_width(c: Config) -> int:
    """Columns of a box of outputs: 64, or what divides the tile."""
    return next(width for width in (64, 32, 16) if c["BN"] % width == 0)


def _rows(c: Config) -> tuple[int, int]:
    """Rows of A's slice and columns of B's."""
    return (c["BN"], c["BM"]) if value_of(c, "SWAP", 0) else (c["BM"], c["BN"])


def loose_operands(c: Config) -> str:
    """'A' or 'B', whose rows may start anywhere; 'AB' where those of both may, '' where there is none."""
    values = dict(c.values)
    return ("", "AB"[values.get("SWAP", 0)], "AB")[values.get("UNALIGNED_OPERANDS", 0)]


def _loose_bytes(c: Config, along_k: bool) -> int:
    """Of a stage of the high operand: lines with 16 bytes more than they would have if they started on 16 bytes."""
    depth = BOX * value_of(c, "DEPTH")
    lines, length = (c["BM"], depth) if along_k else (depth, c["BM"])
    return lines * (2 * length + 16)


def smem_bytes(c: Config, a_along_k: bool, b_along_k: bool) -> int:
    of_a, of_b = _rows(c)
    depth, slices = value_of(c, "DEPTH"), [_slice_bytes(of_a, a_along_k), _slice_bytes(of_b, b_along_k)]
    stage = depth * sum(slices)
    if value_of(c, "UNALIGNED_OPERANDS", 0):
        number = value_of(c, "SWAP", 0)  # the low operand lies as the copy engine would have written it
        stage = depth * slices[1 - number] + _loose_bytes(c, (a_along_k, b_along_k)[number])
    used = c["STAGES"] * (stage + _BARRIERS) + (_BARRIERS if value_of(c, "TAIL_BN", 0) else 0)
    used += _consumer_groups(c) * abs(value_of(c, "TMA_STORE", 0)) * store_width(c) * BOX_ROW
    if "SPLIT" in dict(c.values):
        used += 4 * c["BM"] * (c["BN"] + 4) + _BARRIERS // 2
    return used


# --- constraints


def smem_fits(c: Config) -> str | None:
    n = smem_bytes(c, True, True)
    if n <= LARGEST_SMEM:
        return None
    text = "STAGES·(BM+BN)·128"
    return (
        f"{text} = {numbers(text, c)} B for slices and what else it needs are {n:,} B of shared memory, "
        f"but a block has {LARGEST_SMEM:,} B"
    )


def rows_are_shared_out(c: Config) -> str | None:
    groups = _consumer_groups(c)
    if c["BM"] % (64 * groups) == 0:
        return None
    return f"BM = {c['BM']} rows are not a multiple of 64 for each of {groups} consumers"


def sums_fit(most: dict[int, int]) -> Constraint:
    """``most`` sums a thread, by the number of consumers: what their registers leave."""

    def check(c: Config) -> str | None:
        groups, n = _consumer_groups(c), _sums(c)
        if n <= most[groups]:
            return None
        return (
            f"BM·BN/(128·{groups}) = {n} sums a thread, but with {groups} consumers {most[groups]} fit into registers"
        )

    return check


# Sums and fragments of a loose operand, by the number of consumers: more spill, or the products wait for each other.
_WITH_FRAGMENTS = {1: 224, 2: 136, 3: 80}
# Registers of a thread that brings loose operands, for addresses of the high one and granules of the low one.
_BROUGHT = {1: 128, 2: 96, 3: 64}


def fragments_fit(c: Config) -> str | None:
    groups = _consumer_groups(c)
    fragments = 16 * (c["BM"] // 64 // groups) * min(2, c["DEPTH"]) if c["UNALIGNED_OPERANDS"] else 0
    most = _WITH_FRAGMENTS[groups]
    if not fragments or _sums(c) + fragments <= most:
        return None
    return (
        f"{_sums(c)} sums and {fragments} registers of a loose operand a thread, but with {groups} consumers {most} fit"
    )


def brought_fit(c: Config) -> str | None:
    if not c["UNALIGNED_OPERANDS"]:
        return None
    text = "BM·DEPTH/4" if c["UNALIGNED_OPERANDS"] == 1 else "(BM+2·BN)·DEPTH/4"
    brought = (c["BM"] + (2 * c["BN"] if c["UNALIGNED_OPERANDS"] == 2 else 0)) * c["DEPTH"] // 4
    groups, most = _consumer_groups(c), _BROUGHT[_consumer_groups(c)]
    if brought <= most:
        return None
    return (
        f"a thread that brings loose operands holds {text} = {numbers(text, c)} = {brought} registers of them, "
        f"but with {groups} consumers {most} fit"
    )


def cluster_fits(c: Config) -> str | None:
    if c["CLUSTER_M"] * c["CLUSTER_N"] > 8:
        return f"a cluster of {c['CLUSTER_M']}·{c['CLUSTER_N']} blocks; 8 are the most"
    if c["BM"] // c["CLUSTER_N"] % 8 or c["BN"] // c["CLUSTER_M"] % 8:
        return "a part of a slice is a multiple of 8 rows: CLUSTER_N·8 must divide BM and CLUSTER_M·8 BN"
    return None


def boxes_divide(c: Config) -> str | None:
    boxes = c["BN"] // store_width(c)
    if c["TMA_STORE"] == 0 or boxes % c["TMA_STORE"] == 0:
        return None
    return f"TMA_STORE = {c['TMA_STORE']} does not divide BN = {c['BN']} into its {boxes} boxes of {store_width(c)}"


def narrow_fits(c: Config) -> str | None:
    if not c["TAIL_BN"]:
        return None
    if c["TAIL_BN"] >= c["BN"]:
        return f"TAIL_BN = {c['TAIL_BN']} columns are not fewer than BN = {c['BN']}"
    return None if c["BN"] % BOX == 0 else f"TAIL_BN tiles come in boxes of {BOX}, so BN = {c['BN']} must be a multiple"


# Registers: with two consumers 168 a thread at the start, and setmaxnreg raises a consumer's to 240; with three, 128
# and 160; without setmaxnreg (20) a thread keeps what its block starts with.
SPECIALIZED = sums_fit({1: 208, 2: 208, 3: 96})
KEPT = sums_fit({1: 192, 2: 128, 3: 64})
EACH_64_ROWS = sums_fit({1: 128, 2: 128, 3: 128, 4: 96})

# --- launches


def _grid(rows: int, cols: int, c: Config) -> int:
    """Of a tile that may be narrow, the most there can be."""
    width = value_of(c, "TAIL_BN", 0) or c["BN"]
    return ceil_div(rows, c["BM"] * value_of(c, "CLUSTER_M")) * ceil_div(cols, width * value_of(c, "CLUSTER_N"))


def _geometry(problem: Problem, c: Config, grid: tuple[int, int, int], cluster: int = 1) -> Geometry:
    smem = smem_bytes(c, not problem.trans_a, problem.trans_b)
    return Geometry(grid, (_threads(c), 1, 1), smem, (cluster, 1, 1), early=True)


def tile_a_block(problem: Problem, c: Config) -> Geometry:
    return _geometry(problem, c, (_grid(problem.m, problem.n, c), 1, problem.batch))


def tiles_in_turn(problem: Problem, c: Config) -> Geometry:
    cluster = value_of(c, "CLUSTER_M") * value_of(c, "CLUSTER_N")
    return _geometry(problem, c, (_grid(problem.m, problem.n, c) * problem.batch * cluster, 1, 1), cluster)


def slices_in_turn(problem: Problem, c: Config) -> Geometry:
    """A piece of work is as little as a slice."""
    cluster, slices = c["CLUSTER_M"] * c["CLUSTER_N"], max(1, ceil_div(problem.k, BOX))
    return _geometry(problem, c, (_grid(problem.m, problem.n, c) * problem.batch * slices * cluster, 1, 1), cluster)


def tile_a_cluster(problem: Problem, c: Config) -> Geometry:
    rows, cols = (problem.n, problem.m) if c["SWAP"] else (problem.m, problem.n)
    return _geometry(problem, c, (_grid(rows, cols, c) * c["SPLIT"] * c["CLUSTERS"], 1, problem.batch), c["SPLIT"])


def _operand_map(operand: str, problem: Problem, rows: int, parts: int) -> TensorMap:
    """``rows`` of A or columns of B by 64 of k, loaded in ``parts``."""
    first = operand == "A"
    (height, width), ld = (problem.a_shape, problem.lda) if first else (problem.b_shape, problem.ldb)
    stride, copies = (problem.stride_a if first else problem.stride_b), problem.copies[0 if first else 1]
    along_k = not problem.trans_a if first else problem.trans_b
    size = problem.dtype.itemsize
    return TensorMap(operand, problem.dtype, (width, height, copies), (ld * size, stride * size),
                     (BOX, (rows if along_k else BOX) // parts, 1), BOX_ROW)  # fmt: skip


def operand_maps(problem: Problem, c: Config) -> dict[str, TensorMap]:
    of_a, of_b = _rows(c)
    maps = {
        "map_a": _operand_map("A", problem, of_a, value_of(c, "CLUSTER_N")),
        "map_b": _operand_map("B", problem, BOX if value_of(c, "TAIL_BN", 0) else of_b, value_of(c, "CLUSTER_M")),
    }
    return {name: its for name, its in maps.items() if its.operand not in loose_operands(c)}


def maps_with_c(problem: Problem, c: Config) -> dict[str, TensorMap]:
    maps = operand_maps(problem, c)
    if c["TMA_STORE"] > 0:
        size, width = problem.out_dtype.itemsize, store_width(c)
        strides = (problem.ldc * size, problem.stride_c * size)
        maps["map_c"] = TensorMap("C", problem.out_dtype, (problem.n, problem.m, problem.batch), strides,
                                  (width, BOX, 1), 2 * width)  # fmt: skip
    return maps


def fit_store(config: Config, problem: Problem, addresses: tuple[int, int, int]) -> Config:
    """TMA_STORE: as many boxes as fit, below 0 where the copy engine cannot store to C, 0 for outputs of 32 bits.

    It writes whole pieces of 16 bytes: rows that do not end on one would lose what lies behind them. What threads write
    they write anywhere, so below 0 it stays. They have no registers left for tiles of two widths: TAIL_BN is for outputs
    that the copy engine stores.
    """
    size = problem.out_dtype.itemsize
    steps = (
        addresses[2], problem.n * size, problem.ldc * size if problem.m > 1 else 0,
        problem.stride_c * size if problem.batch > 1 else 0,
    )  # fmt: skip
    sign = -1 if config["TMA_STORE"] < 0 or any(step % 16 for step in steps) else 1
    boxes = staged_boxes(config, not problem.trans_a, problem.trans_b) if config["TMA_STORE"] and size == 2 else 0
    return _with(config, TMA_STORE=sign * boxes, **({} if sign * boxes > 0 else {"TAIL_BN": 0}))


def staged_boxes(config: Config, a_along_k: bool = True, b_along_k: bool = True) -> int:
    """As many boxes of outputs at once as fit into shared memory and divide the tile; 0 where none does."""
    boxes = config["BN"] // store_width(config)
    for count in (n for n in range(boxes, 0, -1) if boxes % n == 0):
        if smem_bytes(_with(config, TMA_STORE=count), a_along_k, b_along_k) <= LARGEST_SMEM:
            return count
    return 0


def _with(config: Config, **changes: int) -> Config:
    return Config(tuple((name, changes.get(name, value)) for name, value in config))


def preset(name: str, parameters: tuple[Parameter, ...], **changes: int) -> Preset:
    return Preset(name, Config(tuple(({p.name: p.default for p in parameters} | changes).items())), OURS)
