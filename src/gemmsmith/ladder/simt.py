"""The rungs that run on CUDA cores: what each one teaches, how it may be configured, how it is launched.

The kernels themselves are the ``.cu`` files beside this one. A constraint is a function that returns why a
configuration is illegal, with the arithmetic; the same conditions are ``static_assert``s in the sources.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gemmsmith.kernel.budgets import (
    Count,
    column_threads,
    lane_outputs,
    no_smem,
    padded_slice_bytes,
    padded_slice_bytes_16_bit,
    pipeline_bytes,
    register_block_threads,
    row_slice_bytes,
    slice_bytes,
    square_threads,
    thread_outputs,
    thread_tile_threads,
    warp_tile_threads,
)
from gemmsmith.kernel.config import Config, Parameter, Preset
from gemmsmith.kernel.constraints import (
    DYNAMIC_SMEM,
    STATIC_SMEM,
    accumulators_fit,
    blocks_fit,
    code_fits,
    divides,
    equal_loads,
    smem_fits,
    warp_is_filled,
    whole_warps,
)
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import BF16, FP16, Problem, ceil_div

RTX_3050 = "RTX 3050 worklog"
RTX_4090 = "RTX 4090 worklog"
A6000 = "A6000 SGEMM document"
A6000_TWICE = "A6000 SGEMM document; A6000 profiling worklog"

# --- building blocks of a specification


def _launch(
    threads: Count, rows: str = "BM", cols: str = "BN", smem: Count = no_smem
) -> Callable[[Problem, Config], Geometry]:
    """One block per tile of C, numbered along x alone, as gridDim.y ends at 65,535; batches along z."""

    def geometry(problem: Problem, c: Config) -> Geometry:
        tiles = ceil_div(problem.m, c[rows]) * ceil_div(problem.n, c[cols])
        return Geometry(grid=(tiles, 1, problem.batch), block=(threads(c), 1, 1), smem=smem(c))

    return geometry


def _presets(parameters: tuple[Parameter, ...], *entries: tuple[str, dict[str, int], str]) -> tuple[Preset, ...]:
    """Presets from a name, what differs from the defaults, and where it was published."""
    defaults = {p.name: p.default for p in parameters}
    return tuple(Preset(name, Config(tuple((defaults | values).items())), where) for name, values, where in entries)


def _source(name: str) -> Path:
    return Path(__file__).with_name(name)


_TILES = (32, 64, 128, 256)


def _tile(side: int, legal: tuple[int, ...]) -> Parameter:
    return Parameter("TILE", side, legal, "rows and columns of C per block, and depth of a slice in k")


def _block_tile(bm: int, bn: int, bk: int, depths: tuple[int, ...] = (8, 16, 32)) -> tuple[Parameter, ...]:
    return (
        Parameter("BM", bm, _TILES, "rows of C per block"),
        Parameter("BN", bn, _TILES, "columns of C per block"),
        Parameter("BK", bk, depths, "depth of a slice in k"),
    )


def _thread_tile(tm: int, tn: int, rows: tuple[int, ...], cols: tuple[int, ...]) -> tuple[Parameter, ...]:
    return (
        Parameter("TM", tm, rows, "rows of C per thread tile"),
        Parameter("TN", tn, cols, "columns of C per thread tile"),
    )


def _warp_tile(wm: int, wn: int, wniter: int) -> tuple[Parameter, ...]:
    return (
        Parameter("WM", wm, (16, 32, 64, 128), "rows of C per warp"),
        Parameter("WN", wn, (16, 32, 64, 128), "columns of C per warp"),
        Parameter("WNITER", wniter, (1, 2, 4, 8), "thread tiles per thread along a row of the warp tile"),
    )


def _unroll(steps: int) -> Parameter:
    return Parameter("UNROLL", steps, (1, 2, 4, 8, 16), "steps of k per trip of the inner loop")


def _pad(elements: int, legal: tuple[int, ...], of: str) -> Parameter:
    return Parameter("PAD", elements, legal, f"elements added to each row of {of} in shared memory")


def _min_blocks(blocks: int) -> Parameter:
    legal = (1, 2, 3, 4, 5, 6, 8)
    return Parameter("MIN_BLOCKS", blocks, legal, "blocks whose registers must fit on one SM: caps registers")


# --- the rungs

_SQUARE = (_tile(32, (8, 16, 32)),)

NAIVE = KernelSpec(
    name="naive",
    rung=1,
    source=_source("01_naive.cu"),
    summary="one thread per output, a warp walking down a column",
    teaches="what uncoalesced access costs: a warp's loads of A are lda apart",
    parameters=_SQUARE,
    presets=_presets(_SQUARE, ("32x32", {}, RTX_4090)),
    geometry=_launch(square_threads, "TILE", "TILE"),
    layouts=("NN", "NT", "TN", "TT"),
)

COALESCED = KernelSpec(
    name="coalesced",
    rung=2,
    source=_source("02_coalesced.cu"),
    summary="one thread per output, a warp walking along a row",
    teaches="coalescing: swap / and %, and a warp's loads become one piece of 128 bytes",
    parameters=_SQUARE,
    presets=_presets(_SQUARE, ("32x32", {}, f"{RTX_4090}; called naive in {RTX_3050} and {A6000}")),
    geometry=_launch(square_threads, "TILE", "TILE"),
    layouts=("NN", "NT", "TN", "TT"),
)

SHARED_TILE = KernelSpec(
    name="shared_tile",
    rung=3,
    source=_source("03_shared_tile.cu"),
    summary="square slices of A and B staged in shared memory",
    teaches="reuse: a block loads each element once instead of TILE times",
    parameters=_SQUARE,
    presets=_presets(_SQUARE, ("32x32x32", {}, f"{RTX_3050}; {A6000}; {RTX_4090}")),
    geometry=_launch(square_threads, "TILE", "TILE"),
)

_REGISTER_BLOCK = (
    _tile(32, (16, 32, 64)),
    Parameter("SIDE", 2, (1, 2, 4, 8), "rows and columns of C per thread"),
)

REGISTER_BLOCK = KernelSpec(
    name="register_block",
    rung=4,
    source=_source("04_register_block.cu"),
    summary="a small square of outputs per thread",
    teaches="registers: each value read from shared memory is used SIDE times",
    parameters=_REGISTER_BLOCK,
    presets=_presets(_REGISTER_BLOCK, ("32-2x2", {}, RTX_3050)),
    constraints=(whole_warps("(TILE/SIDE)²", register_block_threads),),
    geometry=_launch(register_block_threads, "TILE", "TILE"),
)

_BLOCK_TILE_1D = (
    *_block_tile(64, 64, 8),
    Parameter("TM", 16, (4, 8, 16, 32), "rows of C per thread, in one column"),
    _min_blocks(6),
)

BLOCK_TILE_1D = KernelSpec(
    name="block_tile_1d",
    rung=5,
    source=_source("05_block_tile_1d.cu"),
    summary="a column of outputs per thread, from slices that are thin in k",
    teaches="a tile of C that is large against its slices: more arithmetic per byte of shared memory",
    parameters=_BLOCK_TILE_1D,
    presets=_presets(
        _BLOCK_TILE_1D,
        ("64x64x8-16", {}, "gemmsmith"),
        ("64x64x8-8", {"TM": 8, "MIN_BLOCKS": 3}, f"{A6000}; {RTX_4090}"),
    ),
    constraints=(
        whole_warps("BM·BN/TM", column_threads),
        equal_loads(column_threads, 1),
        smem_fits("4·(BM+BN)·BK", slice_bytes, STATIC_SMEM),
        blocks_fit(column_threads),
    ),
    geometry=_launch(column_threads),
)

_BLOCK_TILE_2D = (*_block_tile(64, 64, 8), *_thread_tile(8, 8, (2, 4, 8, 16), (2, 4, 8, 16)), _min_blocks(8))

BLOCK_TILE_2D = KernelSpec(
    name="block_tile_2d",
    rung=6,
    source=_source("06_block_tile_2d.cu"),
    summary="a rectangle of outputs per thread, as outer products in registers",
    teaches="arithmetic intensity: TM + TN loads feed TM·TN multiplications; guards only where needed",
    parameters=_BLOCK_TILE_2D,
    presets=_presets(
        _BLOCK_TILE_2D,
        ("64x64x8-8x8", {}, RTX_4090),
        ("128x128x8-8x8", {"BM": 128, "BN": 128, "MIN_BLOCKS": 2}, A6000_TWICE),
    ),
    constraints=(
        whole_warps("BM·BN/(TM·TN)", thread_tile_threads),
        equal_loads(thread_tile_threads, 1),
        smem_fits("4·(BM+BN)·BK", slice_bytes, STATIC_SMEM),
        blocks_fit(thread_tile_threads),
    ),
    geometry=_launch(thread_tile_threads),
)

_VECTORIZED = (
    *_block_tile(128, 128, 8),
    *_thread_tile(8, 8, (4, 8, 16), (4, 8, 16)),
    Parameter("VEC", 4, (1, 2, 4), "floats per global load and store"),
    _min_blocks(2),
)

VECTORIZED = KernelSpec(
    name="vectorized",
    rung=7,
    source=_source("07_vectorized.cu"),
    summary="float4 from global memory, A transposed into shared memory, float4 from there",
    teaches="wide accesses: a quarter of the load instructions for the same bytes",
    parameters=_VECTORIZED,
    presets=_presets(
        _VECTORIZED,
        ("128x128x8-8x8", {}, f"{A6000_TWICE}; {RTX_4090}"),
        ("64x64-4x4", {"BM": 64, "BN": 64, "BK": 16, "TM": 4, "TN": 4, "MIN_BLOCKS": 4}, RTX_3050),
    ),
    constraints=(
        whole_warps("BM·BN/(TM·TN)", thread_tile_threads),
        equal_loads(thread_tile_threads, "VEC"),
        smem_fits("4·(BM+BN)·BK", slice_bytes, STATIC_SMEM),
        blocks_fit(thread_tile_threads),
    ),
    geometry=_launch(thread_tile_threads),
)

_PADDED = (
    *_block_tile(128, 128, 8),
    *_thread_tile(8, 8, (4, 8, 16), (4, 8, 16)),
    _pad(4, (0, 1, 4, 8), "A, transposed,"),
    _min_blocks(2),
)

PADDED = KernelSpec(
    name="padded",
    rung=8,
    source=_source("08_padded.cu"),
    summary="rows of A in shared memory shifted by PAD banks, and deeper slices",
    teaches="bank conflicts: how a store that scatters through one bank is spread over many",
    parameters=_PADDED,
    presets=_presets(_PADDED, ("128x128x8-8x8", {}, A6000), ("128x128x16-8x8", {"BK": 16}, A6000)),
    constraints=(
        whole_warps("BM·BN/(TM·TN)", thread_tile_threads),
        equal_loads(thread_tile_threads, 4),
        smem_fits("4·(BM+PAD+BN)·BK", padded_slice_bytes, STATIC_SMEM),
        blocks_fit(thread_tile_threads),
    ),
    geometry=_launch(thread_tile_threads),
)

_WIDE = (4, 8, 16, 32, 64, 128)
_RECTANGULAR = (
    *_block_tile(64, 64, 64, (8, 16, 32, 64)),
    *_thread_tile(8, 4, (4, 8, 16), _WIDE),
    _unroll(4),
    _pad(4, (0, 4, 8), "A"),
    _min_blocks(3),
)

RECTANGULAR = KernelSpec(
    name="rectangular",
    rung=9,
    source=_source("09_rectangular.cu"),
    summary="thread tiles of any shape, A read along k, k unrolled by hand",
    teaches="the shape of a thread tile: operands to load against accumulators to hold",
    parameters=_RECTANGULAR,
    presets=_presets(_RECTANGULAR, ("64x64x64-8x4", {}, RTX_3050)),
    constraints=(
        divides("TN", "BN"),
        divides("UNROLL", "BK"),
        whole_warps("BM·BN/(TM·TN)", thread_tile_threads),
        equal_loads(thread_tile_threads, 4),
        smem_fits("4·(BM·(BK+PAD)+BK·BN)", row_slice_bytes, DYNAMIC_SMEM),
        accumulators_fit,
        code_fits("TM·TN·UNROLL", thread_outputs),
        blocks_fit(thread_tile_threads),
    ),
    geometry=_launch(thread_tile_threads, smem=row_slice_bytes),
)

_WARP_TILE = (
    *_block_tile(128, 128, 16),
    *_warp_tile(64, 64, 4),
    *_thread_tile(8, 4, (4, 8, 16), (4, 8)),
    _unroll(4),
    _pad(4, (0, 4, 8), "A, transposed,"),
    _min_blocks(2),
)
_WARP_TILE_CONSTRAINTS = (
    divides("WM", "BM"),
    divides("WN", "BN"),
    divides("UNROLL", "BK"),
    warp_is_filled,
    whole_warps("32·(BM/WM)·(BN/WN)", warp_tile_threads),
    code_fits("WM·WN/32·UNROLL", lane_outputs),
)
_64X32_WARPS = {"WN": 32, "WNITER": 1, "TN": 8, "UNROLL": 2}

WARP_TILE = KernelSpec(
    name="warp_tile",
    rung=10,
    source=_source("10_warp_tile.cu"),
    summary="a warp owns a compact rectangle, a thread a tile in each piece of it",
    teaches="a level between block and thread: fewer values read per warp, from neighbouring addresses",
    parameters=_WARP_TILE,
    presets=_presets(_WARP_TILE, ("64x64-8x4", {}, RTX_4090), ("64x32-8x8", _64X32_WARPS, A6000)),
    constraints=(
        *_WARP_TILE_CONSTRAINTS,
        equal_loads(warp_tile_threads, 4),
        smem_fits("4·(BM+PAD+BN)·BK", padded_slice_bytes, DYNAMIC_SMEM),
        blocks_fit(warp_tile_threads),
    ),
    geometry=_launch(warp_tile_threads, smem=padded_slice_bytes),
    epilogue=True,
    batched=True,
)

_ASYNC_COPY = (
    *_block_tile(64, 64, 16, (8, 16, 32, 64)),
    *_thread_tile(8, 4, (4, 8, 16), _WIDE),
    _unroll(16),
    _pad(4, (0, 4, 8), "A"),
    Parameter("STAGES", 2, (2, 3, 4), "slices in shared memory: one multiplied, the others on their way"),
    _min_blocks(4),
)

ASYNC_COPY = KernelSpec(
    name="async_copy",
    min_arch=80,  # cp.async
    rung=11,
    source=_source("11_async_copy.cu"),
    summary="cp.async fetches the next slices while this one is multiplied",
    teaches="overlap: copies that need neither registers nor waiting, and one barrier per slice",
    parameters=_ASYNC_COPY,
    presets=_presets(_ASYNC_COPY, ("64x64-8x4", {}, RTX_3050)),
    constraints=(
        divides("TN", "BN"),
        divides("UNROLL", "BK"),
        whole_warps("BM·BN/(TM·TN)", thread_tile_threads),
        equal_loads(thread_tile_threads, 4),
        smem_fits("STAGES·4·(BM·(BK+PAD)+BK·BN)", pipeline_bytes, DYNAMIC_SMEM),
        accumulators_fit,
        code_fits("TM·TN·UNROLL", thread_outputs),
        blocks_fit(thread_tile_threads),
    ),
    geometry=_launch(thread_tile_threads, smem=pipeline_bytes),
)

WARP_TILE_MIXED = KernelSpec(
    name="warp_tile_mixed",
    rung=12,
    source=_source("12_warp_tile_mixed.cu"),
    summary="fp16 or bf16 inputs, converted to fp32 in registers",
    teaches="half the bytes in memory, fp32 sums; and that CUDA cores are no faster for it",
    parameters=_WARP_TILE,
    presets=_presets(_WARP_TILE, ("64x64-8x4", {}, RTX_4090), ("64x32-8x8", _64X32_WARPS, f"{A6000}, in fp32")),
    constraints=(
        *_WARP_TILE_CONSTRAINTS,
        equal_loads(warp_tile_threads, 8),
        smem_fits("2·(BM+PAD+BN)·BK", padded_slice_bytes_16_bit, DYNAMIC_SMEM),
        blocks_fit(warp_tile_threads),
    ),
    geometry=_launch(warp_tile_threads, smem=padded_slice_bytes_16_bit),
    dtypes=(FP16, BF16),
)

LADDER = (
    NAIVE,
    COALESCED,
    SHARED_TILE,
    REGISTER_BLOCK,
    BLOCK_TILE_1D,
    BLOCK_TILE_2D,
    VECTORIZED,
    PADDED,
    RECTANGULAR,
    WARP_TILE,
    ASYNC_COPY,
    WARP_TILE_MIXED,
)
