"""The rungs that compute fp32 products on tensor cores, as accurately as fp32: their configurations and launch."""

from __future__ import annotations

from pathlib import Path

from gemmsmith.kernels.budgets import lane_outputs, warp_tile_threads
from gemmsmith.kernels.constraints import blocks_fit, divides, numbers, whole_warps
from gemmsmith.kernels.spec import Config, Geometry, KernelSpec, Parameter, Preset
from gemmsmith.kernels.tensor_core import CHUNK, LARGEST_SMEM, OURS, aligned_if_possible, ring_bytes
from gemmsmith.problem import FP32, Problem, ceil_div

# --- constraints


def _ring_fits(c: Config) -> str | None:
    formula, n = "STAGES·(BM+BN)·BK_BYTES", ring_bytes(c)
    if n <= LARGEST_SMEM:
        return None
    return (
        f"{formula} = {numbers(formula, c)} = {n:,} B of shared memory, "
        f"but {LARGEST_SMEM:,} B is the most a block can have on any GPU"
    )


def _registers_fit(c: Config) -> str | None:
    """Sums, and three parts of all fragments of A for PROMOTE of k; the rest is fragments of B and addresses."""
    sums, parts = lane_outputs(c), c["WM"] // 16 * 12 * (c["PROMOTE"] // 16)
    if sums + parts <= 176:
        return None
    return (
        f"WM·WN/32 = {c['WM']}·{c['WN']}/32 = {sums} sums a lane and WM/16·12·(PROMOTE/16) = {parts} registers of A's "
        "parts, but a thread has 255 registers, and some eighty are needed besides; at most 176 are allowed"
    )


def _slices_are_whole_steps(c: Config) -> str | None:
    if c["BK_BYTES"] // 4 >= c["PROMOTE"]:
        return None
    return f"a slice of BK_BYTES={c['BK_BYTES']} is {c['BK_BYTES'] // 4} deep, less than PROMOTE={c['PROMOTE']}"


def _chunks_are_shared_out(c: Config) -> str | None:
    """A thread copies one 16-byte chunk of a row at a time; rows of transposed operands are the longest."""
    side, threads = max(c["BM"], c["BN"]), warp_tile_threads(c)
    chunks = side * 4 // CHUNK
    if threads % chunks == 0:
        return None
    return f"a row of {side} numbers has {side}·4/{CHUNK} = {chunks} chunks, which do not divide {threads} threads"


# --- launch


def _launch(problem: Problem, c: Config) -> Geometry:
    """One block per tile of C, numbered along x alone, as gridDim.y ends at 65,535; batches along z."""
    tiles = ceil_div(problem.m, c["BM"]) * ceil_div(problem.n, c["BN"])
    return Geometry(grid=(tiles, 1, problem.batch), block=(warp_tile_threads(c), 1, 1), smem=ring_bytes(c))


# --- the rung

_BF16X6 = (
    Parameter("BM", 128, (64, 128, 256), "rows of C per block"),
    Parameter("BN", 128, (64, 128, 256), "columns of C per block"),
    Parameter("BK_BYTES", 64, (64, 128), "depth of a slice in bytes of k"),
    Parameter("WM", 32, (16, 32, 64), "rows of C per warp, whose three parts stay in registers"),
    Parameter("WN", 64, (32, 64, 128), "columns of C per warp, 16 at a time"),
    Parameter("PROMOTE", 16, (16, 32), "of k, before sums leave the tensor core"),
    Parameter("STAGES", 4, (3, 4, 5), "slices in shared memory: one multiplied, the others on their way"),
    Parameter("GROUP", 8, (1, 2, 4, 8, 16), "rows of tiles that blocks go down together, for the cache's sake"),
    Parameter("ALIGNED", 1, (0, 1), "rows of A and B start on 16 bytes; set to 0 for operands where they do not"),
    Parameter("MIN_BLOCKS", 1, (1, 2, 3), "blocks whose registers must fit on one SM: caps registers"),
)


def _preset(name: str, changes: dict[str, int]) -> Preset:
    return Preset(name, Config(tuple({**{p.name: p.default for p in _BF16X6}, **changes}.items())), OURS)


FP32_TENSOR_BF16X6 = KernelSpec(
    name="fp32_tensor_bf16x6",
    rung=22,
    source=Path(__file__).with_name("22_fp32_tensor_bf16x6.cu"),
    summary="fp32 as three bf16 numbers: six products on tensor cores, sums outside",
    teaches="precision by hand: exact parts, small sums first, and out of the tensor core before it cuts them off",
    parameters=_BF16X6,
    presets=(
        _preset("128x128-32x64", {}),
        _preset("128x128-64x64", {"WM": 64, "STAGES": 3, "MIN_BLOCKS": 2}),
    ),
    constraints=(
        divides("WM", "BM"),
        divides("WN", "BN"),
        whole_warps("32·(BM/WM)·(BN/WN)", warp_tile_threads),
        _registers_fit,
        _slices_are_whole_steps,
        _chunks_are_shared_out,
        _ring_fits,
        blocks_fit(warp_tile_threads),
    ),
    geometry=_launch,
    dtypes=(FP32,),
    out_dtypes=(FP32,),
    layouts=("NN", "NT", "TN", "TT"),
    epilogue=True,
    batched=True,
    tensor_cores=True,
    arithmetic="bf16x6",
    fit=aligned_if_possible,
)

LADDER = (FP32_TENSOR_BF16X6,)
