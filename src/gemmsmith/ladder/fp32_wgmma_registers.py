"""Rung 27: fp32 products with few rows or columns, whose large operand is split in registers."""

from __future__ import annotations

from gemmsmith.kernel.config import Config, Parameter
from gemmsmith.kernel.constraints import Requires, divides
from gemmsmith.kernel.geometry import TensorMap
from gemmsmith.ladder.families import hopper
from gemmsmith.ladder.families.alignment import CHUNK
from gemmsmith.ladder.families.hopper import BOX, BOX_ROW
from gemmsmith.ladder.families.parameters import ALIGNED, block_tile
from gemmsmith.ladder.rung import preset
from gemmsmith.problem import BF16, FP32, Problem
from gemmsmith.prologue.align_copy import ITEMSIZE
from gemmsmith.prologue.operand_layout import OperandLayout, operand_layouts
from gemmsmith.prologue.split_short import PARTS, part_shape, short_operand, split_short_prologue

_FP32_BOX = BOX_ROW // FP32.itemsize
_CONSUMERS = "BM/64"
_SHORT_ROWS = "(BN if (A_K_MAJOR if SWAP else B_K_MAJOR) else 64*ceil(BN/64))"
_SMEM = f"STAGES*(256*BM+384*{_SHORT_ROWS}+16)+8+(4*BM*(BN+4) if SPLIT > 1 else 0)"
# Terms of the tall operand, and per output the tensor core's accumulator, the sum and, if COMPENSATED, its error.
_REGISTERS = "48+BN/2*(2+COMPENSATED)"
_MOST_REGISTERS = f"select({_CONSUMERS}, 184, 184, 104)"


def _tall(problem: Problem, config: Config, a: int = 0, b: int = 0) -> OperandLayout:
    """B with SWAP, else A."""
    return operand_layouts(OperandLayout, problem, a, b)[config["SWAP"]]


def _maps(problem: Problem, config: Config) -> dict[str, TensorMap]:
    tall, short, names = _tall(problem, config), short_operand(problem, config), "AB"[:: -1 if config["SWAP"] else 1]
    height, width = part_shape(short)
    line = width * ITEMSIZE
    if not short.k_major:
        width = short.shape[1]  # what was added to a row is not read
    maps = {
        names[1]: TensorMap(names[1], BF16, (width, height, PARTS * short.copies), (line, height * line),
                            (BOX, config["BN"] if short.k_major else BOX, 1), BOX_ROW),
    }  # fmt: skip
    if config["ALIGNED"]:
        rows, cols = tall.shape
        maps[names[0]] = TensorMap(names[0], FP32, (cols, rows, tall.copies), (tall.ld * 4, tall.stride * 4),
                                   (_FP32_BOX, config["BM"] if tall.k_major else BOX, 1), BOX_ROW)  # fmt: skip
    return {f"map_{name.lower()}": its for name, its in maps.items()}


def _aligned_if_possible(config: Config, problem: Problem, addresses: tuple[int, int, int]) -> Config:
    """ALIGNED = 0 unless every row of the tall operand starts on 16 bytes."""
    tall = _tall(problem, config, *addresses[:2])
    starts = (tall.address, tall.ld * FP32.itemsize, tall.stride * FP32.itemsize if problem.batch > 1 else 0)
    return config if all(start % CHUNK == 0 for start in starts) else config.with_(ALIGNED=0)


SPEC = hopper.rung(
    __name__,
    summary="bf16x6 for few rows or columns: the large operand is read once and split in registers",
    teaches="a memory-bound product: what is read once is converted on the way, not in a pass of its own",
    parameters=(
        *block_tile(128, 64, (64, 128, 192), tuple(range(16, 129, 16))),
        hopper.stages(3),
        Parameter("SPLIT", 1, (1, 2, 4, 8), "blocks of a cluster, which divide K"),
        Parameter("SWAP", 0, (0, 1), "1: computes the transpose of C, for a C of few rows"),
        Parameter("COMPENSATED", 1, (0, 1), "1: rounding errors of the accumulators are summed and added back"),
        ALIGNED,
    ),
    presets=(
        preset("128x64"),
        preset("few-rows", STAGES=3, SPLIT=2, SWAP=1),
        preset("128x128", BN=128, STAGES=2, COMPENSATED=0),
    ),
    small={"BM": 64, "BN": 16, "STAGES": 2, "SPLIT": 2},
    threads=f"128*({_CONSUMERS}+1)",
    grid="ceil((N if SWAP else M)/BM)*ceil((M if SWAP else N)/BN)*SPLIT",
    cluster="SPLIT",
    smem=_SMEM,
    constraints=(
        divides("SPLIT", "BM"),
        Requires(
            f"{_REGISTERS} <= {_MOST_REGISTERS}",
            f"{{{_REGISTERS}}} registers of terms and accumulators per thread, but with {{:{_CONSUMERS}}} consumers "
            f"{{:{_MOST_REGISTERS}}} are left for them",
        ),
    ),
    dtypes=(FP32,),
    out_dtypes=(FP32,),
    tensor_maps=_maps,
    specialize=_aligned_if_possible,
    prologue=split_short_prologue,
    align_copies=False,
    persistent=True,
    arithmetic="bf16x6",
)
