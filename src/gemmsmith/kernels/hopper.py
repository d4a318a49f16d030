"""The rungs that use what only Hopper has (sm_90a): the copy engine (TMA), warp-group products (wgmma) and clusters.

All take 16-bit operands in slices of 64 of k, which lie in shared memory as rows of 128 bytes. Such a row runs along k,
or along the other side, as the operand is stored; in the second case a slice is a whole number of boxes of 64 x 64.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gemmsmith.kernels.clear import FLAG_BYTES
from gemmsmith.kernels.constraints import divides, numbers
from gemmsmith.kernels.spec import Config, Constraint, Geometry, KernelSpec, Parameter, Preset, TensorMap
from gemmsmith.problem import BF16, FP16, FP32, Problem, ceil_div

LARGEST_SMEM = 227 * 1024  # of a block on sm_90
GROUP_THREADS = 128
BOX = 64  # 16-bit elements in a row of a box
BOX_ROW = 128  # its bytes
_BARRIERS = 16  # bytes: two for each stage
OURS = "gemmsmith"

# --- parameters

_BN = tuple(range(16, 257, 16))
_STAGES = (2, 3, 4, 5, 6, 7, 8)
_GROUPS = (1, 2, 4, 6, 8, 12, 16)


def _tile(bm: int, bn: int) -> tuple[Parameter, ...]:
    return (
        Parameter("BM", bm, (64, 128, 192, 256), "rows of C per block"),
        Parameter("BN", bn, _BN, "columns of C per block"),
    )


def _stages(default: int, legal: tuple[int, ...] = _STAGES) -> Parameter:
    return Parameter("STAGES", default, legal, "slices in shared memory: one multiplied, the others on their way")


def _consumers(default: int) -> Parameter:
    return Parameter("CONSUMERS", default, (1, 2, 3), "groups of 128 threads that multiply")


_GROUP = Parameter("GROUP", 8, _GROUPS, "rows of tiles that blocks go down together, for the cache's sake")
_TMA_STORE = Parameter(
    "TMA_STORE", 1, tuple(range(17)),
    "boxes of outputs a consumer hands to the copy engine at once: as many as fit, whatever is given. 0: it stores "
    "from registers, as it must where C's rows do not start on 16 bytes or outputs have 32 bits",
)  # fmt: skip

# --- what a configuration costs


def _value(c: Config, name: str, default: int = 1) -> int:
    return dict(c.values).get(name, default)


def _consumer_groups(c: Config) -> int:
    return _value(c, "CONSUMERS", c["BM"] // 64)


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
    return (c["BN"], c["BM"]) if _value(c, "SWAP", 0) else (c["BM"], c["BN"])


def _smem(c: Config, a_along_k: bool, b_along_k: bool) -> int:
    of_a, of_b = _rows(c)
    stage = _value(c, "DEPTH") * (_slice_bytes(of_a, a_along_k) + _slice_bytes(of_b, b_along_k))
    used = c["STAGES"] * (stage + _BARRIERS)
    used += _consumer_groups(c) * _value(c, "TMA_STORE", 0) * store_width(c) * BOX_ROW
    if "SPLIT" in dict(c.values):
        used += 4 * c["BM"] * (c["BN"] + 4) + _BARRIERS // 2
    return used


# --- constraints


def _smem_fits(c: Config) -> str | None:
    n = _smem(c, True, True)
    if n <= LARGEST_SMEM:
        return None
    text = "STAGES·(BM+BN)·128"
    return (
        f"{text} = {numbers(text, c)} B for slices and what else it needs are {n:,} B of shared memory, "
        f"but a block has {LARGEST_SMEM:,} B"
    )


def _rows_are_shared_out(c: Config) -> str | None:
    groups = _consumer_groups(c)
    if c["BM"] % (64 * groups) == 0:
        return None
    return f"BM = {c['BM']} rows are not a multiple of 64 for each of {groups} consumers"


def _sums_fit(most: dict[int, int]) -> Constraint:
    """``most`` sums a thread, by the number of consumers: what their registers leave."""

    def check(c: Config) -> str | None:
        groups, n = _consumer_groups(c), _sums(c)
        if n <= most[groups]:
            return None
        return (
            f"BM·BN/(128·{groups}) = {n} sums a thread, but with {groups} consumers {most[groups]} fit into registers"
        )

    return check


def _cluster_fits(c: Config) -> str | None:
    if c["CLUSTER_M"] * c["CLUSTER_N"] > 8:
        return f"a cluster of {c['CLUSTER_M']}·{c['CLUSTER_N']} blocks; 8 are the most"
    if c["BM"] // c["CLUSTER_N"] % 8 or c["BN"] // c["CLUSTER_M"] % 8:
        return "a part of a slice is a multiple of 8 rows: CLUSTER_N·8 must divide BM and CLUSTER_M·8 BN"
    return None


def _boxes_divide(c: Config) -> str | None:
    boxes = c["BN"] // store_width(c)
    if c["TMA_STORE"] == 0 or boxes % c["TMA_STORE"] == 0:
        return None
    return f"TMA_STORE = {c['TMA_STORE']} does not divide BN = {c['BN']} into its {boxes} boxes of {store_width(c)}"


# Registers: with two consumers 168 a thread at the start, and setmaxnreg raises a consumer's to 240; with three, 128
# and 160; without setmaxnreg (20) a thread keeps what its block starts with.
_SPECIALIZED = _sums_fit({1: 208, 2: 208, 3: 96})
_KEPT = _sums_fit({1: 192, 2: 128, 3: 64})
_EACH_64_ROWS = _sums_fit({1: 128, 2: 128, 3: 128, 4: 96})

# --- launches


def _grid(rows: int, cols: int, c: Config) -> int:
    return ceil_div(rows, c["BM"] * _value(c, "CLUSTER_M")) * ceil_div(cols, c["BN"] * _value(c, "CLUSTER_N"))


def _geometry(problem: Problem, c: Config, grid: tuple[int, int, int], cluster: int = 1) -> Geometry:
    smem = _smem(c, not problem.trans_a, problem.trans_b)
    return Geometry(grid, (_threads(c), 1, 1), smem, (cluster, 1, 1), early=True)


def _tile_a_block(problem: Problem, c: Config) -> Geometry:
    return _geometry(problem, c, (_grid(problem.m, problem.n, c), 1, problem.batch))


def _tiles_in_turn(problem: Problem, c: Config) -> Geometry:
    cluster = _value(c, "CLUSTER_M") * _value(c, "CLUSTER_N")
    return _geometry(problem, c, (_grid(problem.m, problem.n, c) * problem.batch * cluster, 1, 1), cluster)


def _slices_in_turn(problem: Problem, c: Config) -> Geometry:
    """A piece of work is as little as a slice."""
    cluster, slices = c["CLUSTER_M"] * c["CLUSTER_N"], max(1, ceil_div(problem.k, BOX))
    return _geometry(problem, c, (_grid(problem.m, problem.n, c) * problem.batch * slices * cluster, 1, 1), cluster)


def _tile_a_cluster(problem: Problem, c: Config) -> Geometry:
    rows, cols = (problem.n, problem.m) if c["SWAP"] else (problem.m, problem.n)
    return _geometry(problem, c, (_grid(rows, cols, c) * c["SPLIT"], 1, problem.batch), c["SPLIT"])


def _operand_map(operand: str, problem: Problem, rows: int, parts: int) -> TensorMap:
    """``rows`` of A or columns of B by 64 of k, loaded in ``parts``."""
    first = operand == "A"
    (height, width), ld = (problem.a_shape, problem.lda) if first else (problem.b_shape, problem.ldb)
    stride, copies = (problem.stride_a if first else problem.stride_b), problem.copies[0 if first else 1]
    along_k = not problem.trans_a if first else problem.trans_b
    size = problem.dtype.itemsize
    return TensorMap(operand, problem.dtype, (width, height, copies), (ld * size, stride * size),
                     (BOX, (rows if along_k else BOX) // parts, 1), BOX_ROW)  # fmt: skip


def _maps(problem: Problem, c: Config) -> dict[str, TensorMap]:
    of_a, of_b = _rows(c)
    return {
        "map_a": _operand_map("A", problem, of_a, _value(c, "CLUSTER_N")),
        "map_b": _operand_map("B", problem, of_b, _value(c, "CLUSTER_M")),
    }


def _maps_with_c(problem: Problem, c: Config) -> dict[str, TensorMap]:
    maps = _maps(problem, c)
    if c["TMA_STORE"]:
        size, width = problem.out_dtype.itemsize, store_width(c)
        strides = (problem.ldc * size, problem.stride_c * size)
        maps["map_c"] = TensorMap("C", problem.out_dtype, (problem.n, problem.m, problem.batch), strides,
                                  (width, BOX, 1), 2 * width)  # fmt: skip
    return maps


def _fit_store(config: Config, problem: Problem, addresses: tuple[int, int, int]) -> Config:
    """TMA_STORE: as many boxes as fit, or 0 where the copy engine cannot store to C.

    It writes whole pieces of 16 bytes: rows that do not end on one would lose what lies behind them.
    """
    size = problem.out_dtype.itemsize
    steps = (
        addresses[2], problem.n * size, problem.ldc * size if problem.m > 1 else 0,
        problem.stride_c * size if problem.batch > 1 else 0,
    )  # fmt: skip
    if config["TMA_STORE"] == 0 or size != 2 or any(step % 16 for step in steps):
        return _with(config, TMA_STORE=0)
    boxes = config["BN"] // store_width(config)
    for count in (n for n in range(boxes, 0, -1) if boxes % n == 0):
        fitted = _with(config, TMA_STORE=count)
        if _smem(fitted, not problem.trans_a, problem.trans_b) <= LARGEST_SMEM:
            return fitted
    return _with(config, TMA_STORE=0)


def _with(config: Config, **changes: int) -> Config:
    return Config(tuple((name, changes.get(name, value)) for name, value in config))


# --- the rungs


def _preset(name: str, parameters: tuple[Parameter, ...], **changes: int) -> Preset:
    return Preset(name, Config(tuple(({p.name: p.default for p in parameters} | changes).items())), OURS)


def _rung(number: int, name: str, **described: Any) -> KernelSpec:
    """What all of them have in common, and what one has besides."""
    return KernelSpec(
        name=name,
        rung=number,
        source=Path(__file__).with_name(f"{number}_{name}.cu"),
        dtypes=(FP16, BF16),
        out_dtypes=(FP32, FP16, BF16),
        layouts=("NN", "NT", "TN", "TT"),
        epilogue=True,
        batched=True,
        tensor_cores=True,
        min_arch=90,
        arch_specific=90,
        simulated=False,
        repacks=True,
        **described,
    )


_TMA = (*_tile(128, 256), _stages(4))

WGMMA_TMA = _rung(
    16,
    "wgmma_tma",
    summary="slices by the copy engine, products by wgmma straight from shared memory",
    teaches="Hopper: one thread asks for a slice, 128 multiply it, and nobody computes addresses",
    parameters=_TMA,
    presets=(_preset("128x256", _TMA),),
    constraints=(_EACH_64_ROWS, _smem_fits),
    geometry=_tile_a_block,
    tensor_maps=_maps,
)

_SPECIAL = (*_tile(128, 256), _stages(4), _consumers(2))

WGMMA_SPECIALIZED = _rung(
    17,
    "wgmma_specialized",
    summary="one group of threads asks for slices, the others multiply",
    teaches="producer and consumers that meet at barriers only; registers go where they are needed",
    parameters=_SPECIAL,
    presets=(_preset("128x256", _SPECIAL),),
    constraints=(_rows_are_shared_out, _SPECIALIZED, _smem_fits),
    geometry=_tile_a_block,
    tensor_maps=_maps,
)

_PERSISTENT = (*_SPECIAL, _GROUP, _TMA_STORE)

WGMMA_PERSISTENT = _rung(
    18,
    "wgmma_persistent",
    summary="a block for every SM goes from tile to tile, and the copy engine takes the outputs away",
    teaches="the next tile's slices arrive, and the last one's outputs leave, while tensor cores multiply",
    parameters=_PERSISTENT,
    presets=(_preset("128x256", _PERSISTENT),),
    constraints=(_rows_are_shared_out, _SPECIALIZED, _boxes_divide, _smem_fits),
    geometry=_tiles_in_turn,
    tensor_maps=_maps_with_c,
    fit=_fit_store,
    persistent=True,
)

_CLUSTERED = (
    *_SPECIAL,
    Parameter("CLUSTER_M", 2, (1, 2, 4), "blocks of a cluster above each other, which share columns of B"),
    Parameter("CLUSTER_N", 1, (1, 2, 4), "blocks of a cluster beside each other, which share rows of A"),
    _GROUP,
    _TMA_STORE,
)

WGMMA_CLUSTER = _rung(
    19,
    "wgmma_cluster",
    summary="blocks on neighbouring SMs load each slice once, for all of them",
    teaches="clusters and multicast: what is not moved costs no energy, and energy sets the clock",
    parameters=_CLUSTERED,
    presets=(
        _preset("128x256-2x1", _CLUSTERED),
        _preset("256x192-1x2", _CLUSTERED, BM=256, BN=192, STAGES=3, CLUSTER_M=1, CLUSTER_N=2),
    ),
    constraints=(_rows_are_shared_out, _SPECIALIZED, _cluster_fits, _boxes_divide, _smem_fits),
    geometry=_tiles_in_turn,
    tensor_maps=_maps_with_c,
    fit=_fit_store,
    persistent=True,
)

_SPLIT_K = (
    *_tile(64, 32),
    _stages(8, (2, 3, 4, 5, 6, 7, 8, 10, 12)),
    _consumers(1),
    Parameter("SPLIT", 4, (1, 2, 4, 8), "blocks that share K, in a cluster"),
    Parameter("SWAP", 0, (0, 1), "computes the transpose of C: for a C of few rows"),
    Parameter("DEPTH", 1, (1, 2, 4), "slices of a stage, which are asked for together"),
)

WGMMA_SPLIT_K = _rung(
    20,
    "wgmma_split_k",
    summary="blocks of a cluster share K and add up through each other's shared memory",
    teaches="small and deep products: enough blocks for all SMs, in an order of sums that never changes",
    parameters=_SPLIT_K,
    presets=(
        _preset("64x32-8", _SPLIT_K, SPLIT=8),
        _preset("skinny", _SPLIT_K, BN=16, SPLIT=2, SWAP=1),
    ),
    constraints=(_rows_are_shared_out, divides("SPLIT", "BM"), _KEPT, _smem_fits),
    geometry=_tile_a_cluster,
    tensor_maps=_maps,
)

_STREAM_K = tuple(replace(p, default={"BM": 256, "BN": 192, "STAGES": 3, "CLUSTER_M": 1, "CLUSTER_N": 2}.get(
    p.name, p.default)) for p in _CLUSTERED)  # fmt: skip
_MOST_BLOCKS = 144  # SMs of the largest chip with sm_90

WGMMA_STREAM_K = _rung(
    21,
    "wgmma_stream_k",
    summary="what would be a last wave of tiles is shared out by the slice",
    teaches="equal work for all SMs, for sums that take a way through memory",
    parameters=_STREAM_K,
    presets=(_preset("256x192-1x2", _STREAM_K),),
    constraints=(_rows_are_shared_out, _SPECIALIZED, _cluster_fits, _boxes_divide, _smem_fits),
    geometry=_slices_in_turn,
    tensor_maps=_maps_with_c,
    fit=_fit_store,
    persistent=True,
    scratch=FLAG_BYTES + _MOST_BLOCKS * 4 * 256 * 208,
)

LADDER = (WGMMA_TMA, WGMMA_SPECIALIZED, WGMMA_PERSISTENT, WGMMA_CLUSTER, WGMMA_SPLIT_K, WGMMA_STREAM_K)
