"""gemv for fp32 products with up to eight rows or columns: the time is that of reading the long operand.

Candidates (tiles, and how many blocks divide K) ─► predicted time ─► the fastest. The predicted time is that of DRAM,
or of the SM with the most blocks: either bytes that it receives, or rounds of loads, each of which takes the latency of
DRAM. Constants are an H200's (tables/h200.toml), where ``chosen`` switches the kernel on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from gemmsmith.choose.cost_data import measured_gpu, vector_costs, wgmma_costs
from gemmsmith.kernel.config import Config
from gemmsmith.ladder.gemv import MOST_VECTORS
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem, ceil_div

NAME = "gemv"
_WARPS = 16  # on an SM, whose threads have 128 registers each
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


def predicted_seconds(problem: Problem, config: Config, sms: int, unaligned: int = 0) -> float:
    """Predicted time of the product: the sum of its waves of blocks."""
    p, c, cluster = problem, vector_costs(), config["CLUSTER_K"]
    swap, long, vectors = config["BM"] < config["BN"], *sorted((config["BM"], config["BN"]), reverse=True)
    step = 128 * config["WARPS_K"] * config["LOADS"] // config["ROWS"]
    in_large_clusters = sms * wgmma_costs().sms_in_large_clusters // measured_gpu().sms
    usable = max(1, in_large_clusters if cluster > 2 else sms)
    blocks = ceil_div(p.m, config["BM"]) * ceil_div(p.n, config["BN"]) * p.batch * cluster
    rounds = ceil_div(ceil_div(p.k, step), cluster)
    received = rounds * step * 4 * (long + vectors * c.short)
    ingress = c.unaligned_ingress if unaligned & (2 if swap else 1) else c.ingress

    def wave(count: int) -> float:
        from_dram = _bytes(p) * count / blocks / c.dram
        return c.block + max(from_dram, ceil_div(count, usable) * received / ingress, rounds * c.round)

    at_once = usable * config["MIN_BLOCKS"]
    full, rest = divmod(blocks, at_once)
    return c.fixed + (c.cluster if cluster > 1 else 0.0) + full * wave(at_once) + (wave(rest) if rest else 0.0)


def _bytes(problem: Problem) -> int:
    p = problem
    return 4 * ((p.copies[0] * p.m + p.copies[1] * p.n) * p.k + p.batch * p.m * p.n)
