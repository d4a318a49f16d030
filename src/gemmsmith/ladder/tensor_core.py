"""The rungs that run on tensor cores from sm_80 on: what each teaches, how it may be configured, how it is launched.

Every mma.sync goes through 32 bytes of k, whatever the type, so the depth of a slice is given in bytes (BK_BYTES) and a
configuration costs the same shared memory and registers for all types.
"""

from __future__ import annotations

from pathlib import Path

from gemmsmith.gpus import largest_smem
from gemmsmith.kernel.budgets import lane_outputs, warp_tile_threads
from gemmsmith.kernel.config import Config, Parameter, Preset
from gemmsmith.kernel.constraints import (
    STATIC_SMEM,
    blocks_fit,
    divides,
    equal_loads,
    numbers,
    smem_fits,
    whole_warps,
)
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import Constraint, KernelSpec
from gemmsmith.problem import BF16, FP16, FP32, INT8, INT32, TF32, Problem, ceil_div

LARGEST_SMEM = largest_smem()  # what a block may ask for on sm_90 and sm_100; sm_86, sm_89 and sm_120 allow 99 KB
CHUNK = 16  # bytes that one copy moves, and that a fast path needs rows to start on
OURS = "gemmsmith"

# --- building blocks of a specification


def _tile(sides: tuple[int, ...] = (64, 128, 256)) -> tuple[Parameter, ...]:
    return (
        Parameter("BM", 128, sides, "rows of C per block"),
        Parameter("BN", 128, sides, "columns of C per block"),
    )


def _warp(wm: int, wn: int) -> tuple[Parameter, ...]:
    return (
        Parameter("WM", wm, (16, 32, 64, 128), "rows of C per warp"),
        Parameter("WN", wn, (16, 32, 64, 128), "columns of C per warp"),
    )


_ALIGNED = Parameter("ALIGNED", 1, (0, 1), "rows of A and B start on 16 bytes; set to 0 for operands where they do not")
_ROUND = Parameter("ROUND", 1, (0, 1), "fp32 operands are rounded to tf32 (1) or cut off (0); no other type cares")
_MIN_BLOCKS = Parameter("MIN_BLOCKS", 2, (1, 2, 3, 4), "blocks whose registers must fit on one SM: caps registers")


def _preset(name: str, parameters: tuple[Parameter, ...], changes: dict[str, int] | None = None) -> Preset:
    values = {p.name: p.default for p in parameters} | (changes or {})
    return Preset(name, Config(tuple(values.items())), OURS)


def _source(name: str) -> Path:
    return Path(__file__).with_name(name)


def _launch(problem: Problem, c: Config) -> Geometry:
    """One block per tile of C, numbered along x alone, as gridDim.y ends at 65,535; batches along z."""
    tiles = ceil_div(problem.m, c["BM"]) * ceil_div(problem.n, c["BN"])
    return Geometry(grid=(tiles, 1, problem.batch), block=(warp_tile_threads(c), 1, 1), smem=ring_bytes(c))


def ring_bytes(c: Config) -> int:
    """Dynamic shared memory: STAGES slices of A and B, or one; none where a kernel declares its own."""
    values = dict(c.values)
    return values.get("STAGES", 1) * (values["BM"] + values["BN"]) * values.get("BK_BYTES", 0)


def aligned_if_possible(config: Config, problem: Problem, addresses: tuple[int, int, int]) -> Config:
    """ALIGNED = 0 unless every row of A and B, of every product of a batch, starts on 16 bytes."""
    steps = [problem.lda, problem.ldb]
    if problem.batch > 1:
        steps += [problem.stride_a, problem.stride_b]
    starts = [*addresses[:2], *(step * problem.dtype.itemsize for step in steps)]
    if all(start % CHUNK == 0 for start in starts):
        return config
    return Config(tuple((name, 0 if name == "ALIGNED" else value) for name, value in config))


# --- constraints


def _ring_fits(formula: str) -> Constraint:
    def check(c: Config) -> str | None:
        n = ring_bytes(c)
        if n <= LARGEST_SMEM:
            return None
        return (
            f"{formula} = {numbers(formula, c)} = {n:,} B of shared memory, "
            f"but {LARGEST_SMEM:,} B is the most a block can have on any GPU"
        )

    return check


def _padded_bytes(c: Config) -> int:
    """The layout that needs most: rows of k for both A and B."""
    return 2 * (c["BM"] + c["BN"]) * (c["BK"] + c["PAD"])


def _sums_fit(c: Config) -> str | None:
    n = lane_outputs(c)
    if n <= 128:
        return None
    return (
        f"WM·WN/32 = {c['WM']}·{c['WN']}/32 = {n} sums a lane, but a thread has 255 registers, and fragments and "
        "addresses need some hundred; at most 128 are allowed"
    )


def _rows_are_shared_out(c: Config) -> str | None:
    """A thread copies one 16-byte chunk of a row at a time; the longest row is one of transposed fp32 numbers."""
    side, threads = max(c["BM"], c["BN"]), warp_tile_threads(c)
    if threads >= side * 4 // CHUNK:
        return None
    return f"a row of {side} fp32 numbers has {side}·4/{CHUNK} = {side * 4 // CHUNK} chunks, for {threads} threads"


_WARPS: tuple[Constraint, ...] = (
    divides("WM", "BM"),
    divides("WN", "BN"),
    whole_warps("32·(BM/WM)·(BN/WN)", warp_tile_threads),
    _sums_fit,
    blocks_fit(warp_tile_threads),
)

# --- the rungs

_WMMA = (
    *_tile(),
    Parameter("BK", 32, (16, 32, 64), "depth of a slice in k"),
    *_warp(64, 32),
    Parameter("PAD", 8, (0, 8, 16), "elements added to each row in shared memory"),
    _ALIGNED,
    _MIN_BLOCKS,
)

WMMA = KernelSpec(
    name="wmma",
    rung=13,
    source=_source("13_wmma.cu"),
    summary="16×16 fragments through the warp-matrix API of CUDA C++",
    teaches="tensor cores: a warp multiplies 16×16×16 in one call, sums in fp32",
    parameters=_WMMA,
    presets=(_preset("128x128x32-64x32", _WMMA),),
    constraints=(
        *_WARPS,
        equal_loads(warp_tile_threads, 8),
        smem_fits("2·(BM+BN)·(BK+PAD)", _padded_bytes, STATIC_SMEM),
    ),
    geometry=_launch,
    dtypes=(FP16, BF16),
    out_dtypes=(FP32, FP16, BF16),
    layouts=("NN", "NT", "TN", "TT"),
    epilogue=True,
    batched=True,
    tensor_cores=True,
    fit=aligned_if_possible,
)

_MMA_SWIZZLED = (
    *_tile(),
    Parameter("BK_BYTES", 64, (32, 64, 128), "depth of a slice in bytes of k"),
    *_warp(64, 64),
    _ROUND,
    _ALIGNED,
    _MIN_BLOCKS,
)

MMA_SWIZZLED = KernelSpec(
    name="mma_swizzled",
    min_arch=80,  # cp.async
    rung=14,
    source=_source("14_mma_swizzled.cu"),
    summary="ldmatrix and mma.sync on swizzled shared memory, one slice at a time",
    teaches="fragments by hand, and an XOR that keeps eight rows in eight different places without padding",
    parameters=_MMA_SWIZZLED,
    presets=(_preset("128x128-64x64", _MMA_SWIZZLED),),
    constraints=(*_WARPS, _rows_are_shared_out, _ring_fits("(BM+BN)·BK_BYTES")),
    geometry=_launch,
    dtypes=(FP16, BF16, TF32, INT8),
    out_dtypes=(FP32, FP16, BF16, INT32, INT8),
    layouts=("NN", "NT", "TN", "TT"),
    epilogue=True,
    batched=True,
    tensor_cores=True,
    fit=aligned_if_possible,
)

_MMA_PIPELINED = (
    *_tile(),
    Parameter("BK_BYTES", 64, (64, 128), "depth of a slice in bytes of k"),
    *_warp(64, 64),
    Parameter("STAGES", 4, (3, 4, 5, 6), "slices in shared memory: one multiplied, the others on their way"),
    Parameter("GROUP", 8, (1, 2, 4, 8, 16), "rows of tiles that blocks go down together, for the cache's sake"),
    _ROUND,
    _ALIGNED,
    _MIN_BLOCKS,
)

MMA_PIPELINED = KernelSpec(
    name="mma_pipelined",
    min_arch=80,  # cp.async
    rung=15,
    source=_source("15_mma_pipelined.cu"),
    summary="a pipeline of cp.async stages and of fragments, in blocks ordered for the cache",
    teaches="two pipelines, one inside the other: slices arrive stages ahead, fragments a step ahead",
    parameters=_MMA_PIPELINED,
    presets=(
        _preset("128x128-64x64", _MMA_PIPELINED),
        _preset("h200", _MMA_PIPELINED, {"BM": 256, "BK_BYTES": 128, "MIN_BLOCKS": 1}),
        _preset("h200-tf32", _MMA_PIPELINED, {"BM": 256, "BK_BYTES": 128, "STAGES": 3, "MIN_BLOCKS": 1}),
    ),
    constraints=(*_WARPS, _rows_are_shared_out, _ring_fits("STAGES·(BM+BN)·BK_BYTES")),
    geometry=_launch,
    dtypes=(FP16, BF16, TF32, INT8),
    out_dtypes=(FP32, FP16, BF16, INT32, INT8),
    layouts=("NN", "NT", "TN", "TT"),
    epilogue=True,
    batched=True,
    tensor_cores=True,
    fit=aligned_if_possible,
)

LADDER = (WMMA, MMA_SWIZZLED, MMA_PIPELINED)
