"""The rungs that compute fp32 products by wgmma of 16-bit parts: six products of bf16, or three of fp16.

A launch before the kernel writes the parts to the workspace (prologue/split_bf16.py, prologue/split_fp16.py).
"""

from __future__ import annotations

from typing import Any

from gemmsmith.kernel.config import Config, Parameter
from gemmsmith.kernel.constraints import Requires
from gemmsmith.kernel.geometry import TensorMap
from gemmsmith.kernel.spec import KernelSpec, TensorMaps
from gemmsmith.ladder.families import hopper
from gemmsmith.ladder.families.hopper import BOX, BOX_ROW
from gemmsmith.problem import BF16, FP16, FP32, Problem
from gemmsmith.prologue.align_copy import ITEMSIZE, packed_ld

# Per accumulator a consumer thread holds the tensor core's, its own sum, and with BLOCKED_SUMS the sum of blocks.
_REGISTERS = f"{hopper.ACCUMULATORS}*(2+BLOCKED_SUMS)"
_MOST_REGISTERS = "(128 if CONSUMERS == 3 else 192)"


def _part_map(operand: str, problem: Problem, config: Config, parts: int) -> TensorMap:
    """Rows of A or columns of B by 64 of k, of one part."""
    first = operand == "A"
    height, width = problem.a_shape if first else problem.b_shape
    k_major = not problem.trans_a if first else problem.trans_b
    rows, blocks = (config["BM"], config["CLUSTER_N"]) if first else (config["BN"], config["CLUSTER_M"])
    line = packed_ld(width) * ITEMSIZE
    return TensorMap(operand, BF16 if parts == 3 else FP16, (width, height, parts * problem.copies[0 if first else 1]),
                     (line, height * line), (BOX, (rows if k_major else BOX) // blocks, 1), BOX_ROW)  # fmt: skip


def _maps_of(parts: int) -> TensorMaps:
    return lambda problem, config: {
        "map_a": _part_map("A", problem, config, parts), "map_b": _part_map("B", problem, config, parts),
    }  # fmt: skip


def rung(module: str, *, parts: int, bn: int, stages: int, blocked: int, **fields: Any) -> KernelSpec:
    """``parts``: 16-bit numbers per fp32 number; the next three are defaults."""
    return hopper.rung(
        module,
        parameters=(
            *hopper.block_tile(128, bn),
            hopper.stages(stages),
            hopper.consumers(2),
            *hopper.clusters(2, 1),
            hopper.GROUP,
            Parameter("BLOCKED_SUMS", blocked, (0, 1), "1: k-tiles are added in blocks, and blocks to another sum"),
        ),
        grid=hopper.cluster_grid(),
        cluster=hopper.CLUSTER_BLOCKS,
        constraints=(
            hopper.ROWS_PER_CONSUMER,
            Requires(
                f"{_REGISTERS} <= {_MOST_REGISTERS}",
                f"{{{hopper.ACCUMULATORS}}} accumulators per thread, {{:2+BLOCKED_SUMS}} registers each, "
                f"but with {{:CONSUMERS}} consumers {{:{_MOST_REGISTERS}}} are left for them",
            ),
            *hopper.CLUSTER_FITS,
            Requires(f"STAGES >= {parts}", f"{{STAGES}} has no room for the {parts} parts of one k-tile"),
        ),
        dtypes=(FP32,),
        out_dtypes=(FP32,),
        tensor_maps=_maps_of(parts),
        align_copies=False,
        persistent=True,
        stages_per_k_tile=parts,
        **fields,
    )
