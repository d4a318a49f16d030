"""gemv for fp32 products with up to eight rows or columns: the time is that of reading the long operand.

Candidates (tiles, and how many blocks divide K) ─► predicted time ─► the fastest. A block goes through K in rounds: a
round is what its threads have in flight at once. It takes the block's latency and instructions, or the instructions of
all blocks on the SM, or as long as DRAM needs for all SMs. Constants are an H200's (tables/h200.toml), fitted by
benchmarks/fit_vectors.py; ``chosen`` switches the kernel on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from gemmsmith.choose import registers, simt
from gemmsmith.choose.cost_data import VectorCosts, measured_gpu, vector_costs, wgmma_costs
from gemmsmith.kernel.config import Config
from gemmsmith.ladder.gemv import MOST_VECTORS
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem, ceil_div

NAME = "gemv"
_LEAST_LONG, _LEAST_K = 256, 64  # of the long operand: rows, and their elements
_WARPS, _LANES = 16, 32  # warps on an SM, whose threads have 128 registers each
_SHARPNESS = 3  # of a maximum: of two equal limits both together take a quarter longer than one
_LEAST_DEPTH, _DEEPEST, _MOST_NUMBERS = 512, 2048, 8192  # of a k-tile of the vectors


@dataclass(frozen=True)
class Tile:
    """Rows of the long operand per block, and per warp; warps of a row; loads in flight."""

    long: int
    rows: int
    warps_k: int
    loads: int

    @property
    def resident(self) -> int:
        """Blocks on an SM."""
        return _WARPS // (self.long // self.rows * self.warps_k)

    @property
    def step(self) -> int:
        """k that a block has in flight."""
        return 128 * self.warps_k * self.loads // self.rows


# Fewer rows in a block mean more blocks, but each copies the short operand for itself.
_K_MAJOR = (Tile(32, 4, 1, 8), Tile(64, 4, 1, 8), Tile(16, 4, 2, 8), Tile(8, 4, 4, 4), Tile(4, 4, 8, 4))
_OF_FEW_VECTORS = (Tile(32, 4, 1, 16), Tile(16, 4, 2, 16), Tile(8, 4, 4, 8))  # whose accumulators leave registers
_ACROSS = (Tile(64, 8, 1, 8), Tile(32, 4, 1, 8), Tile(64, 8, 1, 16))  # rows do not run along k
_ACROSS_OF_FEW_VECTORS = (Tile(128, 16, 1, 16),)
_FEW_VECTORS, _FEW_ACROSS = 2, 4


def is_timed(problem: Problem) -> bool:
    """Whether products like this one were timed: batches and shorter ones were not, and go to the other kernels."""
    return problem.batch == 1 and max(problem.m, problem.n) >= _LEAST_LONG and problem.k >= _LEAST_K


def fastest(problem: Problem, sms: int, unaligned: int = 0) -> tuple[Config, float] | None:
    """The configuration predicted to be fastest on a GPU with clusters, and its seconds; None where C has more rows and
    columns.

    ``unaligned`` has bit 0 set where rows of A do not start on 16 bytes, bit 1 for B.
    """
    timed = ((config, predicted_seconds(problem, config, sms, unaligned)) for config in configurations(problem))
    return min(timed, key=lambda pair: pair[1], default=None)


def configurations(problem: Problem) -> Iterator[Config]:
    """All that are worth considering."""
    few = min(problem.m, problem.n)
    if not problem.flops or few > MOST_VECTORS:
        return
    swap, vectors = problem.m < problem.n, 1 << (few - 1).bit_length()
    k_major = problem.trans_b if swap else not problem.trans_a
    tiles, of_few, most = (_K_MAJOR, _OF_FEW_VECTORS, _FEW_VECTORS) if k_major else (
        _ACROSS, _ACROSS_OF_FEW_VECTORS, _FEW_ACROSS)  # fmt: skip
    for tile in (*tiles, *(of_few if few <= most else ())):
        if tile.long <= vectors:  # the longer side of a tile says which operand is the long one
            continue
        for cluster in (1, 2, 4, 8):
            if cluster == 1 or (cluster - 1) * tile.step < problem.k:  # else some blocks have nothing to do
                yield _config(tile, vectors, swap, cluster, problem.k)


def _config(tile: Tile, vectors: int, swap: bool, cluster: int, k: int) -> Config:
    """With two k-tiles in at most 64 KB; with shorter ones for a short K, as threads go through whole ones."""
    needed = 1 << (ceil_div(k, cluster) - 1).bit_length()
    depth = max(tile.step, min(_DEEPEST, _MOST_NUMBERS // vectors, max(_LEAST_DEPTH, needed)))
    return _menu(tile, vectors, swap, cluster, depth)


@cache
def _menu(tile: Tile, vectors: int, swap: bool, cluster: int, depth: int) -> Config:
    bm, bn = (vectors, tile.long) if swap else (tile.long, vectors)
    return rung_named(NAME).config({
        "BM": bm, "BN": bn, "BK": depth, "ROWS": tile.rows, "WARPS_K": tile.warps_k, "LOADS": tile.loads,
        "CLUSTER_K": cluster, "MIN_BLOCKS": tile.resident,
    })  # fmt: skip


def predicted_seconds(problem: Problem, config: Config, sms: int, unaligned: int = 0,
                      costs: VectorCosts | None = None) -> float:  # fmt: skip
    """Predicted time of the product: the sum of its waves of blocks."""
    p, c, cluster = problem, costs or vector_costs(), config["CLUSTER_K"]
    swap, long, vectors = config["BM"] < config["BN"], *sorted((config["BM"], config["BN"]), reverse=True)
    k_major = p.trans_b if swap else not p.trans_a
    rows = _rows_of_a_thread(config, long, k_major, bool(unaligned & (2 if swap else 1)))
    step = 128 * config["WARPS_K"] * config["LOADS"] // config["ROWS"]
    rounds = ceil_div(ceil_div(p.k, step), cluster)
    blocks = ceil_div(p.m, config["BM"]) * ceil_div(p.n, config["BN"]) * p.batch * cluster
    in_large_clusters = sms * wgmma_costs().sms_in_large_clusters // measured_gpu().sms
    usable = max(1, in_large_clusters if cluster > 2 else sms)

    loads = long * step / _LANES  # of a warp, 4 bytes per lane, in a block's round
    reads = (vectors if k_major else max(1.0, vectors / 4)) / rows  # of 128 bytes of shared memory, for each of them
    work = loads * ((c.along if k_major else c.across) + reads * c.shared + vectors * c.products)
    work += step / _LANES * vectors * c.copy
    ends = c.block + loads * c.last + rows * vectors * (c.sum_along if k_major else c.sum_across)
    distinct = p.copies[swap] / p.batch  # of the long operands of a batch
    read = 4 * long * p.k / (rounds * cluster) * distinct / c.dram

    def wave(count: int) -> float:
        limits = (c.round + work, ceil_div(count, usable) * work, count * read)
        each_round: float = sum(limit**_SHARPNESS for limit in limits) ** (1 / _SHARPNESS)
        return ends + rounds * each_round

    at_once = usable * config["MIN_BLOCKS"]
    full, rest = divmod(blocks, at_once)
    waves = (full * wave(at_once) if full else 0.0) + (wave(rest) if rest else 0.0)
    return c.fixed + (c.cluster if cluster > 1 else 0.0) + waves


def _rows_of_a_thread(config: Config, long: int, k_major: bool, unaligned: bool) -> int:
    """Rows that a number of the short operand is multiplied by, once it is in registers."""
    return config["ROWS"] if k_major else ceil_div(long, min(_LANES, long if unaligned else long // 4))


def of_another(kernel: str, seconds: float, costs: VectorCosts | None = None) -> float:
    """What another kernel takes for such a product. Its own model was fitted to larger ones: simt_best's counts too
    much for the beginning, and that of fp32_wgmma_registers is right in the mean, but too short where it is chosen."""
    c = costs or vector_costs()
    if kernel == simt.NAME:
        return max(seconds - c.simt_less, c.fixed)
    return seconds * c.registers_more if kernel == registers.NAME else seconds
