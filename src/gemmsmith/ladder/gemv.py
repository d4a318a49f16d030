"""Rung 28: fp32 products with up to eight rows or columns, at the speed of memory."""

from __future__ import annotations

from gemmsmith.kernel.config import Config, Parameter
from gemmsmith.kernel.constraints import LARGEST_SMEM, REGISTERS, Requires, blocks_fit, divides, smem_fits, whole_warps
from gemmsmith.kernel.expressions import evaluate
from gemmsmith.kernel.geometry import Geometry, formula_names
from gemmsmith.ladder.families import parameters as common
from gemmsmith.ladder.families.alignment import CHUNK
from gemmsmith.ladder.rung import ALL_LAYOUTS, make_rung, preset
from gemmsmith.problem import Problem, ceil_div
from gemmsmith.prologue.operand_layout import OperandLayout, operand_layouts

MOST_VECTORS = 8
_EXTENTS = (1, 2, 4, 8, 16, 32, 64, 128)
# Bytes up to which a product is launched before the one ahead of it has ended. Of larger ones that gains little, and
# blocks that start while others still run fill the SMs unevenly.
_SMALL = 5e7

LONG, VECTORS = "max(BM, BN)", "min(BM, BN)"
_WARPS = f"{LONG}/ROWS*WARPS_K"
_THREADS = f"32*({_WARPS})"
# Sets of threads with different k where the long operand is not K-major.
_PARTS = f"{_THREADS}//min(32, {LONG}//(4 if ALIGNED else 1))"
_MOST_PARTS = f"{_THREADS}//min(32, max(1, {LONG}//4))"
_LONG_K_MAJOR = "(B_K_MAJOR if BM < BN else A_K_MAJOR)"
_TILES = f"2*({VECTORS}*BK+32)"


def _smem(parts: str) -> str:
    """Two k-tiles of the short operand, or the sums of all parts."""
    return f"4*max({_TILES}, ({parts})*({VECTORS}*ceil({LONG}/32)*32+32))"


_SMEM = _smem(f"WARPS_K if {_LONG_K_MAJOR} else {_PARTS}")


def threads(config: Config) -> int:
    """Threads of a block."""
    return evaluate(_THREADS, config.by_name)


def long_operand(problem: Problem, config: Config, a: int = 0, b: int = 0) -> OperandLayout:
    """The operand that is read once: B for tiles of more columns than rows, else A."""
    return operand_layouts(OperandLayout, problem, a, b)[config["BM"] < config["BN"]]


def _geometry(problem: Problem, config: Config) -> Geometry:
    """Tiles and the blocks that divide K along x alone, as gridDim.y ends at 65,535; batches along z."""
    cluster = config["CLUSTER_K"]
    tiles = ceil_div(problem.m, config["BM"]) * ceil_div(problem.n, config["BN"])
    smem = evaluate(_SMEM, formula_names(problem, config))
    read = 4 * problem.batch * (problem.m + problem.n) * problem.k
    return Geometry((tiles * cluster, 1, problem.batch), (threads(config), 1, 1), smem, (cluster, 1, 1),
                    pdl=read <= _SMALL)  # fmt: skip


def _aligned_if_possible(config: Config, problem: Problem, addresses: tuple[int, int, int]) -> Config:
    """ALIGNED = 0 unless every row of the long operand, of every product of a batch, starts on 16 bytes."""
    its = long_operand(problem, config, *addresses[:2])
    size = problem.dtype.itemsize
    starts = (its.address, its.ld * size, its.stride * size if problem.batch > 1 else 0)
    return config if all(start % CHUNK == 0 for start in starts) else config.with_(ALIGNED=0)


SPEC = make_rung(
    __name__,
    min_arch=80,  # cp.async
    summary="one to eight vectors: the matrix goes once from memory to registers, many loads in flight",
    teaches="a memory-bound kernel: what counts is bytes in flight, and that every byte is read once, coalesced",
    parameters=(
        *common.block_tile(32, 8, _EXTENTS, _EXTENTS),
        Parameter("BK", 512, (64, 128, 256, 512, 1024, 2048), "depth of the short operand's k-tile in shared memory"),
        Parameter("ROWS", 4, (1, 2, 4, 8, 16, 32), "rows of the long operand per warp, where they run along k"),
        Parameter("WARPS_K", 1, (1, 2, 4, 8, 16), "warps per row that divide K; where rows do not run along k, all do"),
        Parameter("LOADS", 8, (1, 2, 4, 8, 16, 32), "loads of 16 bytes that a thread has in flight, ROWS at least"),
        Parameter("CLUSTER_K", 1, (1, 2, 4, 8), "blocks of a cluster, which divide K (sm_90)"),
        Parameter(
            "ALIGNED",
            1,
            (0, 1),
            "1: rows of the long operand start on 16 bytes; set to 0 for operands where they do not",
        ),
        common.min_blocks(2, (1, 2, 3, 4)),
    ),
    presets=(
        preset("8-columns"),
        preset("1-column", BN=1, LOADS=16),
        preset("8-rows", BM=8, BN=64, ROWS=8),
        preset("few-outputs", BM=4, BN=16, BK=1024, ROWS=4, WARPS_K=2, CLUSTER_K=4),
    ),
    made_for=((1, 8192, 8192), (1984, 3, 10436)),
    small={"BM": 8, "BN": 2, "BK": 256, "ROWS": 4, "WARPS_K": 2, "LOADS": 4},
    constraints=(
        Requires(
            f"{VECTORS} <= {MOST_VECTORS} and {LONG} >= 4",
            f"a tile of {{BM*BN}} outputs, but the shorter side has at most {MOST_VECTORS}, and the longer at least 4",
        ),
        divides("ROWS", LONG),
        whole_warps(_THREADS),
        Requires(
            f"ROWS*{VECTORS}+4*LOADS <= 128",
            f"{{ROWS*{VECTORS}+4*LOADS}} registers for accumulators and loaded numbers per thread, but of {REGISTERS} "
            "at most 128 are free for them",
        ),
        divides("ROWS", "LOADS"),
        Requires(
            "BK % (128*WARPS_K*LOADS/ROWS) == 0",
            "{128*WARPS_K*LOADS/ROWS} does not divide {BK}: so many of k are in flight in a block",
        ),
        smem_fits(_smem(_MOST_PARTS), LARGEST_SMEM),
        blocks_fit(_THREADS),
    ),
    geometry=_geometry,
    layouts=ALL_LAYOUTS,
    epilogue=True,
    batched=True,
    specialize=_aligned_if_possible,
)
