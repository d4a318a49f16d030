"""Rung 23: the fastest on CUDA cores, with Stream-K for tiles that do not fill a wave."""

from __future__ import annotations

from gemmsmith.gpus import gpus
from gemmsmith.kernel.config import Config, Parameter
from gemmsmith.kernel.constraints import LARGEST_SMEM, REGISTERS, Requires, blocks_fit, divides, smem_fits, whole_warps
from gemmsmith.kernel.expressions import evaluate
from gemmsmith.kernel.geometry import Geometry, formula_names
from gemmsmith.kernel.spec import Workspace
from gemmsmith.ladder.families import parameters as common
from gemmsmith.ladder.families.alignment import aligned_if_possible, rows_start_on
from gemmsmith.ladder.rung import ALL_LAYOUTS, make_rung, preset
from gemmsmith.problem import Problem, ceil_div
from gemmsmith.prologue.zero_workspace import FLAG_BYTES

MOST_SHARERS = FLAG_BYTES // 4  # of all products of a batch: each has a flag

# FLOP up to which a product is launched before the one ahead of it has ended. Of larger products that gains little, and
# blocks that start while others still run fill the SMs unevenly: 10376x12x14104 took 1.6 times as long.
_SMALL = 2e8

_THREADS = "TEAMS*32*(BM/WM)*(BN/WN)"
# An operand that is transposed on its way to shared memory has 4 floats of padding for each k.
# Blocks of a cluster that divide K leave the sums of all teams there at once.
_CLUSTER_SUMS = "(4*TEAMS*BM*BN if CLUSTER_K > 1 else 0)"
_SMEM = f"max(STAGES*BK*4*(BM+BN+(0 if TRANSPOSED_COPY == 1 else 4*(A_K_MAJOR+B_K_MAJOR))), {_CLUSTER_SUMS})"
_MOST_SMEM = "STAGES*BK*4*(BM+BN+8)"


def threads(config: Config) -> int:
    """Threads of a block."""
    return evaluate(_THREADS, config.by_name)


def tiles_of(problem: Problem, config: Config) -> int:
    """Tiles of one product."""
    return ceil_div(problem.m, config["BM"]) * ceil_div(problem.n, config["BN"])


def shared_tiles(problem: Problem, config: Config) -> int:
    """Tiles of one product that are divided along K: those beyond whole waves of SHARERS blocks."""
    sharers = config["SHARERS"]
    if not sharers or problem.alpha == 0 or problem.k == 0 or problem.batch > MOST_SHARERS // sharers:
        return 0
    return tiles_of(problem, config) % sharers


def _geometry(problem: Problem, config: Config) -> Geometry:
    """A block for each whole tile, then the sharers, along x alone, as gridDim.y ends at 65,535; batches along z."""
    shared = shared_tiles(problem, config)
    sharers = min(config["SHARERS"], shared * ceil_div(problem.k, config["BK"]))  # at least a k-tile for each
    cluster = config["CLUSTER_K"]
    blocks = (tiles_of(problem, config) - shared + sharers) * cluster
    smem = evaluate(_SMEM, formula_names(problem, config))
    small = problem.flops <= _SMALL
    return Geometry((blocks, 1, problem.batch), (threads(config), 1, 1), smem, (cluster, 1, 1), pdl=small)


def _workspace(problem: Problem, config: Config) -> Workspace:
    """Flags, then two tiles of partial sums for every sharer."""
    if not shared_tiles(problem, config):
        return Workspace()
    sums = 4 * problem.batch * config["SHARERS"] * 2 * config["BM"] * config["BN"]
    return Workspace(FLAG_BYTES + sums, FLAG_BYTES)


def _with_alignment(config: Config, problem: Problem, addresses: tuple[int, int, int]) -> Config:
    if config["TRANSPOSED_COPY"] == 2 and not rows_start_on(16, problem, addresses):
        return config.with_(ALIGNED=2 if rows_start_on(8, problem, addresses) else 0)
    return aligned_if_possible(config, problem, addresses)


def _sharers() -> tuple[int, ...]:
    """Whole waves of the GPUs in the table, of one to four blocks per SM, and round numbers."""
    waves = {count * gpu.sms for gpu in gpus() for count in (1, 2, 3, 4)}
    return tuple(sorted({0, 2, 3, 5, *(2**n for n in range(3, 9)), *waves}))


SPEC = make_rung(
    __name__,
    min_arch=80,  # cp.async
    summary="everything that pays on CUDA cores: 16×8 accumulators per thread, cp.async, any layout",
    teaches="issue slots: what a product costs beside itself, down to the banks of the register file",
    parameters=(
        *common.block_tile(128, 256, (8, 16, 32, 64, 128, 256), (8, 16, 32, 48, 64, 96, 128, 256)),
        common.k_tile(16, (8, 16, 32, 64, 128)),
        *common.warp_tile(64, 64, (8, 16, 32, 48, 64, 128)),
        *common.thread_tile(16, 8, (4, 8, 16), (4, 8, 12, 16)),
        common.unroll(2, (2, 4, 8, 16)),
        common.stages(3, (2, 3, 4, 5)),
        Parameter("TEAMS", 1, (1, 2, 4, 8), "sets of warps that divide the steps of each k-tile (sliced-K)"),
        Parameter(
            "SHARERS", 0, _sharers(), "blocks of a wave: tiles that do not fill one are divided among them; 0: none are"
        ),
        Parameter("CLUSTER_K", 1, (1, 2, 4, 8), "blocks of a cluster, which divide K (sm_90)"),
        common.group(),
        Parameter(
            "ALIGNED",
            1,
            (0, 1, 2),
            "1: rows of A and B start on 16 bytes; set to 0 for operands where they do not, and to 2 where they start "
            "on 8 and TRANSPOSED_COPY is 2",
        ),
        Parameter(
            "TRANSPOSED_COPY",
            0,
            (0, 1, 2),
            "0: K-major operands are copied 4 bytes at a time. 1: K-major and unaligned operands are first transposed "
            "to a workspace. 2: K-major operands whose rows start on 8 bytes are transposed in registers",
        ),
        common.min_blocks(1, (1, 2, 3, 4)),
    ),
    presets=(
        preset("128x256-16x8"),
        preset("128x64-4", BN=64, BK=32, TEAMS=4),
        preset("skinny", BM=16, BN=128, WM=16, TM=4, STAGES=4, TEAMS=2, SHARERS=264, MIN_BLOCKS=2),
        preset("deep", BM=32, BN=64, BK=32, WM=32, TM=8, TEAMS=4, SHARERS=264, MIN_BLOCKS=2),
        preset("few-outputs", BM=16, BN=32, BK=128, WM=16, WN=32, TM=4, TN=4, STAGES=4, TEAMS=8, CLUSTER_K=8),
    ),
    small={"BM": 32, "BN": 64, "BK": 8, "WM": 32, "WN": 32, "TM": 8, "TN": 4, "GROUP": 2},
    constraints=(
        divides("WM", "BM"),
        divides("WN", "BN"),
        Requires("WM*WN == 32*TM*TN", "a warp tile has {WM*WN} outputs, but 32 lanes have {32*TM*TN}"),
        Requires("WM % TM == 0 and WM/TM >= 2", "{WM/TM} lanes along a side, but at least 2 share each operand"),
        Requires("WN % TN == 0 and WN/TN >= 2", "{WN/TN} lanes along a side, but at least 2 share each operand"),
        Requires(
            "TM*TN <= 128",
            f"{{TM*TN}} accumulators per thread, but of {REGISTERS} registers at most 128 are free for them",
        ),
        whole_warps(_THREADS),
        Requires(
            "BK % (TEAMS*UNROLL) == 0",
            "{TEAMS*UNROLL} does not divide {BK}: a team has every {:TEAMS}th step of a k-tile, UNROLL at a time",
        ),
        Requires(
            "TEAMS == 1 or 512*TEAMS*(BM/WM)*(BN/WN) <= STAGES*BK*4*(BM+BN)",
            "four sums of every thread take {512*TEAMS*(BM/WM)*(BN/WN)} bytes, but k-tiles have {STAGES*BK*4*(BM+BN)}",
        ),
        Requires(
            "TRANSPOSED_COPY != 2 or TEAMS*UNROLL % 4 == 0",
            "TRANSPOSED_COPY=2 transposes four k at a time, but {TEAMS*UNROLL} (TEAMS*UNROLL) is no multiple of 4",
        ),
        Requires("CLUSTER_K == 1 or SHARERS == 0", "K is divided twice: {CLUSTER_K} and {SHARERS}"),
        smem_fits(_CLUSTER_SUMS, LARGEST_SMEM),
        smem_fits(_MOST_SMEM, LARGEST_SMEM),
        blocks_fit(_THREADS),
    ),
    geometry=_geometry,
    layouts=ALL_LAYOUTS,
    epilogue=True,
    batched=True,
    specialize=_with_alignment,
    transposed_copy=lambda config: config["TRANSPOSED_COPY"] == 1,
    workspace=_workspace,
)
