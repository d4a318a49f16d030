"""The rungs that compute fp32 products by warp-group products (wgmma) of 16-bit parts: six of bf16, or three of fp16.

Parts lie in a workspace, where a launch before the product has written them: bf16_parts.py,
fp16_parts.py. Where fp16 cannot hold what matters, the first rung computes the product of the second.
"""

from __future__ import annotations

from pathlib import Path

from gemmsmith.kernel.config import Config, Parameter
from gemmsmith.kernel.geometry import TensorMap
from gemmsmith.kernel.prologue import Addresses, Prologue, PrologueBuilder
from gemmsmith.kernel.spec import Constraint, KernelSpec, TensorMaps
from gemmsmith.ladder.hopper_config import (
    BOX,
    BOX_ROW,
    GROUP,
    GROUP_THREADS,
    cluster_fits,
    consumers,
    preset,
    rows_are_shared_out,
    smem_fits,
    stages,
    tile,
    tiles_in_turn,
)
from gemmsmith.problem import BF16, FP16, FP32, Problem
from gemmsmith.prologue.align_copy import ITEMSIZE, packed_ld
from gemmsmith.prologue.build import has_product
from gemmsmith.prologue.split_bf16 import bf16_parts, placed_parts
from gemmsmith.prologue.split_fp16 import fp16_preparation
from gemmsmith.prologue.zero_workspace import FLAG_BYTES


def _room_for(parts: int) -> Constraint:
    """All parts of a slice are in the ring at once."""

    def check(c: Config) -> str | None:
        return f"STAGES = {c['STAGES']} has no room for the {parts} parts of one slice" if c["STAGES"] < parts else None

    return check


def _sums_fit(c: Config) -> str | None:
    """Of every sum a consumer holds the tensor core's, its own, and what that one lost if it is to be given back."""
    sums = c["BM"] * c["BN"] // (c["CONSUMERS"] * GROUP_THREADS)
    each, most = 2 + c["COMPENSATED"], 128 if c["CONSUMERS"] == 3 else 192
    if sums * each <= most:
        return None
    return (
        f"BM·BN/(128·{c['CONSUMERS']}) = {sums} sums a thread, {each} registers each, "
        f"but with {c['CONSUMERS']} consumers {most} are left for them"
    )


def _part_map(operand: str, problem: Problem, c: Config, parts: int) -> TensorMap:
    """Rows of A or columns of B by 64 of k, of one part."""
    first = operand == "A"
    height, width = problem.a_shape if first else problem.b_shape
    along_k = not problem.trans_a if first else problem.trans_b
    rows, shares = (c["BM"], c["CLUSTER_N"]) if first else (c["BN"], c["CLUSTER_M"])
    line = packed_ld(width) * ITEMSIZE
    return TensorMap(operand, BF16 if parts == 3 else FP16, (width, height, parts * problem.copies[0 if first else 1]),
                     (line, height * line), (BOX, (rows if along_k else BOX) // shares, 1), BOX_ROW)  # fmt: skip


def _maps_of(parts: int) -> TensorMaps:
    return lambda problem, c: {
        "map_a": _part_map("A", problem, c, parts), "map_b": _part_map("B", problem, c, parts),
    }  # fmt: skip


def _bf16_prepared(
    problem: Problem, _config: Config, addresses: Addresses, workspace: int, as_fallback: bool
) -> Prologue:
    """As another's substitute it keeps the verdict at the beginning of the workspace, and nothing is split unless that
    is against fp16."""
    verdict = workspace if as_fallback else 0
    if not has_product(problem):
        return Prologue(problem, addresses, workspace=verdict)
    placed = placed_parts(problem, workspace + (FLAG_BYTES if as_fallback else 0))
    return Prologue(
        problem, addresses, placed.end - workspace, (bf16_parts(problem, addresses, placed, verdict),), verdict,
        mapped=addresses._replace(a=placed.a, b=placed.b),
    )  # fmt: skip


def _parameters(parts: int) -> tuple[Parameter, ...]:
    wide = parts == 2
    return (
        *tile(128, 192 if wide else 128),
        stages(5 if wide else 6),
        consumers(2),
        Parameter("CLUSTER_M", 2, (1, 2, 4), "blocks of a cluster above each other, which share columns of B"),
        Parameter("CLUSTER_N", 1, (1, 2, 4), "blocks of a cluster beside each other, which share rows of A"),
        GROUP,
        Parameter("COMPENSATED", int(parts == 3), (0, 1), "what rounding takes from sums is summed up and given back"),
    )


def _rung(number: int, name: str, parts: int, summary: str, teaches: str, preparation: PrologueBuilder) -> KernelSpec:
    parameters = _parameters(parts)
    presets = (
        preset("128x128-2x1", parameters, BN=128, STAGES=6, COMPENSATED=1),
        preset("128x192-2x1", parameters, BN=192, STAGES=5, COMPENSATED=0),
    )
    return KernelSpec(
        name=name,
        rung=number,
        source=Path(__file__).with_name(f"{number}_{name}.cu"),
        summary=summary,
        teaches=teaches,
        parameters=parameters,
        presets=presets if parts == 3 else presets[::-1],
        constraints=(rows_are_shared_out, _sums_fit, cluster_fits, _room_for(parts), smem_fits),
        geometry=tiles_in_turn,
        dtypes=(FP32,),
        out_dtypes=(FP32,),
        layouts=("NN", "NT", "TN", "TT"),
        epilogue=True,
        batched=True,
        tensor_cores=True,
        arithmetic="bf16x6" if parts == 3 else "fp16x3",
        min_arch=90,
        arch_specific=90,
        simulated=False,
        tensor_maps=_maps_of(parts),
        preparation=preparation,
        persistent=True,
    )


FP32_WGMMA_BF16X6 = _rung(
    25,
    "fp32_wgmma_bf16x6",
    3,
    "fp32 as three bf16 numbers, split once, and six products by wgmma",
    "as accurate as fp32 at twice its speed: a pass over the operands is little against the product",
    _bf16_prepared,
)

FP32_WGMMA_FP16X3 = _rung(
    26,
    "fp32_wgmma_fp16x3",
    2,
    "fp32 as two fp16 numbers with a scale for each line, where the data allow it, by wgmma",
    "half the products for data that pass a check on the way, decided on the GPU without asking the host",
    fp16_preparation(FP32_WGMMA_BF16X6, clusters=True),
)

LADDER = (FP32_WGMMA_BF16X6, FP32_WGMMA_FP16X3)
