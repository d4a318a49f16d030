"""The rungs that compute fp32 products on tensor cores, as accurately as fp32: their configurations and launch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gemmsmith.kernel.budgets import lane_outputs, warp_tile_threads
from gemmsmith.kernel.config import Config, Parameter, Preset
from gemmsmith.kernel.constraints import blocks_fit, divides, numbers, whole_warps
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import Constraint, KernelSpec
from gemmsmith.ladder.tensor_core import CHUNK, LARGEST_SMEM, OURS, aligned_if_possible, ring_bytes
from gemmsmith.problem import FP32, Problem, ceil_div
from gemmsmith.prologue.split_fp16 import fp16_preparation

# --- constraints: of numbers of ``size`` bytes in shared memory, in one plane an operand or in several


def _ring_fits(planes: int = 1) -> Constraint:
    formula = f"STAGES·{'' if planes == 1 else f'{planes}·'}(BM+BN)·BK_BYTES"

    def check(c: Config) -> str | None:
        if (n := planes * ring_bytes(c)) <= LARGEST_SMEM:
            return None
        return (
            f"{formula} = {numbers(formula, c)} = {n:,} B of shared memory, "
            f"but {LARGEST_SMEM:,} B is the most a block can have on any GPU"
        )

    return check


def _registers_fit(formula: str, fragments: int, registers: int, whose: str) -> Constraint:
    """Sums, and the parts of all fragments of A and of ``fragments`` of B for PROMOTE of k; the rest is addresses."""

    def check(c: Config) -> str | None:
        sums, parts = lane_outputs(c), (c["WM"] // 16 + fragments) * registers * (c["PROMOTE"] // 16)
        if sums + parts <= 176:
            return None
        return (
            f"WM·WN/32 = {c['WM']}·{c['WN']}/32 = {sums} sums a lane and {formula} = {parts} registers of {whose}, "
            "but a thread has 255 registers, and some eighty are needed besides; at most 176 are allowed"
        )

    return check


def _slices_are_whole_steps(size: int) -> Constraint:
    def check(c: Config) -> str | None:
        depth = c["BK_BYTES"] // size
        if depth >= c["PROMOTE"]:
            return None
        return f"a slice of BK_BYTES={c['BK_BYTES']} is {depth} deep, less than PROMOTE={c['PROMOTE']}"

    return check


def _chunks_are_shared_out(size: int, what: str) -> Constraint:
    """A thread copies one 16-byte chunk of a row at a time; rows of transposed operands are the longest."""

    def check(c: Config) -> str | None:
        side, threads = max(c["BM"], c["BN"]), warp_tile_threads(c)
        chunks = side * size // CHUNK
        if threads % chunks == 0:
            return None
        return (
            f"a row of {side} {what} has {side}·{size}/{CHUNK} = {chunks} chunks, which do not divide {threads} threads"
        )

    return check


# --- launch


def _launch(planes: int) -> Callable[[Problem, Config], Geometry]:
    """One block per tile of C, numbered along x alone, as gridDim.y ends at 65,535; batches along z."""

    def geometry(problem: Problem, c: Config) -> Geometry:
        tiles = ceil_div(problem.m, c["BM"]) * ceil_div(problem.n, c["BN"])
        return Geometry((tiles, 1, problem.batch), (warp_tile_threads(c), 1, 1), planes * ring_bytes(c))

    return geometry


def _preset(name: str, parameters: tuple[Parameter, ...], changes: dict[str, int] | None = None) -> Preset:
    values = {p.name: p.default for p in parameters} | (changes or {})
    return Preset(name, Config(tuple(values.items())), OURS)


def _rung(number: int, name: str, constraints: tuple[Constraint, ...], **described: Any) -> KernelSpec:
    """What both have in common, and what one has besides."""
    return KernelSpec(
        min_arch=80,  # cp.async
        name=name,
        rung=number,
        source=Path(__file__).with_name(f"{number}_{name}.cu"),
        constraints=(
            divides("WM", "BM"),
            divides("WN", "BN"),
            whole_warps("32·(BM/WM)·(BN/WN)", warp_tile_threads),
            *constraints,
            blocks_fit(warp_tile_threads),
        ),
        dtypes=(FP32,),
        out_dtypes=(FP32,),
        layouts=("NN", "NT", "TN", "TT"),
        epilogue=True,
        batched=True,
        tensor_cores=True,
        **described,
    )


# --- by six products

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

FP32_TENSOR_BF16X6 = _rung(
    22,
    "fp32_tensor_bf16x6",
    (
        _registers_fit("WM/16·12·(PROMOTE/16)", 0, 12, "A's parts"),
        _slices_are_whole_steps(4),
        _chunks_are_shared_out(4, "numbers"),
        _ring_fits(),
    ),
    summary="fp32 as three bf16 numbers: six products on tensor cores, sums outside",
    teaches="precision by hand: exact parts, small sums first, and out of the tensor core before it cuts them off",
    parameters=_BF16X6,
    presets=(
        _preset("128x128-32x64", _BF16X6),
        _preset("128x128-64x64", _BF16X6, {"WM": 64, "STAGES": 3, "MIN_BLOCKS": 2}),
    ),
    geometry=_launch(planes=1),
    arithmetic="bf16x6",
    fit=aligned_if_possible,
)

# --- by three products

_FP16X3 = (
    Parameter("BM", 128, (64, 128, 256), "rows of C per block"),
    Parameter("BN", 128, (64, 128, 256), "columns of C per block"),
    Parameter("BK_BYTES", 64, (32, 64, 128), "depth of a slice in bytes of k, of each part"),
    Parameter("WM", 32, (16, 32, 64), "rows of C per warp, whose two parts stay in registers"),
    Parameter("WN", 64, (32, 64, 128), "columns of C per warp, 16 at a time"),
    Parameter("PROMOTE", 16, (16, 32), "of k, before sums leave the tensor core"),
    Parameter("STAGES", 3, (3, 4, 5), "slices in shared memory: one multiplied, the others on their way"),
    Parameter("GROUP", 8, (1, 2, 4, 8, 16), "rows of tiles that blocks go down together, for the cache's sake"),
    Parameter("MIN_BLOCKS", 1, (1, 2, 3), "blocks whose registers must fit on one SM: caps registers"),
)

FP32_TENSOR_FP16X3 = _rung(
    24,
    "fp32_tensor_fp16x3",
    (
        _registers_fit("(WM/16+2)·8·(PROMOTE/16)", 2, 8, "parts"),
        _slices_are_whole_steps(2),
        _chunks_are_shared_out(2, "parts"),
        _ring_fits(planes=2),
    ),
    summary="fp32 as two fp16 numbers, scaled by row and column: three products, where the data allow it",
    teaches="trading range for speed, and a check on the data, on the device, that says when not to",
    parameters=_FP16X3,
    presets=(
        _preset("128x128-32x64", _FP16X3),
        _preset("128x128-64x64", _FP16X3, {"WM": 64}),
    ),
    geometry=_launch(planes=2),
    arithmetic="fp16x3",
    preparation=fp16_preparation(FP32_TENSOR_BF16X6),
)

LADDER = (FP32_TENSOR_BF16X6, FP32_TENSOR_FP16X3)
