"""Rung 20: K divided among the blocks of a cluster, and among clusters."""

from __future__ import annotations

from gemmsmith.kernel.config import Config, Parameter
from gemmsmith.kernel.constraints import Requires, divides
from gemmsmith.kernel.geometry import TensorMap
from gemmsmith.kernel.spec import Workspace
from gemmsmith.ladder.families import hopper
from gemmsmith.ladder.families.hopper_maps import operand_map
from gemmsmith.ladder.families.parameters import block_tile
from gemmsmith.ladder.rung import preset
from gemmsmith.problem import Problem, ceil_div
from gemmsmith.prologue.zero_workspace import FLAG_BYTES

# The tall operand has BM rows or columns in a tile, the other one BN: A and B, or with SWAP B and A.
_TALL_K_MAJOR = "(B_K_MAJOR if SWAP else A_K_MAJOR)"
_OTHER_ROWS = "(BN if (A_K_MAJOR if SWAP else B_K_MAJOR) else 64*ceil(BN/64))"
# Of a stage. An unaligned operand has 16 bytes more per line than if its lines started on 16 bytes.
_TALL_BYTES = (
    "(8192*DEPTH*ceil(BM/64) if UNALIGNED_OPERANDS == 0 else "
    f"BM*(128*DEPTH+16) if {_TALL_K_MAJOR} else 64*DEPTH*(2*BM+16))"
)

# Accumulators and fragments of an unaligned operand: with more, registers spill or products wait for each other.
_FRAGMENTS = "16*BM/64/CONSUMERS*min(2, DEPTH)"
_WITH_FRAGMENTS = "select(CONSUMERS, 224, 136, 80)"
# Registers of a producer thread for addresses of the tall operand and chunks of the other one.
_LOADED = "select(CONSUMERS, 128, 96, 64)"


def _loads_fit(mode: int, registers: str) -> Requires:
    return Requires(
        f"UNALIGNED_OPERANDS != {mode} or {registers} <= {_LOADED}",
        f"a producer thread holds {{{registers}}} registers of unaligned operands, "
        f"but with {{:CONSUMERS}} consumers {{:{_LOADED}}} fit",
    )


def _unaligned_operands(config: Config) -> str:
    """'A' or 'B', the tall one, 'AB' for both, '' for none."""
    return ("", "AB"[config["SWAP"]], "AB")[config["UNALIGNED_OPERANDS"]]


def _maps(problem: Problem, config: Config) -> dict[str, TensorMap]:
    rows = (config["BM"], config["BN"])
    maps = {
        "map_a": operand_map("A", problem, rows[config["SWAP"]]),
        "map_b": operand_map("B", problem, rows[1 - config["SWAP"]]),
    }
    return {name: its for name, its in maps.items() if its.operand not in _unaligned_operands(config)}


def _workspace(problem: Problem, config: Config) -> Workspace:
    """Counters, in whole kilobytes, then the sums of every cluster or, if added in arrival order, of every tile."""
    if config["CLUSTERS"] == 1:
        return Workspace()
    tiles = SPEC.geometry(problem, config).grid[0] // (config["SPLIT"] * config["CLUSTERS"]) * problem.batch
    counters = ceil_div(4 * tiles * config["SPLIT"], 1024) * 1024
    sums = 4 * tiles * config["BM"] * config["BN"]
    if config["DETERMINISTIC"]:
        zeroed = ceil_div(counters, FLAG_BYTES) * FLAG_BYTES
        return Workspace(max(zeroed, counters + sums * config["CLUSTERS"]), zeroed)
    zeroed = ceil_div(counters + sums, FLAG_BYTES) * FLAG_BYTES
    return Workspace(zeroed, zeroed)


SPEC = hopper.rung(
    __name__,
    summary="blocks of a cluster divide K and add up through distributed shared memory",
    teaches="small and deep products: enough blocks for all SMs, summed in a fixed order",
    made_for=((256, 256, 16384), (512, 512, 16384)),
    parameters=(
        *block_tile(64, 32, tuple(range(16, 257, 8)), tuple(range(16, 257, 16))),
        hopper.stages(8, (2, 3, 4, 5, 6, 7, 8, 10, 12)),
        hopper.consumers(1),
        Parameter("SPLIT", 4, (1, 2, 4, 8), "blocks of a cluster, which divide K"),
        Parameter("SWAP", 0, (0, 1), "1: computes the transpose of C, for a C of few rows"),
        Parameter("DEPTH", 1, (1, 2, 4), "k-tiles per stage, which are loaded together"),
        Parameter("CLUSTERS", 1, (1, 2, 4, 8, 16), "clusters that divide K, and add up through global memory"),
        Parameter(
            "DETERMINISTIC",
            1,
            (0, 1),
            "1: the sums of clusters are added in the order of k. 0: arrival order; results may differ between runs",
        ),
        Parameter(
            "UNALIGNED_OPERANDS",
            0,
            (0, 1, 2),
            "operands that are read in place, unaligned, instead of copied first. 1: A (B with SWAP); 2: both",
        ),
    ),
    presets=(
        preset("64x32-8", SPLIT=8),
        preset("skinny", BN=16, SPLIT=2, SWAP=1),
        preset("deep", BN=64, STAGES=6, SPLIT=8, DEPTH=2, CLUSTERS=8),
        preset("unaligned", BN=16, STAGES=5, SPLIT=2, SWAP=1, DEPTH=2, UNALIGNED_OPERANDS=1),
        preset("streaming", BM=144, BN=16, STAGES=3, SPLIT=1, SWAP=1, DEPTH=2),
        preset("small", BN=64, STAGES=2, SPLIT=1, UNALIGNED_OPERANDS=2),
    ),
    small={"STAGES": 2, "SPLIT": 2},
    grid="ceil((N if SWAP else M)/BM)*ceil((M if SWAP else N)/BN)*SPLIT*CLUSTERS",
    cluster="SPLIT",
    smem=f"STAGES*({_TALL_BYTES}+128*DEPTH*{_OTHER_ROWS}+16)+4*BM*(BN+4)+8",
    constraints=(
        Requires(
            "BM % (64*CONSUMERS) == 0 or CONSUMERS == 1 and UNALIGNED_OPERANDS == 0",
            "{BM} rows are not a multiple of 64 for each of {:CONSUMERS} consumers; others take one consumer and "
            "operands that TMA loads",
        ),
        divides("SPLIT", "BM"),
        hopper.accumulators_fit(192, 128, 64),  # without setmaxnreg
        Requires(
            f"UNALIGNED_OPERANDS == 0 or {hopper.ACCUMULATORS}+{_FRAGMENTS} <= {_WITH_FRAGMENTS}",
            f"{{:{hopper.ACCUMULATORS}}} accumulators and {{:{_FRAGMENTS}}} registers of an unaligned operand per "
            f"thread, but with {{:CONSUMERS}} consumers {{:{_WITH_FRAGMENTS}}} fit",
        ),
        _loads_fit(1, "BM*DEPTH/4"),
        _loads_fit(2, "(BM+2*BN)*DEPTH/4"),
        Requires(
            "DETERMINISTIC == 1 or CLUSTERS > 1",
            "DETERMINISTIC=0 is for the sums of several clusters, but {CLUSTERS}",
        ),
    ),
    tensor_maps=_maps,
    unaligned_operands=_unaligned_operands,
    workspace=_workspace,
)
