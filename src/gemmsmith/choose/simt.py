"""The configuration of simt_best for a problem: candidates → predicted time → the fastest.

The predicted time is that of the SM with the most work: its tiles' products at the measured rate of such tiles, the
beginning and end of each wave of blocks, the cost of shared tiles; or DRAM time if that is longer. Rates and costs are
an H200's (tables/h200.toml). Other GPUs have other clocks, but the order of configurations depends on the number of
tiles and SMs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from gemmsmith.choose.cost_data import MOST_WORKSPACE, measured_gpu, simt_costs, wgmma_costs
from gemmsmith.choose.simt_features import features, simt_trees
from gemmsmith.gpus import architecture, cuda_limits
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.constraints import DYNAMIC_SMEM, REGISTERS
from gemmsmith.ladder.registry import rung_named
from gemmsmith.ladder.simt_best import MOST_SHARERS, shared_tiles, threads, tiles_of
from gemmsmith.problem import Problem, ceil_div

NAME = "simt_best"
_WARPS = 8  # on an SM; with fewer, the latency of shared memory shows
_BK = 16  # the default
BY_PROLOGUE, BY_REGISTERS = 1, 2  # values of TRANSPOSED_COPY
# Tiles that are faster with two stages than with three where registers hold the next one: 3.6 % less time at
# 1816x404x3740, 0.3 % at 1000x1000x10000.
_TILE = (("BM", 128), ("BN", 256), ("TM", 16))
_TWO_STAGES = ((128, 64, 16), (128, 128, 16))
# Clocks of fma in a k-tile that loads into registers need to arrive: with half as many they take 1.2 to 1.7 times as
# long as predicted (eight shapes), with as many 0.9 to 1.1.
_LOADED_WITHIN = 1024
_OTHER_REGISTERS = 40  # beside accumulators, fragments and chunks: tiles that need more than there are spill, or nearly
# k-tiles this short are for products with no more than their stages hold: from K = 28 on they are slower (17 shapes).
_SHORT = 8
# Tiles of three times a power of two of columns are for products whose columns fill one, but not the next narrower one.
_THREES = {48: 32, 96: 64}
_NARROW_COLUMNS, _NARROW_ROWS = 16, 8  # of tiles for products that have no more
_ROW = 4  # floats of 16 bytes: rows of C that start on such are stored as vectors
_CORRECTED = 1.4  # of the fastest prediction: those further away were rarely timed
_MOST_CORRECTED = 2e11  # FLOP: the trees saw no larger product


@dataclass(frozen=True)
class Candidate:
    """A tile. ``resident`` blocks run on an SM at once; ``efficiency`` is the measured share of the SM's peak."""

    changes: tuple[tuple[str, int], ...]
    resident: int
    efficiency: float
    clusters: tuple[int, ...] = ()  # values of CLUSTER_K to try

    @property
    def most_smem(self) -> int:
        """Bytes of shared memory, in the layout that needs most."""
        c = self.config(0)
        return 4 * c["STAGES"] * c["BK"] * (c["BM"] + c["BN"] + 8)

    @property
    def is_narrow(self) -> bool:
        """Whether the tile is for products that are read rather than multiplied."""
        c = self.config(0)
        return c["BN"] <= _NARROW_COLUMNS or c["BM"] <= _NARROW_ROWS

    def holds(self, problem: Problem) -> bool:
        """False where a narrow tile does not hold all columns, or all rows, of the product: wider ones read less; where
        one has two stages, but K has more k-tiles; and where k-tiles are short, but K is not."""
        c = self.config(0)
        if self.is_narrow and c["STAGES"] == 2 and problem.k > 2 * c["BK"]:
            return False
        if c["BN"] in _THREES and not _THREES[c["BN"]] < problem.n <= c["BN"]:
            return False
        if c["BK"] <= _SHORT and problem.k > c["BK"] * (c["STAGES"] if c["STAGES"] > 2 else 1):
            return False
        return (c["BN"] > _NARROW_COLUMNS or problem.n <= c["BN"]) and (c["BM"] > _NARROW_ROWS or problem.m <= c["BM"])

    def ways(self, problem: Problem, possible: tuple[int, ...]) -> tuple[int, ...]:
        """Of the possible values of TRANSPOSED_COPY those to try. Narrow tiles read one operand once, and wait for it:
        by registers where that one is K-major, which takes three quarters of the time of copies of 4 bytes
        (19876x4x11468 NT, 9000x8x9000 NN, 10376x12x14104 NT)."""
        if self.is_narrow:
            k_major = problem.trans_b if self.config(0)["BM"] <= _NARROW_ROWS else not problem.trans_a
            return (BY_REGISTERS,) if k_major and BY_REGISTERS in possible else (0,)
        suits = BY_REGISTERS not in possible or self.suits_registers(problem)
        return possible if suits else tuple(way for way in possible if way != BY_REGISTERS)

    def suits_registers(self, problem: Problem) -> bool:
        """Whether a thread has registers for the chunks of the next k-tile, and the fma of one take as long as they do
        to arrive."""
        c, hopper = self.config(0), architecture(90)
        per_thread = min(REGISTERS, hopper.registers_per_sm // (self.resident * threads(c)))
        rows = c["BM"] * (not problem.trans_a) + c["BN"] * problem.trans_b
        used = c["TM"] * c["TN"] + 2 * (c["TM"] + c["TN"]) + rows * c["BK"] // threads(c) + _OTHER_REGISTERS
        clocks = self.resident * c["BM"] * c["BN"] * c["BK"] / measured_gpu().units.fma_lanes
        return used <= per_thread and clocks >= _LOADED_WITHIN

    @cache  # noqa: B019 - candidates live as long as the module
    def config(self, sharers: int, transposed: int = 0, cluster: int = 1) -> Config:
        values = {**dict(self.changes), "SHARERS": sharers, "TRANSPOSED_COPY": transposed, "CLUSTER_K": cluster}
        if transposed == BY_REGISTERS:
            values["UNROLL"] = max(2, 4 // values.get("TEAMS", 1))  # chunks of four k
            if tuple(values.get(name, default) for name, default in _TILE) in _TWO_STAGES:
                values["STAGES"] = 2
        return rung_named(NAME).config(values)


@cache
def candidates() -> tuple[Candidate, ...]:
    """Largest tile first: of equally fast ones the first is taken."""
    return tuple(
        Candidate((*tile.config, ("MIN_BLOCKS", tile.resident)), tile.resident, tile.efficiency, tile.clusters)
        for tile in simt_costs().candidates
    )


def configuration_for(problem: Problem, sms: int, unaligned: int = 0, clusters: bool = False) -> Config:
    """The configuration predicted to be fastest for ``problem`` on a GPU with ``sms`` SMs."""
    return fastest(problem, sms, unaligned, clusters)[0]


def fastest(problem: Problem, sms: int, unaligned: int = 0, clusters: bool = False) -> tuple[Config, float]:
    """The same with its predicted seconds.

    ``unaligned`` has bit 0 set where rows of A do not start on 16 bytes, bit 1 for B; ``clusters``: the GPU has them.
    """
    timed = [(config, predicted_seconds(problem, candidate, config, sms, unaligned))
             for candidate, config in configurations(problem, sms, unaligned, clusters)]  # fmt: skip
    if clusters and 0 < problem.flops <= _MOST_CORRECTED:
        timed = corrected(problem, timed, sms, unaligned)
    return min(timed, key=lambda pair: pair[1])


def corrected(problem: Problem, timed: list[tuple[Config, float]], sms: int,
              unaligned: int) -> list[tuple[Config, float]]:  # fmt: skip
    """Configurations near the fastest prediction, with predictions corrected by what the model errs on an H200. On
    shapes that the trees were not fitted to, the choice loses 3.0 % to the best timed one, without them 5.7 %."""
    fastest = min(seconds for _, seconds in timed)
    near = [each for each in timed if each[1] <= fastest * _CORRECTED]
    factors = np.exp(simt_trees()(features(problem, near, sms, unaligned)))
    return [(config, seconds * float(factor)) for (config, seconds), factor in zip(near, factors, strict=True)]


def configurations(problem: Problem, sms: int, unaligned: int = 0,
                   clusters: bool = False) -> list[tuple[Candidate, Config]]:  # fmt: skip
    """All that are worth considering, largest tile first."""
    transposed = _ways_of_transposing(problem, unaligned, clusters)
    # Where rows start on 8 bytes, registers were timed with these tiles alone.
    on_8 = clusters and _transposed_numbers(problem, 0) > 0 and _rows_on_8_bytes(problem, unaligned)
    found = []
    for candidate in candidates():
        if not clusters and candidate.most_smem > DYNAMIC_SMEM:  # sm_86, sm_89 and sm_120 have no more
            continue
        if not candidate.holds(problem):
            continue
        in_threes = dict(candidate.changes).get("BN") in _THREES
        ways = candidate.ways(problem, (*transposed, BY_REGISTERS) if on_8 and in_threes else transposed)
        for each in ways:
            found += [(candidate, candidate.config(sharers, each)) for sharers in _sharers(candidate, problem, sms)]
        if clusters:
            k_tiles = ceil_div(problem.k, dict(candidate.changes).get("BK", _BK))
            found += [(candidate, candidate.config(0, each, count)) for each in ways
                      for count in candidate.clusters if count <= k_tiles]  # fmt: skip
    return found


def _ways_of_transposing(problem: Problem, unaligned: int, clusters: bool) -> tuple[int, ...]:
    """Values of TRANSPOSED_COPY. In registers only on GPUs with clusters: it was timed on no other."""
    numbers = _transposed_numbers(problem, unaligned)
    prologue = (BY_PROLOGUE,) if 0 < 4 * numbers <= MOST_WORKSPACE else ()
    registers = (BY_REGISTERS,) if numbers and clusters and not unaligned else ()
    return (0, *prologue, *registers)


def _rows_on_8_bytes(problem: Problem, unaligned: int) -> bool:
    """Whether rows of A and B do, and some not on 16. Where a leading dimension does not say why they do not start on
    16, the matrix itself starts anywhere."""
    known = ((problem.lda, 1), (problem.ldb, 2))
    return unaligned > 0 and all(not unaligned & bit or ld % _ROW == _ROW // 2 for ld, bit in known)


def _transposed_numbers(problem: Problem, unaligned: int) -> int:
    """Elements of the operands that the transposing prologue copies: those that are K-major or unaligned."""
    a = problem.copies[0] * problem.m * problem.k if not problem.trans_a or unaligned & 1 else 0
    return a + (problem.copies[1] * problem.n * problem.k if problem.trans_b or unaligned & 2 else 0)


def _sharers(candidate: Candidate, problem: Problem, sms: int) -> list[int]:
    """Values of SHARERS to try: none, one per SM, or as many blocks as the GPU holds, where the kernel has that value;
    and powers of two, with which a power of two of tiles is shared evenly."""
    legal = next(p.legal for p in rung_named(NAME).parameters if p.name == "SHARERS")
    even = 2 ** (sms.bit_length() - 1)
    some = dict.fromkeys((sms, candidate.resident * sms, even, candidate.resident * even))
    if candidate.is_narrow:  # fewer blocks read more slowly
        some = dict.fromkeys((candidate.resident * sms,))
    return [0, *(count for count in some if count in legal and count * problem.batch <= MOST_SHARERS)]


def predicted_seconds(problem: Problem, candidate: Candidate, config: Config, sms: int, unaligned: int = 0) -> float:
    """Predicted time of the product."""
    costs, gpu, cluster = simt_costs(), measured_gpu(), config["CLUSTER_K"]
    k_tiles, outputs = ceil_div(problem.k, config["BK"]), config["BM"] * config["BN"]
    usable = sms * wgmma_costs().sms_in_large_clusters // gpu.sms if cluster > 2 else sms
    tiles, wave = tiles_of(problem, config) * problem.batch * cluster, candidate.resident * usable
    shared = shared_tiles(problem, config) * problem.batch
    full, rest = divmod(tiles - shared, wave)
    rate = gpu.units.fma_lanes * (gpu.boost_mhz * 1e6) * candidate.efficiency
    seconds = costs.fixed + (costs.cluster if cluster > 1 else 0.0)
    if config["TRANSPOSED_COPY"] == BY_REGISTERS:
        rate *= costs.layout_rate["TN"] * costs.registers_rate
    elif config["TRANSPOSED_COPY"] == BY_PROLOGUE:
        seconds += costs.transpose + 8 * _transposed_numbers(problem, unaligned) / costs.transpose_bandwidth
        rate *= costs.layout_rate["TN"]
    else:
        rate *= costs.layout_rate[problem.layout] * (costs.unaligned_rate if unaligned else 1)
    # Blocks that run on an SM at once, their k-tiles, and how often: whole waves, the last wave, shared tiles.
    steps = ceil_div(k_tiles, cluster)
    waves = [(candidate.resident, steps, full), (ceil_div(rest, usable), steps, 1 if rest else 0)]
    if config["SHARERS"]:
        rate *= costs.shared_rate
    if shared:
        sharers = min(config["SHARERS"] * problem.batch, shared * k_tiles)
        waves.append((ceil_div(sharers, sms), ceil_div(shared * k_tiles, sharers), 1))
        parts = ceil_div(sharers, shared) + (sharers % shared > 0)
        seconds += costs.sharing + parts * outputs * 4 / (costs.reading * threads(config))
    stored = outputs * costs.unaligned_store if problem.ldc % _ROW else 0.0
    loaded = 4 * config["BK"] * (min(config["BM"], problem.m) + min(config["BN"], problem.n))  # of a k-tile
    end = costs.tile + _end(config)
    on_sms = sum(
        count * (max(blocks * steps * outputs * config["BK"] / (rate * _busy(blocks, config)),
                     blocks * steps * loaded / _ingress(blocks * (config["STAGES"] - 1) * loaded))
                 + blocks * stored + end)
        for blocks, steps, count in waves if count
    )  # fmt: skip
    moved = problem.batch * 4 * (problem.m * problem.k + problem.k * problem.n + problem.m * problem.n)
    return seconds + max(on_sms, moved / costs.bandwidth)


def _end(config: Config) -> float:
    """Adding up what teams and a cluster's blocks have, and storing it; for a thread with its share of outputs."""
    costs, outputs, teams = simt_costs(), config["TM"] * config["TN"], config["TEAMS"]
    adding = outputs * costs.team if teams > 1 else 0.0
    return adding + outputs / (teams * config["CLUSTER_K"]) * costs.store


def _ingress(in_flight: int) -> float:
    """Bytes per second into an SM that waits for so many bytes at a time."""
    return min(simt_costs().ingress, in_flight / simt_costs().latency)


def _busy(blocks: int, config: Config) -> float:
    """The rate of so many blocks on an SM, over that with enough warps to hide the latency of shared memory."""
    warps = blocks * threads(config) // cuda_limits().warp_size
    return float(simt_costs().half_warps_rate ** max(0.0, math.log2(_WARPS / warps)))
