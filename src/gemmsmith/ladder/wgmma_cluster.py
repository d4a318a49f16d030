"""Rung 19: clusters and multicast."""

from __future__ import annotations

from gemmsmith.kernel.config import Config, Parameter
from gemmsmith.kernel.constraints import Requires
from gemmsmith.kernel.geometry import TensorMap
from gemmsmith.kernel.spec import Workspace
from gemmsmith.ladder.families import hopper, hopper_store
from gemmsmith.ladder.families.hopper_maps import rest_map
from gemmsmith.ladder.families.parameters import block_tile
from gemmsmith.ladder.rung import preset
from gemmsmith.problem import Problem, ceil_div
from gemmsmith.prologue.zero_workspace import FLAG_BYTES


def _maps(problem: Problem, config: Config) -> dict[str, TensorMap]:
    return hopper_store.maps_with_c(problem, config) | rest_map(problem, config)


def _workspace(problem: Problem, config: Config) -> Workspace:
    """Counters, in whole kilobytes, then the partial sums of every slice."""
    if config["SLICES"] == 1:
        return Workspace()
    slices = SPEC.geometry(problem, config).grid[0]  # of all tiles and products
    counters = ceil_div(4 * slices // config["SLICES"] * config["CONSUMERS"], 1024) * 1024
    zeroed = ceil_div(counters, FLAG_BYTES) * FLAG_BYTES
    return Workspace(max(zeroed, counters + 4 * slices * config["BM"] * config["BN"]), zeroed)


# With slices, a word for each consumer.
_SMEM = (
    f"{hopper.CLUSTER_K_TILES}+{hopper_store.TAIL_BARRIERS}+{hopper_store.STAGED_OR_TRANSPOSED}"
    "+(16 if SLICES > 1 else 0)"
    "+((CLUSTER_K-1)*CONSUMERS*ceil(BM*BN/(512*CONSUMERS*CLUSTER_K))*2048+32 if SEND else 0)"
)
SPEC = hopper.rung(
    __name__,
    summary="blocks on neighbouring SMs load each k-tile once, for all of them",
    teaches="clusters and multicast: data that is not moved costs no energy, and energy sets the clock",
    parameters=(
        *block_tile(128, 256, (64, 128, 192, 256), tuple(range(8, 257, 8))),
        hopper.stages(4, (*range(2, 15), 16)),
        hopper.consumers(2),
        *hopper.clusters(2, 1),
        hopper.GROUP,
        hopper_store.STORE_MODE,
        hopper_store.store_boxes(64),
        hopper_store.TAIL_BN,
        Parameter("SWAP", 0, (0, 1), "1: computes the transpose of C; tiles have any multiple of 8 rows of C"),
        Parameter("SLICES", 1, tuple(range(1, 17)), "slices of K, whose partial sums are added through global memory"),
        Parameter("CLUSTER_K", 1, (1, 2, 4, 8), "blocks of a cluster that share a tile, each with a part of K"),
        Parameter("DEPTH", 1, (1, 2, 4), "k-tiles of a stage, which are loaded and released together"),
        Parameter("SEND", 0, (0, 1), "1: blocks of a cluster send each other the partial sums of CLUSTER_K"),
        Parameter(
            "SLICE_ORDER", 0, (0, 1, 2), "blocks in the order of 0: slices, 1: tiles, 2: slices, or tiles, by GPC"
        ),
    ),
    presets=(
        preset("128x256-2x1"),
        preset("256x192-1x2", BM=256, BN=192, STAGES=3, CLUSTER_M=1, CLUSTER_N=2),
    ),
    small={"BM": 64, "BN": 64, "STAGES": 2, "CONSUMERS": 1, "GROUP": 2},
    # If some tiles may have TAIL_BN columns, as many blocks as if all had.
    grid=hopper.cluster_grid("(TAIL_BN if TAIL_BN else BN)", "(N if SWAP else M)", "(M if SWAP else N)")
    + "*CLUSTER_K*SLICES",
    cluster=f"{hopper.CLUSTER_BLOCKS}*CLUSTER_K",
    smem=_SMEM,
    idle="SLICE_ORDER",  # only there do clusters start in the order that it assumes
    constraints=(
        hopper.ROWS_PER_CONSUMER,
        hopper.WITH_SETMAXNREG,
        hopper.CLUSTER_SIZE,
        Requires("SWAP == 1 or BN % 16 == 0", "without SWAP the columns of a tile come in multiples of 16, but {BN}"),
        hopper_store.TRANSPOSED_BOXES_DIVIDE,
        *hopper_store.TAIL_FITS,
        Requires("TAIL_BN == 0 or SWAP == 0 and SLICES == 1", "{TAIL_BN} needs SWAP=0 and SLICES=1"),
        Requires("TAIL_BN == 0 or CLUSTER_K == 1", "{TAIL_BN} needs CLUSTER_K=1"),
        Requires("CLUSTER_M*CLUSTER_N*CLUSTER_K <= 8", "{CLUSTER_M*CLUSTER_N*CLUSTER_K} blocks in a cluster; 8 fit"),
        Requires("CLUSTER_K == 1 or SLICES == 1", "{CLUSTER_K} and {SLICES} divide K both; one of them must be 1"),
        Requires("SEND == 0 or CLUSTER_K > 1", "{SEND} needs CLUSTER_K"),
        Requires("SLICE_ORDER != 1 or SLICES > 1", "{SLICE_ORDER} needs SLICES"),
        Requires(
            "SLICE_ORDER == 0 or SLICES > 1 or TAIL_BN == 0 and CLUSTER_M*CLUSTER_N*CLUSTER_K == 2",
            "{SLICE_ORDER} needs SLICES, or clusters of two blocks and no TAIL_BN",
        ),
        Requires(
            "CLUSTER_K == 1 or SEND == 1 or BM*BN <= STAGES*DEPTH*32*(BM+BN)",
            "{4*BM*BN} B of partial sums do not fit into the {:STAGES*DEPTH*128*(BM+BN)} B of the stages",
        ),
    ),
    tensor_maps=_maps,
    specialize=hopper_store.specialize_store,
    persistent=True,
    workspace=_workspace,
)
